from dataclasses import replace

from orchestrator.columns import from_blob, named
from orchestrator.grid import expand
from orchestrator.pack_limit import MOST, WORK, most
from orchestrator.trial import Pack, trial_of
from orchestrator.worker import Worker


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
