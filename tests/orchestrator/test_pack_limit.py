import sys
from dataclasses import replace

from orchestrator.columns import from_blob, named
from orchestrator.grid import expand
from orchestrator.pack_limit import MOST, WORK, most
from orchestrator.trial import Pack, trial_of
from orchestrator.worker import Worker

TOUCHY = """
from dataclasses import dataclass
from rules.bp import BP

@dataclass(frozen=True)
class Touchy(BP):
    def teach(self, trace, params, state):
        raise SystemExit("too touchy")
"""


def test_packs_are_enough_work_or_as_many_networks_as_train_best_together(small):
    cell = expand(small()).evaluations[0].cell
    cheap = replace(cell, step_cost=WORK / (400 * cell.training.steps * cell.training.batch_size))
    assert most(cheap, "auto") in (400, 401)
    assert most(replace(cell, step_cost=0.0), "auto") == MOST
    dear = replace(cell, step_cost=1e12, network=replace(cell.network, width=8192))
    assert most(dear, "auto") == 8
    assert most(replace(dear, device="cuda"), "auto") == MOST
    assert most(cheap, 3) == most(dear, 3) == 3


def test_a_worker_that_trains_in_groups_gives_the_same_rows(small):
    grid = expand(small(search={"lr": 0.1}))
    cell = grid.evaluations[1].cell
    trials = tuple(trial_of(cell, (seed, seed), {"lr": 0.1}, tuning=False) for seed in range(5))

    def rows(replicas):
        blob = Worker(grid.data, replicas=replicas).train_pack(Pack(trials).as_dict())
        return from_blob(blob).select(named("coordinate", "result")).to_pylist()

    assert repr(rows(2)) == repr(rows(1)) == repr(rows(None))


def test_a_tensor_holds_as_many_networks_as_fit_into_memory(small):
    grid = expand(small(search={"lr": 0.1}))
    cell = grid.evaluations[0].cell
    trials = tuple(trial_of(cell, (seed, seed), {"lr": 0.1}, tuning=False) for seed in range(7))
    worker = Worker(grid.data)
    assert worker.together(trials) == 7  # of a whole machine nothing needs to be counted
    assert worker.sizes == {}

    worker = Worker(grid.data, memory=1)
    assert worker.together(trials) == 1
    (size,) = worker.sizes.values()
    assert Worker(grid.data, memory=5 * size).together(trials) == 5
    assert Worker(grid.data, memory=5 * size, replicas=6).together(trials) == 6  # as was said

    def rows(memory):
        blob = Worker(grid.data, memory=memory).train_pack(Pack(trials).as_dict())
        return from_blob(blob).select(named("coordinate", "result")).to_pylist()

    assert repr(rows(2 * size)) == repr(rows(None))


def test_a_rule_that_cannot_be_counted_gives_its_rows_all_the_same(small, tmp_path):
    (tmp_path / "touchy.py").write_text(TOUCHY)
    sys.path.append(str(tmp_path))
    grid = expand(small(search={"lr": 0.1}, rules=["touchy:Touchy"]))
    cell = grid.evaluations[0].cell
    trials = tuple(trial_of(cell, (seed, seed), {"lr": 0.1}, tuning=False) for seed in range(3))
    blob = Worker(grid.data, memory=1).train_pack(Pack(trials).as_dict())
    rows = from_blob(blob).to_pylist()
    assert [row["status"] for row in rows] == ["failed"] * 3
    assert all("too touchy" in row["error"] for row in rows)
