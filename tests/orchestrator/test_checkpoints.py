"""Long packs that go on where they were: other workers, other drivers, other packs."""

import os
import stat
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from orchestrator import checkpoints as places
from orchestrator.checkpoints import Place, Shelf, opened, seconds_from, tidy
from orchestrator.columns import from_blob, named, notes_of
from orchestrator.driver import importable, settings
from orchestrator.grid import expand
from orchestrator.result_row import made_by
from orchestrator.store import StoreError, trials
from orchestrator.trial import Pack, trial_of
from orchestrator.worker import Worker

ENDS = """
mark = Path("{folder}") / "ended"
if trace.step == 7 and not trace.measuring and len(trace.losses) > {least} and not mark.exists():
    mark.touch()
    {how}
"""


@pytest.fixture
def ending(own_rule, tmp_path):
    """A rule that ends its process once, at step 7, in a pack of more networks than `least`."""

    def write(how, least=0):
        return own_rule("ending", ENDS.format(folder=tmp_path, how=how, least=least))

    return write


@pytest.fixture
def study(small):
    """Five networks of the rule, in one pack, measured whole."""
    importable(None)
    return lambda rule, **parts: small(
        rules=[rule],
        training={"steps": 12, "batch_size": 16, "record": [3, 5, 9]},
        grid={"depth": 2, "width": 8, "seeds": 5},
        search={"lr": 0.1},
        **parts,
    )


def pack_of(study, seeds=range(5)):
    (evaluation,) = expand(study).evaluations
    cell = evaluation.cell
    return Pack(tuple(trial_of(cell, (s, s), {"lr": 0.1}, tuning=False) for s in seeds))


def worker_of(study, place):
    return Worker(expand(study).data, **settings(study, place))


def results(blob):
    """What must be equal, as text by seed; the steps gone on from; the notes."""
    table = from_blob(blob)
    rows = table.to_pylist()
    kept = named("coordinate", "result")
    equal = {row["init_seed"]: {name: repr(row[name]) for name in kept} for row in rows}
    return equal, {row["init_seed"]: row["continued_step"] for row in rows}, notes_of(table)


def leave(worker, pack):
    with pytest.raises(KeyboardInterrupt):
        worker.train_pack(pack.as_dict())


def test_a_pack_goes_on_however_it_is_cut_and_says_from_which_step(ending, study, tmp_path):
    given = study(ending("raise KeyboardInterrupt"))
    place = opened(tmp_path, 0)
    leave(worker_of(given, place), pack_of(given))
    (left,) = Path(place.folder).glob("*.checkpoint")
    expected, begun, _ = results(worker_of(given, None).train_pack(pack_of(given).as_dict()))
    assert set(begun.values()) == {None}
    slow = Place(place.folder, place.token, 60)
    for cut in ([0, 1], [2, 3, 4], [4, 0], [3]):
        pack = pack_of(given, cut)
        found, steps, notes = results(worker_of(given, slow).train_pack(pack.as_dict()))
        assert found == {seed: expected[seed] for seed in cut}
        assert (set(steps.values()), notes) == ({7}, [f"{len(cut)} networks go on from step 7"])
    assert list(Path(place.folder).glob("*.checkpoint")) == [left]


def test_networks_of_unlike_progress_train_apart_and_come_back_in_order(ending, study, tmp_path):
    given = study(ending("raise KeyboardInterrupt"))
    place = opened(tmp_path, 0)
    leave(worker_of(given, place), pack_of(given, [3, 1]))
    mixed = pack_of(given, [0, 1, 2, 3, 4])
    found, steps, _ = results(worker_of(given, place).train_pack(mixed.as_dict()))
    expected, _, _ = results(worker_of(given, None).train_pack(mixed.as_dict()))
    assert (found, list(found)) == (expected, [0, 1, 2, 3, 4])
    assert steps == {0: None, 1: 7, 2: None, 3: 7, 4: None}


RAISES = """
if trace.step == 9 and not trace.measuring and 3 in trace.streams.seeds:
    raise ValueError("three")
"""


def test_a_rule_that_raises_does_not_cost_its_mates_their_steps(own_rule, study, tmp_path):
    given = study(own_rule("raises", RAISES))
    pack = pack_of(given)
    found, steps, _ = results(worker_of(given, opened(tmp_path, 0)).train_pack(pack.as_dict()))
    expected, _, _ = results(worker_of(given, None).train_pack(pack.as_dict()))
    assert found == expected
    assert set(steps) == {0, 1, 2, 3, 4}
    assert [steps[seed] for seed in (0, 1, 2, 4)] == [9] * 4


def test_a_checkpoint_of_other_code_is_not_used_and_that_is_said(ending, study, tmp_path):
    given = study(ending("raise KeyboardInterrupt"))
    place = opened(tmp_path, 0)
    leave(worker_of(given, place), pack_of(given))
    (left,) = Path(place.folder).glob("*.checkpoint")
    edited = tmp_path / "ending.py"
    edited.write_text(edited.read_text() + "\n# edited\n")
    pack = pack_of(given)
    slow = Place(place.folder, place.token, 60)
    found, steps, notes = results(worker_of(given, slow).train_pack(pack.as_dict()))
    expected, _, _ = results(worker_of(given, None).train_pack(pack.as_dict()))
    assert (found, set(steps.values())) == (expected, {None})
    (note,) = notes
    assert note.startswith(f"checkpoint {left} is not used: it was made with source ")


