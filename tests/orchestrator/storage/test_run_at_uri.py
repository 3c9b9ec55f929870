from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis.trials import load_trials
from orchestrator import load_network, plan, run, store, verify
from orchestrator.mirror import Mirror, opened
from orchestrator.remote import Remote
from orchestrator.store import StoreError, trials
from orchestrator.telling import Silent
from orchestrator.yaml_file import write


@pytest.fixture(scope="module")
def eight(small):
    """A study of eight networks."""
    return small(rules=["bp"], grid={"depth": 1, "width": 8, "seeds": 2})


def names(uri, below="trials/"):
    return sorted(name for name in Remote(uri).entries() if name.startswith(below))


def test_a_run_through_a_bad_network_gives_the_undisturbed_table(
    small, storage, uri, machine, table, finished
):
    storage.gate.disturb(seed=1, rate=0.25, delay=0.1)
    result = run(small(), uri, inline=True)
    assert (result.trained, result.exit_code, result.name) == (32, 0, uri)
    machine("second")
    assert table(uri) == table(finished)
    faults = storage.gate.faults
    assert all(faults[fault] for fault in ("busy", "broken", "dropped", "lost answer", "slow"))
    assert "lease.json" not in Remote(uri).entries()
    log = (result.folder / "run.log").read_text()
    assert "written (trials/part-" in log
    assert "again in 0.0 s (attempt 1 of 8): " in log


def test_a_run_goes_on_from_another_machine_and_trains_only_what_is_new(
    small, uri, machine, table, finished
):
    fewer = small(grid={"depth": [1, 2], "width": 8, "seeds": 1})
    assert run(fewer, uri, inline=True).trained == 28
    machine("second")
    assert plan(small(), uri, measure=False).missing == 4
    assert run(small(), uri, inline=True).trained == 4
    machine("first")
    result = run(small(), uri, inline=True)
    assert (result.trained, result.known) == (0, 32)
    assert table(uri) == table(finished)
    assert (result.folder / "run.log").read_text().count("finished") == 3


class Onlooker(Silent):
    """Looks at the run from another machine whenever a pack is back."""

    def __init__(self, uri, machine):
        self.uri, self.machine, self.seen = uri, machine, []

    def packed(self, finished):
        self.machine("onlooker")
        done = load_trials(self.uri)["status"].eq("ok").sum()
        self.machine("first")
        self.seen.append((done, len(finished.statuses)))


def test_a_run_can_be_read_from_another_machine_while_it_goes_on(eight, uri, machine):
    onlooker = Onlooker(uri, machine)
    run(eight, uri, inline=True, reporter=onlooker)
    done = 0
    for seen, packed in onlooker.seen:
        done += packed
        assert seen == done
    assert done == 8


def test_rows_that_no_put_took_are_kept_and_sent_by_the_next_run(
    small, storage, uri, machine, table, finished
):
    taken = []

    def full(method, path):
        rows = method == "PUT" and "/trials/" in path
        taken.extend([path] if rows else [])
        return rows and len(taken) > 3

    storage.gate.closed = full
    with pytest.raises(
        StoreError, match=r"could not be written .* in 8 attempts: .*status 500"
    ) as e:
        run(small(), uri, inline=True)
    assert "\n" not in str(e.value)
    assert str(e.value).endswith("mend that and run again: nothing is lost")
    storage.gate.heal()
    machine("second")
    left = trials(uri)["status"].to_pylist().count("pending")
    machine("first")
    result = run(small(), uri, inline=True)
    assert result.trained < left
    assert result.trained + result.known == 32
    assert not list((result.folder / "unsent").rglob("part-*"))
    assert table(uri) == table(finished)


def test_parts_are_merged_in_the_storage_and_dropped_in_every_mirror(
    eight, uri, machine, table, monkeypatch
):
    run(eight, uri, inline=True)
    machine("second")
    before, rows = set(names(uri)), table(uri)
    mirror = opened(uri)
    monkeypatch.setattr(store, "PARTS", len(before) - 1)
    machine("first")
    run(eight, uri, inline=True)
    assert not before & set(names(uri))
    machine("second")
    assert table(uri) == rows
    assert {f"trials/{path.name}" for path in (mirror / "trials").iterdir()} == set(names(uri))


