"""The optimisers and learning-rate schedules, the same for every rule of a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sqrt

from torch import Tensor

from rules.settings import Training

SQUARES = 0.999
"""Share of the mean square gradient that Adam keeps at each step."""

EPS = 1e-8
"""What Adam adds to the root of the mean square gradient."""

MOMENTS = {"sgd": 1, "adam": 2}
"""Tensors like the parameters that an optimiser carries from step to step; they start at 0."""


@dataclass(frozen=True)
class Scales:
    """What the number of a step makes of the optimiser's settings; numbers, or tensors of one."""

    factor: float | Tensor  # of the learning rate and of the decay
    mean: float | Tensor  # 1 - b^t: how much Adam has seen of the mean gradient after t steps
    square: float | Tensor  # sqrt(1 - c^t): the same for the root of the mean square


def scales(training: Training, step: int) -> Scales:
    """The scales of the update that follows `step` others."""
    mean, square = (1 - kept ** (step + 1) for kept in (training.momentum, SQUARES))
    return Scales(factor(training, step), mean, sqrt(square))


def direction(
    training: Training, gradient: Tensor, share: float, moments: Sequence[Tensor], now: Scales
) -> Tensor:
    """Where a parameter goes for G = share * `gradient`, times the learning rate, downhill.

    sgd: V <- momentum V + G, and the direction is V (Polyak, 1964).

    adam: M <- b M + (1 - b) G and S <- c S + (1 - c) G^2 with b the momentum and c = 0.999; after
    t steps the direction is M / (1 - b^t) over sqrt(S / (1 - c^t)) + eps (Kingma, Ba, "Adam: a
    method for stochastic optimization", ICLR 2015).

    `gradient` may be overwritten; `moments` are.
    """
    if training.optimizer == "sgd":
        return moments[0].mul_(training.momentum).add_(gradient, alpha=share)
    (mean, square), kept = moments, training.momentum
    gradient.mul_(share)
    mean.mul_(kept).add_(gradient, alpha=1 - kept)
    square.mul_(SQUARES).add_(gradient.square_(), alpha=1 - SQUARES)
    root = square.sqrt().div_(now.square).add_(EPS)
    return (mean / now.mean).div_(root)


def factor(training: Training, step: int) -> float:
    """What the schedule makes of the learning rate and of the decay, after `step` steps.

    With w steps of warm-up, n steps in all and t = (step - w) / (n - w):

        warm-up   (step + 1) / w, while step < w
        constant  1
        linear    1 - t
        cosine    (1 + cos(pi t)) / 2

    Source of the last: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm
    restarts", ICLR 2017; without restarts here.
    """
    if step < training.warmup:
        return (step + 1) / training.warmup
    return SHAPES[training.schedule]((step - training.warmup) / (training.steps - training.warmup))


SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda t: 1.0,
    "linear": lambda t: 1 - t,
    "cosine": lambda t: (1 + cos(pi * t)) / 2,
}
