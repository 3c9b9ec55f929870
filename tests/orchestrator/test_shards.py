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


SCRIPT = Path(__file__).parents[2] / "examples" / "clusters" / "slurm_array.sbatch"
SRUN = """#!/bin/sh
echo $$ > step-$SLURM_ARRAY_TASK_ID
exec "$@"
"""


@pytest.fixture
def task(program, tmp_path):
    """Starts a task of the script for an array as it is shipped, but for two tasks."""
    script = SCRIPT.read_text().replace("1-32", "1-2").replace("shards=32", "shards=2")
    assert "32" not in script
    for path, text in {"array.sbatch": script, "stand-ins/srun": SRUN}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "rulesweep").symlink_to(program)
    started = []

    def start(number):
        settings = {
            "PATH": f"{tmp_path}/stand-ins:{os.environ['PATH']}",
            "SLURM_SUBMIT_DIR": str(tmp_path),
            "SLURM_ARRAY_TASK_ID": str(number),
        }
        words = [tmp_path / "array.sbatch", "study.yaml"]
        process = subprocess.Popen(
            words, env=os.environ | settings, stdout=-1, stderr=-2, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def part_way(number, process):
    """Wait until a task has trained some of its networks; the id of what srun would signal."""
    folder = Path(f"runs/slow/shards/000{number}-of-0002/trials")
    while len(list(folder.glob("part-*.parquet"))) < 4:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.005)
    return int(Path(f"step-{number}").read_text())


@pytest.mark.slow
def test_tasks_of_an_array_that_end_half_way_and_are_submitted_again_lose_nothing(
    task, mapping, table, tmp_path, command
):
    training = {"steps": 60, "batch_size": 16, "record": 2}
    slow = mapping(**WIDE, name="slow", training=training, resources={"replicas": 1})
    (tmp_path / "study.yaml").write_text(write(slow))
    killed, ended = task(1), task(2)
    os.kill(part_way(1, killed), signal.SIGKILL)
    step = part_way(2, ended)
    os.kill(step, signal.SIGSTOP)
    assert killed.wait() == 128 + signal.SIGKILL
    assert {"pending", "ok"} == set(trials("runs/slow")["status"].to_pylist())
    refused, shown = command("merge", "runs/slow"), command("status", "runs/slow")
    os.kill(step, signal.SIGTERM)  # its time is up
    os.kill(step, signal.SIGCONT)
    assert refused.code == 2
    assert f"in use by process {step} on " in refused.err
    assert "a shard is at work; merge when it has ended" in refused.err
    assert "2 shards have begun; when all are done: rulesweep merge runs/slow" in shown.out
    told, _ = ended.communicate()
    assert ended.returncode == 130
    assert "interrupted; go on with: rulesweep run study.yaml --shard 2/2 --inline" in told
    for process in (task(1), task(2)):
        told, _ = process.communicate()
        assert process.returncode == 0
        assert "is done; when all are: rulesweep merge runs/slow" in told
    assert "0 networks are missing" in command("merge", "runs/slow").out
    run(study_from(slow), "undisturbed", inline=True)
    assert table("runs/slow") == table("undisturbed")


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
