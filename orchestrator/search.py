"""Choosing hyperparameters: ask, tell, best. The only door to Optuna."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, factorial, inf, log
from typing import TYPE_CHECKING

from orchestrator.cell import short_hash
from orchestrator.trial import Point, rounded
from rules.shuffle import order

if TYPE_CHECKING:
    import optuna


@dataclass
class Search:
    """The search of one campaign, in memory; rebuilt from the table when a run goes on.

    What is asked is a function of the space, the sampler, the campaign's name and what was told
    in earlier rounds, so it never depends on which network finished first.
    """

    space: Sequence[tuple[str, float, float]]  # name, low, high: searched on a log scale
    fixed: Sequence[tuple[str, float]]
    points: int
    sampler: str  # tpe | grid | random
    campaign: str
    told: list[tuple[Point, float]] = field(default_factory=list)
    round: int = 0

    def ask(self) -> list[Point]:
        """The points of the next round, to be told before the one after."""
        if self.round == 0 and self.sampler != "random":
            return [self._whole(point) for point in log_even(self.space, self.points)]
        return [self._whole(point) for point in self._sample()]

    def tell(self, points: Sequence[Point], values: Sequence[float]) -> None:
        """The value of every point, in the order they were asked; lower is better, inf is worst."""
        self.told.extend(zip(points, values, strict=True))
        self.round += 1

    @property
    def best(self) -> Point | None:
        """The point of the lowest value, the smaller rate on a tie; None where all failed."""
        point, value = min(self.told, key=lambda told: (told[1], told[0]["lr"]))
        return point if value < inf else None

    def _whole(self, searched: Point) -> Point:
        return rounded(dict(self.fixed) | searched)

    def _sample(self) -> list[Point]:
        """Points from Optuna, on a study made anew from what was told."""
        import optuna  # costs half a second, and replaying a finished run needs none of it

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        distributions: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.FloatDistribution(low, high, log=True)
            for name, low, high in self.space
        }
        study = optuna.create_study(direction="minimize", sampler=self._sampler())
        worst = max((value for _, value in self.told if value < inf), default=0.0)
        study.add_trials(
            [
                optuna.trial.create_trial(
                    params={name: point[name] for name in distributions},
                    distributions=distributions,
                    value=min(value, worst),
                )
                for point, value in self.told
                if self._inside(point)
            ]
        )
        return [study.ask(distributions).params for _ in range(self.points)]

    def _inside(self, point: Point) -> bool:
        return all(low <= point[name] <= high for name, low, high in self.space)

    def _sampler(self) -> optuna.samplers.BaseSampler:
        import optuna

        seed = int(short_hash([self.campaign, self.round])[:8], 16)
        if self.sampler == "random":
            return optuna.samplers.RandomSampler(seed=seed)
        return optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=1,
            n_ei_candidates=24,
            multivariate=len(self.space) > 1,
            group=False,
            constant_liar=True,
        )


def log_even(space: Sequence[tuple[str, float, float]], count: int) -> list[Point]:
    """`count` points, evenly spaced on a log scale from low to high.

    The learning rate rises from point to point; every further name takes the same levels in an
    order of its own, so that they do not all rise together.
    """
    ordered = sorted(space, key=lambda entry: entry[0] != "lr")
    orders = distinct_orders(len(ordered), count)
    return [
        {
            name: exp(log(low) + (log(high) - log(low)) * level[i] / (count - 1))
            for (name, low, high), level in zip(ordered, orders, strict=True)
        }
        for i in range(count)
    ]


def distinct_orders(names: int, count: int) -> list[list[int]]:
    """For every name an order of the levels 0..count-1: rising for the first, then shuffled.

    No two are equal, as far as there are so many orders.
    """
    orders = [list(range(count))]
    attempts = iter(range(100))
    while len(orders) < names:
        shuffled = [int(level) for level in order(len(orders), next(attempts), count)]
        if shuffled not in orders or len(orders) >= factorial(count):
            orders.append(shuffled)
    return orders
