"""Weights that a run keeps: those of the trained networks, and used only where they are whole."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestrator import load_network, plan, run, study_from
from orchestrator.store import StoreError, trials
from orchestrator.weights import read

TEACHER = {
    "dataset": "teacher", "samples": 80, "test_samples": 40, "inputs": 6, "outputs": 3, "width": 8,
    "targets": "classes",
}  # fmt: skip

STUDY = {
    "name": "kept",
    "task": TEACHER,
    "training": {"steps": 12, "record": 1},
    "rules": ["bp", "dfa"],
    "grid": {"depth": 2, "width": 8, "seeds": 2},
    "search": {"lr": {"low": 0.01, "high": 0.1}, "rounds": 1, "points": 2, "seeds": 1},
    "measure": {"alignment": False, "probes": False, "save_weights": True},
}


SHAPES = {
    "W1": (6, 8), "W2": (8, 8), "W3": (8, 3), "b1": (1, 8), "b2": (1, 8), "b3": (1, 3)
}  # fmt: skip


def study(**measure):
    return study_from(STUDY | {"measure": STUDY["measure"] | measure})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The study trained with and without its weights kept."""
    folder = tmp_path_factory.mktemp("weights")
    run(study(), folder / "kept", inline=True)
    run(study(save_weights=False), folder / "not", inline=True)
    return folder


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained / "kept", tmp_path / "copy")


def evaluated(folder):
    return [row["trial"] for row in trials(folder).to_pylist() if row["phase"] == "evaluate"]


def equal(one, other):
    """Whether two networks' parameters are the same, bit for bit."""
    pairs = [*zip(one.weights, other.weights, strict=True)]
    pairs += zip(one.biases, other.biases, strict=True)
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs)


def files(folder):
    return sorted(path.name for path in (folder / "weights").iterdir())


def test_the_weights_of_every_evaluated_network_are_kept_and_change_no_row(trained, table):
    ids = evaluated(trained / "kept")
    assert files(trained / "kept") == sorted(f"{trial}.npz" for trial in ids)
    assert len(ids) == 4
    assert table(trained / "kept") == table(trained / "not")
    assert not (trained / "not" / "weights").exists()


def test_kept_weights_are_those_of_the_network_trained_again(trained, monkeypatch, capsys):
    for trial in evaluated(trained / "kept"):
        _, again, _ = load_network(trained / "not", trial)
        with monkeypatch.context() as patch:
            patch.delattr("rules.train.fit")  # nothing trains
            net, kept, task = load_network(trained / "kept", trial)
        assert equal(kept, again)
        x, labels = task.test.batch(1)
        right = (net.logits(kept, x).argmax(-1) == labels).double().mean().item()
        (row,) = [r for r in trials(trained / "kept").to_pylist() if r["trial"] == trial]
        assert right == row["test_accuracy"]
    assert capsys.readouterr().err == ""


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def flipped(content):
    """One bit of the first weights is another."""
    place = content.index(b"W1.npy") + 200
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def changed(**arrays):
    return lambda content: npz(**dict(np.load(io.BytesIO(content))) | arrays)


def bomb(content):
    """A small file that unpacks to a large one."""
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("W9.npy", bytes(10**7))
    return file.getvalue()


class Pickled:
    def __reduce__(self):
        return Path.touch, (Path("was run"),)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: b"", "it is no npz file"),
        (lambda content: b"weights", "it is no npz file"),
        (lambda content: content[: len(content) // 2], "it is no npz file"),
        (flipped, "Bad CRC-32 for file 'W1.npy'"),
        (changed(trial=np.array("0123456789abcdef")), "it is another network's"),
        (changed(W1=np.zeros((8, 6), np.float32)), "W1 is float32 (8, 6), not float32 (6, 8)"),
        (changed(b2=np.zeros((1, 8))), "b2 is float64 (1, 8), not float32 (1, 8)"),
        (changed(W4=np.zeros((1, 8))), "it holds other arrays"),
        (changed(W1=np.array(Pickled())), "allow_pickle=False"),
        (lambda content: npz(W1=np.zeros(3)), "it holds other arrays"),
        (bomb, "it holds other arrays"),
        (None, "it is not there"),
    ],
)
def test_a_file_that_is_not_the_networks_is_named(trained, tmp_path, capsys, damage, reason):
    trial = evaluated(trained / "kept")[0]
    path = tmp_path / "weights" / f"{trial}.npz"
    path.parent.mkdir()
    if damage:
        path.write_bytes(damage((trained / "kept" / "weights" / path.name).read_bytes()))
    assert read(tmp_path, trial, SHAPES, "float32") is None
    said = capsys.readouterr().err
    assert said.startswith(f"rulesweep: {path} is not used, ")
    assert reason in said
    assert said.endswith("; the network is trained again\n")
    assert said.count("\n") == 1
    assert not Path("was run").exists()


