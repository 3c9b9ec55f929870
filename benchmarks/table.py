"""A finished study of many rows: how long it takes to load, to resume, to plan and to show."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from analysis.trials import load_trials
from benchmarks.numbers import Number, number
from benchmarks.overhead import IdleWorker
from benchmarks.sizes import Sizes
from orchestrator.folder import describe, study_id
from orchestrator.forecast import plan
from orchestrator.grid import expand
from orchestrator.show import status
from orchestrator.spec import Study, study_from
from orchestrator.store import Store
from orchestrator.sweep import Pump, run_inline

SEEDS = 100


def many_rows(rows: int) -> Study:
    """A study of so many networks, a hundred to a cell, at a fixed rate."""
    return study_from(
        {
            "name": "table",
            "task": {"dataset": "mnist-1d"},
            "training": {"steps": 1},
            "rules": ["fa"],
            "grid": {
                "depth": 1,
                "width": list(range(1, max(2, rows // SEEDS + 1))),
                "seeds": SEEDS,
            },
            "search": {"lr": 0.1},
        }
    )


def measure(sizes: Sizes) -> list[Number]:
    """Seconds of every command's work on the table, imports aside; several times."""
    study = many_rows(sizes.table_rows)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary) / "run"
        made = seconds(partial(make, study, folder))
        rows = len(load_trials(folder))
        works: dict[str, Callable[[], object]] = {
            "load": lambda: load_trials(folder),
            "resume": lambda: Pump(grid := expand(study), Store(folder), study_id(grid)),
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
    run_inline(pump, IdleWorker(grid.data).train_pack)
    assert pump.finished


def seconds(work: Callable[[], object]) -> float:
    """How long it takes once."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
