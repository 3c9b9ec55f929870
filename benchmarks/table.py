"""A finished study of many rows: how long it takes to load, to resume, to plan and to show."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from analysis.trials import load_trials
from benchmarks.numbers import Number, number
from benchmarks.sizes import Sizes
from orchestrator.driver import run
from orchestrator.folder import describe, study_id
from orchestrator.forecast import plan
from orchestrator.grid import expand
from orchestrator.result_row import Row
from orchestrator.show import status
from orchestrator.spec import Study, study_from
from orchestrator.store import Store
from orchestrator.sweep import Pump, run_inline
from orchestrator.trial import Trial
from orchestrator.worker import Worker

RULES = ["bp", "fa", "dfa", "kp", "sdil"]
SEARCH: dict[str, Any] = {"lr": {"low": 0.003, "high": 0.3}, "rounds": 2, "points": 8, "seeds": 5}
SEEDS = 20
A_CELL = prod(SEARCH[name] for name in ("rounds", "points", "seeds")) + SEEDS
"""Networks of a cell: those that it is tuned with, and those that report."""


def many_rows(rows: int) -> Study:
    """A study of about so many networks: five rules over up to ten depths, and widths."""
    shapes = max(1, rows // (A_CELL * len(RULES)))
    depths = min(10, shapes)
    return study_from(
        {
            "name": "table",
            "task": {"dataset": "mnist-1d"},
            "training": {"steps": 100, "record": 5},
            "rules": RULES,
            "grid": {
                "depth": list(range(1, depths + 1)),
                "width": [8 * (i + 1) for i in range(shapes // depths)],
                "seeds": SEEDS,
            },
            "search": SEARCH,
        }
    )


class TableWorker(Worker):
    """Answers packs with rows as they are after training, but trains nothing."""

    def rows(self, trials: Sequence[Trial]) -> list[Row]:
        return [_row(trial) for trial in trials]


def _row(trial: Trial) -> Row:
    depth, chance = trial.cell.network.depth, int(trial.id[:4], 16) / 2**16
    accuracy = 0.9 - 0.02 * depth + 0.1 * chance
    curve, layers = [accuracy] * 5, [chance] * depth
    losses = dict.fromkeys(("train_loss", "validation_loss", "test_loss"), 1 - accuracy)
    accuracies = ("train_accuracy", "validation_accuracy", "test_accuracy", "best_test_accuracy")
    curves = ("train_loss", "validation_loss", "test_loss", "test_accuracy")
    lists = ("alignment", "alignment_chance", "update_cosine", "norm_ratio", "probe_accuracy")
    return {
        "status": "ok",
        "initial_loss": 2.3,
        "chance_accuracy": 0.1,
        "best_step": 100,
        "curve_step": [20, 40, 60, 80, 100],
        "curve_alignment": [layers] * 5,
        "probe_accuracy_untrained": layers,
        "probe_accuracy_input": chance,
        **losses,
        **dict.fromkeys(accuracies, accuracy),
        **{f"curve_{name}": curve for name in curves},
        **dict.fromkeys(lists, layers),
    }


def measure(sizes: Sizes) -> list[Number]:
    """Seconds of every command's work on the table, imports aside; several times."""
    study = many_rows(sizes.table_rows)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary) / "run"
        made = seconds(partial(make, study, folder))
        rows = len(load_trials(folder))
        works: dict[str, Callable[[], object]] = {
            "load": lambda: load_trials(folder),
            "resume": lambda: run(study, folder, inline=True),
            "plan": lambda: plan(study, folder, measure=False),
            "status": lambda: list(status(folder, failed=False, name="bench")),
        }
        samples = {
            name: [seconds(work) for _ in range(sizes.samples)] for name, work in works.items()
        }
    aims = {"resume": {"at_most": 5.0}} if rows <= 100_000 else {}
    return [
        number(f"{rows} rows made, with no training", made, "s"),
        *(number(name, found, "s", **aims.get(name, {})) for name, found in samples.items()),
    ]


def make(study: Study, folder: Path) -> None:
    """Run the study with a worker that trains nothing."""
    grid = expand(study)
    folder.mkdir(parents=True)
    pump = Pump(grid, Store(folder, owner=True), study_id(grid))
    describe(folder, grid, None, [])
    run_inline(pump, TableWorker(grid.data).train_pack)
    assert pump.finished


def seconds(work: Callable[[], object]) -> float:
    """How long it takes once."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