def test_every_version_that_could_change_a_number_marks_a_checkpoint(small):
    made = made_by(expand(small()).evaluations[0].cell)
    assert set(made) == {"device", "bitwise", "torch", "numpy", "rulesweep", "code", "source"}
    assert made["torch"] == torch.__version__


@pytest.mark.parametrize(
    "content", [b"", b"[]\n", b"{}\n", b"\0" * 99, b'{"networks": [1]}\n'], ids=range(5)
)
def test_a_strangers_checkpoint_is_ignored_and_named(study, tmp_path, own_rule, content):
    given = study(own_rule("strangers"))
    place = opened(tmp_path, 60)
    path = Path(place.folder) / "0.checkpoint"
    path.write_bytes(content)
    _, steps, notes = results(worker_of(given, place).train_pack(pack_of(given, [0]).as_dict()))
    assert steps == {0: None}
    assert notes == [f"checkpoint {path} is not used: its first line is none of ours"]


def test_a_worker_that_cannot_reach_the_run_folder_keeps_checkpoints_of_its_own(
    ending, study, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    given = study(ending("raise KeyboardInterrupt"))
    place = Place(str(tmp_path / "elsewhere"), "token", 0)
    leave(worker_of(given, place), pack_of(given))
    (left,) = (tmp_path / "tmp").rglob("*.checkpoint")
    for folder in left.parents[:2]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    worker = worker_of(given, Place(place.folder, place.token, 60))
    _, steps, _ = results(worker.train_pack(pack_of(given).as_dict()))
    assert set(steps.values()) == {7}
    assert left.exists()  # until the worker goes on
    worker.train_pack(pack_of(given, [7]).as_dict())
    assert not left.exists()


def test_a_folder_of_another_user_or_that_others_can_read_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = tmp_path / f"rulesweep-{os.getuid()}"
    mine.mkdir(mode=0o755)
    assert Shelf(Place("/nowhere", "token", 0)).folder is None
    mine.rmdir()
    (tmp_path / "his").mkdir(mode=0o700)
    mine.symlink_to(tmp_path / "his")
    shelf = Shelf(Place("/nowhere", "token", 0))
    assert shelf.folder is None
    assert shelf.notes == [
        "no checkpoints are kept: neither the run folder nor a private one is there"
    ]


def test_a_folder_counts_as_reached_only_where_the_drivers_token_lies(tmp_path):
    place = opened(tmp_path, 0)
    assert Shelf(place).folder == Path(place.folder)
    assert places.reached(Place(place.folder, "another", 0)) is None
    assert opened(tmp_path, 0).token != place.token


def test_what_is_stale_or_half_written_is_removed(tmp_path):
    week, hour = 7 * 24 * 3600, 3600
    ages = {
        "new.checkpoint": week - hour,
        "old.checkpoint": week + hour,
        ".half.checkpoint.77.tmp": hour / 2,
        ".left.checkpoint.77.tmp": 2 * hour,
        "not ours": 2 * week,
    }
    for name, age in ages.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    tidy(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "new.checkpoint", ".half.checkpoint.77.tmp", "not ours"
    }  # fmt: skip


def test_checkpoints_go_with_their_rows_and_stay_where_a_run_is_interrupted(
    ending, study, train, monkeypatch, tmp_path
):
    """Of three packs the second is interrupted."""
    given = study(ending("raise KeyboardInterrupt"), resources={"replicas": 2})
    monkeypatch.setenv("RULESWEEP_STATE_SECONDS", "0")
    (tmp_path / "ended").touch()
    calls = []

    def packed(finished):
        calls.append(sorted(path.name for path in Path("run/checkpoints").iterdir()))
        if len(calls) == 1:
            (tmp_path / "ended").unlink()

    reporter = SimpleNamespace(began=lambda pump: None, packed=packed, ended=lambda: None)
    assert train(given, reporter=reporter).interrupted
    assert calls == [["token"]]
    (left,) = Path("run/checkpoints").glob("*.checkpoint")
    assert train(given).exit_code == 0
    steps = [row["continued_step"] for row in trials("run").to_pylist()]
    assert sorted(steps, key=str) == [7, 7, None, None, None]
    assert not left.parent.exists()
    log = Path("run/run.log").read_text()
    assert log.count("2 networks go on from step 7") == 1


@pytest.mark.parametrize("given", ["often", "-1", "nan", ""])
def test_a_mistaken_interval_is_one_line_before_anything_starts(small, train, monkeypatch, given):
    monkeypatch.setenv("RULESWEEP_STATE_SECONDS", given)
    with pytest.raises(StoreError, match=f"RULESWEEP_STATE_SECONDS is '{given}'; it should be"):
        train(small())
    assert not Path("run").exists()
    assert seconds_from({}) == 60
