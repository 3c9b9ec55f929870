"""One experiment as a generator of wanted networks: tune in rounds, then evaluate the best."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

from orchestrator.cell import Cell, canonical, short_hash
from orchestrator.grid import Evaluation, Grid
from orchestrator.search import Search
from orchestrator.spec import SearchSpec
from orchestrator.trial import Point, Trial, own_seeds, rounded, trials_of

DIVERGED = 10.0
"""The loss of a diverged network in the search: so many times its loss at the start."""

Answer = Mapping[str, Any]
"""What the table knows of a finished network: its status and the values that choose."""


class Wanted(NamedTuple):
    """A network, and why a campaign wants it."""

    trial: Trial
    phase: str  # tune | evaluate
    round: int | None = None  # of the search; None when evaluating
    point: int | None = None  # its place in the round
    target: int | None = None  # the parameter count that its width matches


@dataclass(frozen=True)
class Campaign:
    """The cells that share a learning rate (one, by default), and how their rate is found."""

    evaluations: tuple[Evaluation, ...]
    search: SearchSpec

    @property
    def cells(self) -> list[Cell]:
        """The cells, in the order of the grid."""
        return [evaluation.cell for evaluation in self.evaluations]

    @cached_property
    def id(self) -> str:
        """A hash of all that decides what is asked, but for the number of rounds."""
        rule, search = self.cells[0].rule, self.search
        return short_hash(
            [
                [cell.content for cell in self.cells],
                rule.space,
                rule.fixed,
                search.sampler,
                search.points,
                search.seed_list,
                search.choose,
            ]
        )

    @property
    def rounds(self) -> int:
        """Rounds of tuning; none where every hyperparameter is fixed."""
        return self.search.rounds if self.cells[0].rule.space else 0

    def run(
        self, asked: Mapping[int, list[Point]]
    ) -> Generator[list[Wanted], Sequence[Answer], None]:
        """Yield the networks wanted next; to be sent their answers, in the same order.

        `asked` holds the rounds that the table has: they are read, not asked again.
        """
        rule, spec = self.cells[0].rule, self.search
        search = Search(rule.space, rule.fixed, spec.points, spec.sampler, self.id)
        best: Point | None = rounded(dict(rule.fixed))
        for round_ in range(self.rounds):
            points = asked.get(round_) or search.ask()
            answers = yield self.tuning(round_, points)
            search.tell(points, values(answers, len(points), spec.choose))
            best = search.best
            if best is None:
                return
        assert best is not None
        yield self.evaluating(best)

    def tuning(self, round_: int, points: Sequence[Point]) -> list[Wanted]:
        """A round's networks, those of a point side by side."""
        seeds = [(seed, seed) for seed in self.search.seed_list]
        return [
            Wanted(trial, "tune", round_, place, evaluation.target)
            for place, point in enumerate(points)
            for evaluation in self.evaluations
            for trial in trials_of(evaluation.cell, seeds, point, tuning=True)
        ]

    def evaluating(self, best: Point) -> list[Wanted]:
        """The networks that report: fresh seeds, the chosen point."""
        return [
            Wanted(trial, "evaluate", target=evaluation.target)
            for evaluation in self.evaluations
            for trial in trials_of(evaluation.cell, evaluation.seeds, best, tuning=False)
        ]

    @cached_property
    def sizes(self) -> list[tuple[Cell, str, int]]:
        """The networks that the campaign will want: by cell and phase, how many."""
        tuned = self.rounds * self.search.points * len(self.search.seed_list)
        tuning = [(cell, "tune", tuned) for cell in self.cells] if tuned else []
        return tuning + [
            (e.cell, "evaluate", len(own_seeds(e.cell, e.seeds))) for e in self.evaluations
        ]

    def outline(self) -> list[Wanted]:
        """The same networks one by one, at a placeholder rate: for planning ahead."""
        nowhere: Point = {"lr": 0.0}
        tuning = [
            w for r in range(self.rounds) for w in self.tuning(r, [nowhere] * self.search.points)
        ]
        return tuning + self.evaluating(nowhere)


def campaigns(grid: Grid) -> list[Campaign]:
    """The study's campaigns: cells of one rule that agree on the axes with rates of their own."""
    axes = grid.study.search.own_axes

    def key(evaluation: Evaluation) -> str:
        cell = evaluation.cell
        return canonical([cell.rule.label, [cell.axes[axis] for axis in axes]])

    groups: dict[str, list[Evaluation]] = {}
    for evaluation in grid.evaluations:
        groups.setdefault(key(evaluation), []).append(evaluation)
    return [Campaign(tuple(group), grid.study.search) for group in groups.values()]


def values(answers: Sequence[Answer], points: int, choose: str) -> list[float]:
    """The value of every point, lower is better: the mean over its networks."""
    share = len(answers) // points
    worths = [worth(answer, choose) for answer in answers]
    return [fmean(worths[i * share : (i + 1) * share]) for i in range(points)]


def worth(answer: Answer, choose: str) -> float:
    """One network's value to the search, a constant of the network; inf where its rule failed."""
    if answer["status"] == "failed" or answer["initial_loss"] is None:
        return inf
    if choose == "validation_accuracy":
        ok = answer["status"] == "ok"
        return -float(answer["validation_accuracy"] if ok else answer["chance_accuracy"])
    if answer["status"] == "diverged":
        return DIVERGED * float(answer["initial_loss"])
    return float(answer["validation_loss"])