def test_a_damaged_files_network_is_trained_again(trained, copy, capsys):
    trial = evaluated(copy)[0]
    path = copy / "weights" / f"{trial}.npz"
    path.write_bytes(flipped(path.read_bytes()))
    _, params, _ = load_network(copy, trial)
    assert capsys.readouterr().err.startswith(f"rulesweep: {path} is not used, Bad CRC-32")
    assert equal(params, load_network(trained / "kept", trial)[1])


def test_no_trial_leads_out_of_the_folder(copy):
    shutil.copy(copy / "weights" / f"{evaluated(copy)[0]}.npz", copy / "outside.npz")
    for trial in ("../outside", str(copy / "outside")):
        with pytest.raises(StoreError, match="is none that the study's rules"):
            load_network(copy, trial)


def test_a_finished_run_keeps_its_rows_when_weights_are_asked_for_later(trained, tmp_path):
    folder = shutil.copytree(trained / "not", tmp_path / "later")
    assert run(study(), folder, inline=True).trained == 0
    assert not (folder / "weights").exists()
    more = study_from(STUDY | {"grid": STUDY["grid"] | {"seeds": 3}})
    assert run(more, folder, inline=True).trained == 2
    assert len(files(folder)) == 2


def test_a_study_that_takes_rows_of_another_run_takes_their_weights(trained, table, copy, tmp_path):
    ids = evaluated(copy)
    (copy / "weights" / f"{ids[0]}.npz").unlink()
    result = run(study(), tmp_path / "second", inline=True, reuse=copy)
    assert (result.reused, result.trained) == (8, 0)
    assert table(tmp_path / "second") == table(trained / "kept")
    assert files(tmp_path / "second") == sorted(f"{trial}.npz" for trial in ids[1:])
    for trial in ids[1:]:
        place = Path("weights", f"{trial}.npz")
        assert (tmp_path / "second" / place).read_bytes() == (copy / place).read_bytes()
    run(study(save_weights=False), tmp_path / "without", inline=True, reuse=copy)
    assert table(tmp_path / "without") == table(trained / "kept")
    assert not (tmp_path / "without" / "weights").exists()


def test_weights_that_cannot_be_read_are_one_line(copy, tmp_path):
    path = copy / "weights" / f"{evaluated(copy)[0]}.npz"
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match=f"{path} cannot be read: Is a directory$"):
        run(study(), tmp_path / "second", inline=True, reuse=copy)


def test_a_diverged_network_has_no_weights_and_says_so_at_once(tmp_path, monkeypatch):
    wild = STUDY | {"rules": ["bp"], "search": {"lr": 1e6}}
    run(study_from(wild), tmp_path / "wild", inline=True)
    assert {row["status"] for row in trials(tmp_path / "wild").to_pylist()} == {"diverged"}
    assert not (tmp_path / "wild" / "weights").exists()
    monkeypatch.delattr("rules.train.fit")
    for trial in evaluated(tmp_path / "wild"):
        with pytest.raises(StoreError, match=f"{trial} diverged: there are no weights to load"):
            load_network(tmp_path / "wild", trial)


def test_a_plan_says_how_much_room_the_weights_take(trained):
    found = plan(study(), measure=False)
    sizes = sum(path.stat().st_size for path in (trained / "kept" / "weights").iterdir())
    assert found.weights == 4 * 4 * (6 * 8 + 8 * 8 + 8 * 3 + 8 + 8 + 3) / 1e6
    assert found.weights * 1e6 < sizes < found.weights * 1e6 + 4 * 8 * 1024
    assert plan(study(save_weights=False), measure=False).weights == 0


def test_a_full_disk_is_one_line_and_leaves_no_row_without_its_weights(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "weights").write_text("a file in the place of the folder")
    with pytest.raises(StoreError, match=r"weights cannot be written to .*nothing is lost"):
        run(study(), tmp_path / "full", inline=True)
    assert {r["status"] for r in trials(tmp_path / "full").to_pylist()} == {"pending", "ok"}
    assert all(
        row["status"] == "pending"
        for row in trials(tmp_path / "full").to_pylist()
        if row["phase"] == "evaluate"
    )
