"""What a study will cost before it starts: networks by rule and phase, and a measured time."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from orchestrator.driver import default_place, importable
from orchestrator.folder import study_id
from orchestrator.grid import Evaluation, Grid, expand
from orchestrator.mirror import Mirror
from orchestrator.progress import duration
from orchestrator.remote import is_uri
from orchestrator.spec import Study
from orchestrator.store import Store
from orchestrator.sweep import Pump
from orchestrator.telling import Result
from orchestrator.timing import COMPILING, core_seconds, left_of
from orchestrator.trial import own_seeds


@dataclass(frozen=True)
class Plan:
    """A study, counted."""

    grid: Grid
    folder: Path
    totals: dict[tuple[str, str], int]  # networks by (label, phase)
    known: dict[tuple[str, str], int]  # of these in the table
    seconds: float | None  # estimated on `workers` workers of this machine; None: not measured
    workers: int
    modules: tuple[str, ...]  # the user's own modules that the study will import

    @property
    def weights(self) -> float:
        """Megabytes of weights that the run folder will keep; 0 where the study keeps none."""
        if not self.grid.study.measure.save_weights:
            return 0.0
        return sum(map(_weights, self.grid.evaluations)) / 1e6

    @property
    def missing(self) -> int:
        """Networks to train."""
        return sum(self.totals.values()) - sum(self.known.values())

    @property
    def warnings(self) -> list[str]:
        """What the study's author should know before it starts."""
        return [*_family(self.grid.study), *_ranges(self.grid), *self._uncompiled()]

    def _uncompiled(self) -> list[str]:
        """That compiling may pay: it takes less than a tenth of the time that training takes."""
        cells = len(self.grid.evaluations)
        compiling, training = cells * COMPILING, (self.seconds or 0.0) * self.workers
        if self.grid.study.training.compile or training < 10 * compiling:
            return []
        return [
            f"training.compile: the steps of {cells} cells compile in about {duration(compiling)}, "
            f"and training takes {duration(training)} on one core: it may pay; plan with "
            "--set training.compile=true measures it"
        ]


def plan(
    study: Study,
    out: str | Path | None = None,
    *,
    workers: int | None = None,
    measure: bool = True,
    data_dir: Path | None = None,
    source: Path | None = None,
) -> Plan:
    """Count the study's networks against the table of its run folder; nothing is written.

    With `measure` a few steps of every rule's smallest and largest cell are timed in this process.

    Raises:
        StudyError, RuleError, DataError: the study cannot run.
    """
    importable(source)
    grid = expand(study, data_dir)
    place = out if out is not None else default_place(study)
    folder = Mirror(str(place)).pull() if is_uri(place) else Path(place)
    pump = Pump(grid, Store(folder), study_id(grid))
    known: Counter[tuple[str, str]] = Counter()
    for (label, phase, _), number in pump.counts.items():
        known[label, phase] += number
    workers = workers or max(1, (os.cpu_count() or 1) // study.resources.cpus)
    timed = measure and not pump.finished
    seconds = core_seconds(grid, left_of(pump)) / workers if timed else None
    names = [choice.name for choice in study.rules] + list(grid.data)
    modules = dict.fromkeys(name.partition(":")[0] for name in names if ":" in name)
    return Plan(grid, folder, dict(pump.totals), dict(known), seconds, workers, tuple(modules))


def expected(study: Study, result: Result, data_dir: Path | None = None) -> float:
    """The seconds that a plan would have told of what a run has trained, measured now."""
    assert result.left is not None
    return core_seconds(expand(study, data_dir), result.left) / result.workers


def _weights(evaluation: Evaluation) -> int:
    """Bytes of the weights of a cell's evaluated networks."""
    cell = evaluation.cell
    networks = own_seeds(cell, evaluation.seeds)
    bytes_each = cell.dims.parameter_count * int(cell.training.dtype.removeprefix("float")) // 8
    return len(networks) * bytes_each


def _family(study: Study) -> list[str]:
    """A declared family of comparisons that its number of seeds can never let pass."""
    cells = sum(
        len(b.depth) * (len(b.width) if isinstance(b.width, tuple) else 1) for b in study.blocks
    )
    family = len(study.compare.pairs) * cells
    seeds = min(len(block.init_seeds) for block in study.blocks)
    least = 2 / 2**seeds
    if not family or least * family <= 0.05:
        return []
    return [
        f"compare: with {seeds} seeds the least exact p is {least:.3g}, and Holm over "
        f"{family} comparisons asks for {0.05 / family:.2g}: none can pass at .05; "
        "read the intervals, or take more seeds"
    ]


def _ranges(grid: Grid) -> list[str]:
    """Rules tuned over unlike ranges, or over more hyperparameters than others."""
    rules = {e.cell.rule.label: e.cell.rule for e in grid.evaluations}
    rates: dict[str, list[str]] = {}
    for label, rule in rules.items():
        told = [f"{low:g} to {high:g}" for name, low, high in rule.space if name == "lr"]
        rates.setdefault(told[0] if told else "fixed", []).append(label)
    warnings = []
    if len(rates) > 1:
        told = [f"{', '.join(labels)}: {rate}" for rate, labels in rates.items()]
        warnings.append(f"search: the rules' rates have unlike ranges ({'; '.join(told)})")
    knobs = [label for label, rule in rules.items() if len(rule.space) > 1]
    if knobs:
        more = "searches more than the learning rate with no more points than the others"
        warnings.append(f"search: {', '.join(knobs)} {more}")
    return warnings
