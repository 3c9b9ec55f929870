import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.trials import load_trials
from orchestrator import load_study, run, study_from
from orchestrator.campaign import campaigns
from orchestrator.grid import expand
from orchestrator.shards import Shard, merge, shard_of, share
from orchestrator.show import summary
from orchestrator.store import StoreError, trials
from orchestrator.yaml_file import StudyError, write

WIDE = {
    "rules": ["bp", "fa", {"name": "fa", "label": "fa again"}],
    "grid": {"depth": [1, 2], "width": 8, "seeds": 2},
    "search": {"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 2, "seeds": 1},
}


@pytest.fixture(scope="module")
def wide(mapping):
    """A study of six campaigns, two of which share their networks with two others."""
    return mapping(**WIDE)


@pytest.fixture(scope="module")
def undisturbed(wide, tmp_path_factory):
    """The folder of that study, trained at once."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run(study_from(wide), folder, inline=True)
    return folder


@pytest.mark.parametrize("count", [2, 7])
def test_shards_merge_into_the_table_of_one_run(wide, undisturbed, table, tmp_path, count):
    study, trained = study_from(wide), []
    for number in range(count, 0, -1):
        done = run(study, "run", inline=True, shard=Shard(number, count))
        assert done.exit_code == 0
        trained.append(done.trained)
    assert sum(trained) == 2 * 2 * (4 + 2)  # the shared networks were trained once
    assert min(trained) > 0 or count == 7
    assert table("run") == table(undisturbed)  # it can be read before it is merged
    assert merge("run").results == sum(trained)
    assert not Path("run/shards").exists()
    assert table("run") == table(undisturbed)
    columns = ["label", "phase", "round", "point", "depth", "init_seed", "lr", "test_loss"]
    ordered = [load_trials(folder)[columns] for folder in ("run", undisturbed)]
    assert ordered[0].equals(ordered[1])  # rules keep their order, hence their colours
    assert run(study, "run", inline=True).trained == 0
    assert merge("run").results == 0


def test_shards_are_the_same_everywhere_and_near_equal(wide):
    grid = expand(study_from(wide))
    parts = [share(grid, Shard(number, 3)).evaluations for number in (1, 2, 3)]
    assert sorted(map(str, sum(parts, ()))) == sorted(map(str, grid.evaluations))
    assert parts == [share(grid, Shard(number, 3)).evaluations for number in (1, 2, 3)]
    costs = [
        sum(w.trial.cell.cost for c in campaigns(share(grid, Shard(n, 3))) for w in c.outline())
        for n in (1, 2, 3)
    ]
    largest = max(sum(w.trial.cell.cost for w in c.outline()) for c in campaigns(grid))
    assert max(costs) - min(costs) <= 2 * largest


def test_other_numbers_of_shards_and_no_shards_go_on_from_the_same_rows(wide, undisturbed, table):
    study = study_from(wide)
    first = run(study, "run", inline=True, shard=Shard(1, 2))
    second = [run(study, "run", inline=True, shard=Shard(number, 3)) for number in (1, 2)]
    last = run(study, "run", inline=True)
    assert first.trained + sum(r.trained for r in second) + last.trained == 24
    assert 0 < last.trained < 24 - first.trained
    merge("run")
    assert table("run") == table(undisturbed)


def test_a_run_that_has_no_shards_merges_into_itself(finished, table, tmp_path):
    before = table(finished)
    assert (merge(finished).shards, merge(finished).results) == (0, 0)
    assert table(finished) == before


def count(folder):
    return len(list(folder.glob("trials/part-*.parquet")))


@pytest.fixture
def start(program, wide, tmp_path):
    """Starts a shard of two in a process of its own; ends those that still run."""
    (tmp_path / "study.yaml").write_text(write(wide | {"resources": {"replicas": 1}}))
    started = []

    def begin(number):
        words = ["run", "study.yaml", "--out", "run", "--inline", "--shard", f"{number}/2"]
        process = subprocess.Popen([program, *words], cwd=tmp_path, stdout=subprocess.DEVNULL)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_killed_and_requeued_shards_that_run_at_once_lose_nothing(
    start, undisturbed, table, tmp_path, command
):
    first, second = start(1), start(2)
    folders = [tmp_path / "run" / "shards" / f"000{n}-of-0002" for n in (1, 2)]
    while min(map(count, folders)) < 4:
        assert first.poll() is None or second.poll() is None
        time.sleep(0.005)
    first.kill()
    second.send_signal(signal.SIGSTOP)
    assert first.wait() == -signal.SIGKILL
    assert {"pending", "ok"} == set(trials("run")["status"].to_pylist())
    refused, shown = command("merge", "run"), command("status", "run")
    second.send_signal(signal.SIGCONT)
    assert refused.code == 2
    assert f"in use by process {second.pid} on " in refused.err
    assert "a shard is at work; merge when it has ended" in refused.err
    assert "2 shards have begun; when all are done: rulesweep merge run" in shown.out
    assert (start(1).wait(), second.wait()) == (0, 0)
    done = command("merge", "run")
    assert done.out.startswith("run: ")
    assert "0 networks are missing" in done.out
    assert table("run") == table(undisturbed)


@pytest.mark.slow
def test_a_merge_that_is_cut_off_anywhere_may_be_given_again(wide, undisturbed, table, monkeypatch):
    class CutError(BaseException):
        pass

    study, flush = study_from(wide), os.fsync
    for number in (1, 2):
        run(study, "run", inline=True, shard=Shard(number, 2))

    def cut(file):
        flush(file)
        raise CutError

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", cut)
        with pytest.raises(CutError):
            merge("run")
    assert table("run") == table(undisturbed)
    merge("run")
    assert table("run") == table(undisturbed)


def test_a_shard_says_what_it_did_and_what_comes_next(wide, tmp_path, command):
    (tmp_path / "study.yaml").write_text(write(wide))
    words = ["run", "study.yaml", "--out", "run", "--inline", "--shard", "2/2"]
    done = command(*words)
    assert done.code == 0
    assert "shard 2/2 is done; when all are: rulesweep merge run" in done.out
    assert not (tmp_path / "run" / "figures").exists()
    content = json.loads((tmp_path / "run" / "resolved.json").read_text())
    assert len(content["cells"]) == 6  # of the whole study
    assert load_study("run/study.yaml") == study_from(wide)
    assert str(next(iter(summary(Path("run"))))) == "INCOMPLETE: 12 of 36 networks pending."


@pytest.mark.parametrize("text", ["3", "0/4", "5/4", "a/b", "1/2/3", "-1/3", "1/0", "", "1/99999"])
def test_a_shard_that_is_none_is_refused(command, text, tmp_path, wide):
    (tmp_path / "study.yaml").write_text(write(wide))
    done = command("run", "study.yaml", f"--shard={text}")
    assert done.code == 2
    assert "should be NUMBER/COUNT, counted from 1, as 3/32" in done.err
    assert not (tmp_path / "runs").exists()


@given(text=st.text())
def test_a_shard_is_read_or_refused(text):
    with contextlib.suppress(StudyError):
        assert 1 <= shard_of(text).number <= shard_of(text).count


def test_a_folder_that_holds_no_run_is_not_merged(tmp_path):
    with pytest.raises(StoreError, match="is no run folder"):
        merge(tmp_path)
    assert list(tmp_path.iterdir()) == []