def test_small_parts_are_merged_in_the_storage_while_a_run_goes_on(
    small, uri, table, finished, monkeypatch
):
    monkeypatch.setattr(store, "PARTS", 3)
    result = run(small(), uri, inline=True)
    kept = set(names(uri))
    assert 1 <= len(kept) <= 3
    assert {f"trials/{path.name}" for path in (result.folder / "trials").iterdir()} == kept
    assert table(uri) == table(finished)


def damaged(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return bytes(content)


def test_a_damaged_copy_is_fetched_again(eight, uri, table, capsys):
    folder = run(eight, uri, inline=True).folder
    before = table(uri)
    for path in (folder / "trials").iterdir():
        damaged(path)
    assert table(uri) == before
    assert capsys.readouterr().err == ""


def test_a_part_that_is_damaged_in_the_storage_is_set_aside_there(
    eight, storage, uri, machine, table, capsys
):
    folder = run(eight, uri, inline=True).folder
    before, parts = table(uri), sorted((folder / "trials").iterdir())
    path = next(p for p in parts if pq.read_table(p)["status"][0].as_py() == "ok")
    content = damaged(path)
    run_name = folder.name.rpartition("-")[0]
    storage.request("PUT", f"/lab/runs/{run_name}/trials/{path.name}", content)
    machine("second")
    assert run(eight, uri, inline=True).trained > 0
    assert f"{path.name} cannot be read, it is set aside in" in capsys.readouterr().err
    assert names(uri, "damaged/") == [f"damaged/{path.name}"]
    assert f"trials/{path.name}" not in names(uri)
    assert table(uri) == before
    assert capsys.readouterr().err == ""


def test_a_network_and_its_weights_are_loaded_from_a_uri(small, uri, machine, capsys):
    study = small(rules=["bp"], search={"lr": 0.1}, measure={"save_weights": True})
    run(study, uri, inline=True)
    run(study, "local", inline=True)
    machine("second")
    assert {v.verdict for v in verify(uri, sample=2)} == {"exact"}
    trial = trials(uri)["trial"][1].as_py()
    _, here, _ = load_network("local", trial)
    _, there, _ = load_network(uri, trial)
    assert all((a == b).all() for a, b in zip(here.weights, there.weights, strict=True))
    assert (Mirror(uri).folder / "weights" / f"{trial}.npz").is_file()
    assert capsys.readouterr().err == ""  # which would say that it was trained again
    machine("third")
    assert run(study, "lent", inline=True, reuse=uri).trained == 0
    kept = [
        {p.name: p.read_bytes() for p in Path(f, "weights").iterdir()} for f in ("lent", "local")
    ]
    assert kept[0] == kept[1]


def test_any_uri_of_a_file_system_will_do(eight, tmp_path, machine, table, monkeypatch):
    monkeypatch.setenv("RULESWEEP_RUNS", (tmp_path / "elsewhere").as_uri())
    uri = run(eight, inline=True).uri
    assert uri == (tmp_path / "elsewhere" / "small").as_uri()
    machine("second")
    assert len(table(uri)) == 8
    assert table(uri) == table(tmp_path / "elsewhere" / "small")


def test_the_commands_take_a_uri(mapping, storage, uri, machine, command, tmp_path):
    study = mapping(rules=["bp"], grid={"depth": 1, "width": 8, "seeds": 2}, search={"lr": 0.1})
    (tmp_path / "study.yaml").write_text(write(study))
    done = command("run", "study.yaml", "--inline", "--out", uri)
    assert (done.code, done.err) == (0, "")
    assert f"{uri}: 2 networks, 0 were in the table, 2 trained now" in done.out
    assert {"figures/accuracy_vs_depth.png", "run.log", "study.yaml"} <= set(Remote(uri).entries())
    assert all(Path(l[7:]).is_file() for l in done.out.splitlines() if l.startswith("figure "))
    machine("second")
    status = command("status", uri)
    assert status.out.startswith(f"study small in {uri}")
    assert "cache" not in status.out + status.err
    assert command("export", uri).out == "trials.csv: 2 rows\n"
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 3
    assert "2 rows trained again, 0 different" in command("verify", uri, "--sample", "2").out
    assert "0 networks to train" in command("plan", "study.yaml", "--out", uri).out


ADDRESSES = {
    "no bucket": (lambda s: s.uri("x", bucket="nowhere"), "there is no such bucket"),
    "no endpoint": (
        lambda s: "s3://lab/x?endpoint_override=127.0.0.1:9&scheme=http&region=x",
        "could not be reached in 4 attempts: NETWORK_CONNECTION",
    ),
    "no path": (lambda s: "s3://", "it has no bucket and no folder"),
    "a misspelt option": (lambda s: "s3://lab/x?endpoint=1", "Unexpected query parameter"),
    "no such scheme": (lambda s: "ftp://lab/x", "names no storage: Unrecognized filesystem type"),
    "no URI": (lambda s: "s3://la b/x", "names no storage: Cannot parse URI"),
    "keys": (lambda s: "s3://key:secret@lab/x", "set AWS_ACCESS_KEY_ID"),
}


@pytest.mark.parametrize(("address", "problem"), ADDRESSES.values(), ids=ADDRESSES)
@pytest.mark.parametrize("words", [["run", "study.yaml", "--inline", "--out"], ["status"]])
def test_a_wrong_address_is_one_line_before_any_work(
    mapping, storage, machine, command, tmp_path, address, problem, words
):
    (tmp_path / "study.yaml").write_text(write(mapping()))
    answer = command(*words, address(storage))
    assert (answer.code, answer.out) == (2, "")
    assert problem in answer.err.splitlines()[-1]
    assert len([line for line in answer.err.splitlines() if line.startswith("error: ")]) == 1
    assert "secret" not in answer.err
    assert "Traceback" not in answer.err
    assert not any("trials" in path.name for path in tmp_path.rglob("*"))


def test_without_keys_the_storage_refuses_in_one_line(storage, uri, command, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    answer = command("status", uri)
    assert answer.code == 2
    assert "the storage refuses these credentials; set AWS_ACCESS_KEY_ID" in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_uri_that_became_a_path_is_refused(uri):
    with pytest.raises(StoreError, match="give a URI as text"):
        load_trials(Path(uri))


def test_a_uri_without_a_run_is_none(uri, machine):
    with pytest.raises(StoreError, match=r"^s3://.* is no run folder: there is no resolved.json"):
        trials(uri)


def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_its_limit(
    storage, uri, monkeypatch
):
    monkeypatch.setattr("orchestrator.remote.ANSWER", 1.0)
    place = Remote(uri)
    place.write("a", b"1")
    storage.gate.disturb(seed=0, rate=0.0, delay=20)
    storage.gate.dice = iter_dice("slow")
    storage.gate.rate = 0.5
    assert place.read("a") == b"1"
    assert storage.gate.faults["slow"] == 1


def iter_dice(fault):
    """Dice that throw a fault once."""

    class Dice:
        left = 1

        def random(self):
            self.left -= 1
            return 0.0 if self.left == 0 else 1.0

        def choice(self, faults):
            return fault

    return Dice()


def test_a_run_is_brought_home_from_its_uri(small, uri, machine, command, table, tmp_path):
    study = small(rules=["bp"], search={"lr": 0.1})
    run(study, uri, inline=True)
    machine("another")
    done = command("fetch", uri, "--out", "home", "--no-figures")
    assert (done.code, done.err) == (0, "")
    assert "home: 4 networks, 0 pending" in done.out
    assert table("home") == table(uri)
    assert run(study, "home", inline=True).trained == 0
    assert {path.name for path in (tmp_path / "home").iterdir()} >= {"study.yaml", "trials"}
    assert not (tmp_path / "home" / "unsent").exists()
