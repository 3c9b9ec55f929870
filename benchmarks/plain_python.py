"""The same study without Ray: Optuna a cell, one network after the other, in a loop or a pool.

The arithmetic is rulesweep's own, with a single replica. With the word `pool` the cells are shared
out over processes, each of which tunes and evaluates whole cells; else one process does them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import optuna
import torch

from benchmarks.plain_tune import outcome_of
from benchmarks.sides import answer, arguments
from benchmarks.sizes import Sizes
from benchmarks.studies import small_study
from orchestrator.fields import FIRST_TUNING_SEED
from orchestrator.grid import Evaluation, expand
from rules.dataset import Data


def networks_of(evaluation: Evaluation, data: Data, points: int) -> int:
    """Tune and evaluate one cell; the number of networks that were trained."""
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ((_, low, high),) = evaluation.cell.rule.space

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("lr", low, high, log=True)
        last = outcome_of(evaluation.cell, data, FIRST_TUNING_SEED, rate, tuning=True).points[-1]
        return last.validation_loss if last.validation_loss is not None else torch.inf

    search = optuna.create_study(sampler=optuna.samplers.TPESampler())
    search.optimize(objective, n_trials=points)
    for init, _ in evaluation.seeds:
        outcome_of(evaluation.cell, data, init, search.best_params["lr"], tuning=False)
    return points + len(evaluation.seeds)


def counts(sizes: Sizes, *, pool: bool) -> Iterator[int]:
    """Networks of every cell, as they are done."""
    grid = expand(small_study(sizes))
    jobs = [(e, grid.data[e.cell.task.dataset]) for e in grid.evaluations]
    trained = partial(networks_of, points=sizes.rounds * sizes.points)
    if not pool:
        yield from (trained(*job) for job in jobs)
        return
    with ProcessPoolExecutor(sizes.workers, mp_context=get_context("spawn")) as workers:
        yield from workers.map(trained, *zip(*jobs, strict=True))


def main() -> None:
    """Run the study."""
    sizes, folder, words = arguments()
    answer(folder, networks=sum(counts(sizes, pool=words == ["pool"])))


if __name__ == "__main__":
    main()
