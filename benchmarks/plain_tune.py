"""The same study as a user of Ray Tune writes it: a trial a network, a Tuner a cell.

A function trainable, `OptunaSearch`, a grid over seeds, and default settings. The arithmetic is
rulesweep's own, with a single replica. With the word `reuse`, the trainable is a class,
actors are reused and loggers are off: as one writes it who knows Tune well.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from benchmarks.sides import answer, arguments
from benchmarks.sizes import Sizes
from benchmarks.studies import small_study
from orchestrator.cell import Cell
from orchestrator.fields import FIRST_TUNING_SEED
from orchestrator.grid import Evaluation, Grid, expand
from rules import catalog
from rules.dataset import Data
from rules.record import Outcome
from rules.task import task_of
from rules.train import Job, train


def outcome_of(cell: Cell, data: Data, seed: int, lr: float, *, tuning: bool) -> Outcome:
    """Build one network and train it."""
    split = cell.task.validation, cell.task.split_seed
    task = task_of(data, *split, cell.training.dtype, torch.device("cpu"))
    rule = catalog.find(cell.rule.name)(**dict(cell.rule.options))
    measure = None if tuning else cell.measure
    (outcome,) = train(
        Job(cell.network, cell.training, rule, (seed,), (seed,), (lr,), measure), task
    )
    return outcome


def train_network(config: dict[str, Any], cell: Cell, data: Data) -> None:
    """The trainable: train one network, report its losses."""
    outcome = outcome_of(cell, data, config["seed"], config["lr"], tuning=config["tuning"])
    last = outcome.points[-1]
    tune.report({"validation_loss": last.validation_loss, "test_loss": last.test_loss})


class NetworkTrial(tune.Trainable):
    """The same as a class, whose process is used again for the next network."""

    def setup(  # type: ignore[override]
        self, config: dict[str, Any], cell: Cell, data: Data
    ) -> None:
        self.cell, self.data = cell, data

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True

    def step(self) -> dict[str, Any]:
        seed, lr, tuning = (self.config[name] for name in ("seed", "lr", "tuning"))
        last = outcome_of(self.cell, self.data, seed, lr, tuning=tuning).points[-1]
        return {
            "validation_loss": last.validation_loss,
            "test_loss": last.test_loss,
            "done": True,
        }


class PlainStudy:
    """Tunes and evaluates one cell after the other."""

    def __init__(self, sizes: Sizes, grid: Grid, folder: Path, *, reuse: bool) -> None:
        self.sizes, self.grid, self.folder, self.reuse = sizes, grid, folder, reuse

    def networks(self) -> int:
        """Run it all; the number of networks that were trained."""
        return sum(map(self.cell, self.grid.evaluations))

    def cell(self, evaluation: Evaluation) -> int:
        """Search the rate of a cell, then train its evaluation seeds at the best one."""
        ((_, low, high),) = evaluation.cell.rule.space
        rate = tune.loguniform(low, high)
        searched = {"lr": rate, "seed": FIRST_TUNING_SEED, "tuning": True}
        samples = self.sizes.rounds * self.sizes.points
        tuned = self.fit(evaluation.cell, searched, num_samples=samples, search_alg=OptunaSearch())
        best = (tuned.get_best_result().config or {})["lr"]
        seeds = tune.grid_search([init for init, _ in evaluation.seeds])
        evaluated = self.fit(evaluation.cell, {"lr": best, "seed": seeds, "tuning": False})
        return len(tuned) + len(evaluated)

    def fit(self, cell: Cell, space: dict[str, Any], **search: Any) -> tune.ResultGrid:
        """One Tuner."""
        data = self.grid.data[cell.task.dataset]
        tuner = tune.Tuner(
            tune.with_parameters(
                NetworkTrial if self.reuse else train_network, cell=cell, data=data
            ),
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="validation_loss",
                mode="min",
                max_concurrent_trials=self.sizes.workers,
                reuse_actors=self.reuse,
                **search,
            ),
            run_config=tune.RunConfig(
                storage_path=str(self.folder / "ray_results"),
                checkpoint_config=tune.CheckpointConfig(
                    checkpoint_at_end=False if self.reuse else None
                ),
            ),
        )
        results = tuner.fit()
        assert not results.errors, results.errors
        return results


def main() -> None:
    """Run the study on a Ray of its own."""
    sizes, folder, words = arguments()
    reuse = words == ["reuse"]
    if reuse:
        os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    ray.init(address="local", num_cpus=sizes.workers)
    networks = PlainStudy(sizes, expand(small_study(sizes)), folder, reuse=reuse).networks()
    ray.shutdown()
    answer(folder, networks=networks)


if __name__ == "__main__":
    main()
