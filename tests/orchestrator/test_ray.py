from pathlib import Path

import numpy as np
import pytest

from orchestrator import schedule
from orchestrator.checkpoints import opened
from orchestrator.columns import named
from orchestrator.driver import importable, settings
from orchestrator.folder import describe, study_id
from orchestrator.grid import expand
from orchestrator.preflight import packs
from orchestrator.store import Store, StoreError, trials
from orchestrator.sweep import Pump

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster():
    """One Ray for all tests here, of two workers."""
    schedule.start("local", cpus=2)
    yield
    schedule.stop()


def room(cpus, gpus, most=None):
    return schedule.room(cpus, gpus, most, joined=False)


@pytest.fixture
def train_on_ray(cluster, tmp_path):
    """Trains a study on the cluster, as `run` does."""

    def trained(study, folder):
        paths = importable(None)
        grid = expand(study)
        (tmp_path / folder).mkdir(exist_ok=True)
        describe(tmp_path / folder, grid, None, paths)
        pump = Pump(grid, Store(tmp_path / folder), study_id(grid))
        of_study = room(study.resources.cpus, study.resources.gpus)
        told = settings(study, opened(tmp_path / folder, seconds=0))
        schedule.run(pump, paths, of_study, packs(pump), told)
        return pump

    return trained


def test_where_it_ran_does_not_matter(small, train, train_on_ray, table):
    study = small(
        rules=["bp", "dfa", "sdil"],
        grid={"depth": 3, "width": 7, "seeds": 3, "residual": [False, True]},
        search={"lr": {"low": 0.01, "high": 1e4}, "points": 3, "seeds": 1, "per": ["depth"]},
        resources={"replicas": 5},
        measure={"save_weights": True},
    )
    pump = train_on_ray(study, "ray")
    assert pump.workers == 2
    assert (pump.finished, pump.missing) == (True, 0)
    train(study, "inline")
    assert table("ray") == table("inline")
    assert len(table("ray")) == 3 * 2 * (2 * 3 + 3)
    assert train(study, "ray").trained == 0
    assert weights("ray") == weights("inline")
    rows = [row for row in trials("ray").to_pylist() if row["phase"] == "evaluate"]
    assert {r["trial"] for r in rows if r["status"] == "ok"} == set(weights("ray"))


def weights(folder):
    """The arrays that a run kept, as bytes by trial and name."""
    files = {path.stem: np.load(path) for path in Path(folder, "weights").iterdir()}
    return {trial: {k: v.tobytes() for k, v in file.items()} for trial, file in files.items()}


SEEN = """
Path("{folder}", "processes", str(os.getpid())).touch()
"""


def test_workers_come_up_together_and_stay_up_between_packs(
    small, train_on_ray, own_rule, tmp_path
):
    """Packs are far shorter here than a worker's start, and rounds leave workers without one."""
    (tmp_path / "processes").mkdir()
    study = small(
        rules=[own_rule("seen", SEEN.format(folder=tmp_path))],
        grid={"depth": 1, "width": 8, "seeds": 20},
        search={"lr": {"low": 0.01, "high": 1.0}, "rounds": 4, "points": 3, "seeds": 1},
        resources={"replicas": 1},
    )
    assert train_on_ray(study, "ray").finished
    assert len(list((tmp_path / "processes").iterdir())) == 2


ONE = {"depth": 1, "width": 8, "seeds": 2}

DIES = """
marks = Path("{folder}", "died")
mark = marks / "-".join(map(str, trace.streams.seeds))
died = len(list(marks.iterdir()))
if trace.step >= died and died < 10 and not mark.exists() and max(trace.streams.seeds) < 100:
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_ten_killed_workers_cost_their_packs_another_try_and_no_row(
    small, train, train_on_ray, table, own_rule, tmp_path
):
    (tmp_path / "died").mkdir()
    study = small(
        grid={"depth": 1, "width": 8, "seeds": 6},
        rules=["bp", own_rule("dies", DIES.format(folder=tmp_path))],
        search={"lr": 0.1},
    )
    pump = train_on_ray(study, "ray")
    assert len(list((tmp_path / "died").iterdir())) == 10
    assert (pump.finished, pump.missing) == (True, 0)
    rows = trials("ray").to_pylist()
    assert max(row["attempts"] for row in rows) > 2
    assert any(row["continued_step"] for row in rows)  # the first steps were not lost
    train(study, "inline")  # nobody dies twice
    assert table("ray") == table("inline")


KILLS = """
if 1 in trace.streams.seeds:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killing_rule_costs_its_own_network_only(small, train, train_on_ray, table, own_rule):
    study = small(grid=ONE, rules=["bp", own_rule("kills", KILLS)], search={"lr": 0.1})
    pump = train_on_ray(study, "ray")
    assert (pump.finished, pump.missing) == (True, 0)
    rows = {(row["label"], row["init_seed"]): row for row in trials("ray").to_pylist()}
    assert {key for key, row in rows.items() if row["status"] != "ok"} == {("own", 1)}
    assert "the worker died 3 times" in rows["own", 1]["error"]
    train(small(grid=ONE, rules=["bp"], search={"lr": 0.1}), "inline")
    assert [row for row in table("ray") if row["label"] == "'bp'"] == table("inline")


DATA = """
import numpy as np


def noise():
    generator = np.random.Generator(np.random.PCG64(3))
    return generator.random((40, 3)), np.arange(40) % 2, generator.random((9, 3)), np.arange(9) % 2
"""


def test_a_users_data_reach_the_workers_and_what_a_rule_raises_comes_back(
    small, train, train_on_ray, own_rule, tmp_path
):
    (tmp_path / "noise_data.py").write_text(DATA)
    rule = own_rule("raises", "if 1 in trace.streams.seeds:\n    raise ValueError('one')")
    study = small(task={"dataset": "noise_data:noise", "validation": 0.25}, rules=[rule], grid=ONE)
    train_on_ray(study, "ray")
    rows = trials("ray").to_pylist()
    assert {row["attempts"] for row in rows} == {1}  # a row, and no lost worker
    assert {row["init_seed"] for row in rows if row["status"] == "failed"} == {1}
    train(study, "inline")
    same = [name for name in named("coordinate", "result") if name != "error"]
    assert str(trials("ray").select(same).to_pylist()) == str(
        trials("inline").select(same).to_pylist()
    )


def test_an_error_of_the_tables_ends_the_run_as_that_error(small, train_on_ray, tmp_path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "trials").write_text("a file in the place of the folder")
    with pytest.raises(StoreError, match=r"the table cannot be written to .*nothing is lost"):
        train_on_ray(small(), "ray")


def test_more_than_a_node_has_is_refused(cluster):
    assert room(1, 0)() == 2
    assert room(1, 0, most=1)() == 1
    assert room(2, 0)() == 1
    with pytest.raises(schedule.ScheduleError, match="no node has 3 cpus and 0 gpus for a worker"):
        room(3, 0)
    with pytest.raises(schedule.ScheduleError, match="no node has 1 cpus and 1 gpus"):
        room(1, 1)


def test_ray_client_addresses_are_refused():
    with pytest.raises(schedule.ScheduleError, match="address ray://host:10001: "):
        schedule.start("ray://host:10001")
