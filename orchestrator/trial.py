"""One network to train, and those that train together: Trial, Pack, and their content ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from orchestrator.cell import Cell, canonical, cell_from, hashed, short_hash

Point = dict[str, float]
"""Searched values by name, the learning rate `lr` among them."""


QUOTED_TUNING = canonical("tuning")


def rounded(point: Mapping[str, float]) -> Point:
    """The point in six significant digits: what is trained is exactly what is written down."""
    return {name: float(f"{value:.6g}") + 0.0 for name, value in sorted(point.items())}  # -0 is 0


@lru_cache(maxsize=1024)
def _quoted(point: tuple[tuple[str, float], ...]) -> str:
    """A point in its networks' ids, as JSON; many of them have the same."""
    return canonical(point)


@dataclass(frozen=True)
class Trial:
    """One network: a cell, its seeds, its hyperparameters, and what is measured of it."""

    cell: Cell
    init_seed: int
    feedback_seed: int | None  # None where the rule draws nothing
    point: tuple[tuple[str, float], ...]
    tuning: bool  # a tuning network is measured on validation data only

    @cached_property
    def id(self) -> str:
        """A hash of everything that changes its row, and of nothing else."""
        content, measure = self.cell.quoted
        feedback = "null" if self.feedback_seed is None else self.feedback_seed
        own = f"[{self.init_seed},{feedback}],{_quoted(self.point)}"
        return hashed(f"[{content},{own},{QUOTED_TUNING if self.tuning else measure}]")

    @property
    def lr(self) -> float:
        """The learning rate."""
        return dict(self.point)["lr"]

    @property
    def coordinates(self) -> dict[str, Any]:
        """Its columns in the trial table."""
        return self.cell.coordinates | {
            "trial": self.id,
            "init_seed": self.init_seed,
            "feedback_seed": self.feedback_seed,
            "lr": self.lr,
            "hyperparameters": canonical(dict(self.point)),
        }


def trial_of(
    cell: Cell, seeds: tuple[int, int], point: Mapping[str, float], *, tuning: bool
) -> Trial:
    """The trial of a cell at a point; a rule that draws nothing drops the feedback seed."""
    [trial] = trials_of(cell, [seeds], point, tuning=tuning)
    return trial


def trials_of(
    cell: Cell, seeds: Iterable[tuple[int, int]], point: Mapping[str, float], *, tuning: bool
) -> list[Trial]:
    """The trials of a cell at a point, each once."""
    values = tuple(rounded(point).items())
    return [Trial(cell, *own, values, tuning) for own in own_seeds(cell, seeds)]


def own_seeds(cell: Cell, seeds: Iterable[tuple[int, int]]) -> list[tuple[int, int | None]]:
    """What seeds say to a cell's networks: without feedback, several may say the same."""
    draws = cell.rule.draws
    return [*dict.fromkeys((init, feedback if draws else None) for init, feedback in seeds)]


@dataclass(frozen=True)
class Pack:
    """Trials of one cell that train together as one batched tensor: only a way to go faster."""

    trials: tuple[Trial, ...]
    attempts: int = 1  # times this or a larger pack with these trials was handed out

    @property
    def cell(self) -> Cell:
        """The cell of all its trials."""
        return self.trials[0].cell

    @cached_property
    def id(self) -> str:
        """A hash of its trials."""
        return short_hash([trial.id for trial in self.trials])

    @property
    def cost(self) -> float:
        """Its trials' floating-point operations."""
        return self.cell.cost * len(self.trials)

    def halves(self) -> tuple[Pack, Pack]:
        """Its first and its second half."""
        middle = len(self.trials) // 2
        return Pack(self.trials[:middle], self.attempts), Pack(self.trials[middle:], self.attempts)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the way to a worker."""
        return {
            "cell": self.cell.as_dict(),
            "attempts": self.attempts,
            "trials": [
                [t.init_seed, t.feedback_seed, dict(t.point), t.tuning] for t in self.trials
            ],
        }


def pack_from(data: Mapping[str, Any]) -> Pack:
    """The pack that `Pack.as_dict` described."""
    cell = cell_from(data["cell"])
    trials = tuple(
        Trial(cell, init, feedback, tuple(point.items()), tuning)
        for init, feedback, point, tuning in data["trials"]
    )
    return Pack(trials, data["attempts"])
