"""Predictive coding: activities relax until the layers' prediction errors carry the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.sources import MILLIDGE_2022, ROSENBAUM_2022, WHITTINGTON_2017

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class PC:
    """s_l = eps_l * phi'(z_l), with eps_l the prediction error of h_l after inference.

    Activities v_l start at h_l, where every prediction error eps_l (the prediction minus v_l) is
    0 but the readout's, eps_{L+1} = e. `inference_steps` times, all layers at once:

        u_l = (eps_{l+1} * phi'(z_{l+1})) W_{l+1}^T  (plus eps_{l+1} where a skip leads upwards)
        v_l <- v_l + inference_rate (eps_l - u_l)

    With prediction `fixed` the predictions and phi' stay those of the forward pass, so that
    eps_l <- (1 - rate) eps_l + rate u_l: the signal is backpropagation's times P(X >= L + 1 - l)
    for X binomial of inference_steps trials of probability inference_rate (at rate 1 and L steps
    it is backpropagation). Early layers thus learn more slowly where inference is short. With
    `strict` predictions, phi' and the readout's error follow v, and the update's presynaptic
    factor is v_{l-1}; it wants an inference_rate of .1 or so and, since its signals are smaller by
    far, a larger learning rate; and it is no longer the gradient.

    Millidge, Tschantz, Buckley, 2022 (fixed); Rosenbaum, 2022 (both); Whittington, Bogacz, 2017
    (strict; their activities are those before phi, so that phi' is in the inference alone).
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False
    sources: ClassVar[tuple[str, ...]] = (MILLIDGE_2022, ROSENBAUM_2022, WHITTINGTON_2017)

    inference_steps: int = field(default=20, metadata={"help": "steps of inference", "least": 1})
    inference_rate: float | Tensor = field(
        default=0.5, metadata={"help": "size of such a step", "range": (0.05, 1.0)}
    )
    prediction: str = field(
        default="fixed", metadata={"choices": ("fixed", "strict"), "help": "do predictions follow?"}
    )

    def operations(self, dims: Dims) -> float:
        passes = 2 if self.prediction == "fixed" else 4
        return self.inference_steps * passes * sum(dims.weights[1:])

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        if self.prediction == "fixed":
            return Lesson(self.fixed(trace, params)), state
        return self.strict(trace, params), state

    def fixed(self, trace: Trace, params: Params) -> tuple[Tensor, ...]:
        """The signals after inference on the errors alone."""
        errors = [*(slope.new_zeros(slope.shape) for slope in trace.slopes), trace.error]
        for _ in range(self.inference_steps):
            wanted = asked(trace, params, signals(errors, trace.slopes), errors)
            errors = [
                *(
                    eps - self.inference_rate * (eps - u)
                    for eps, u in zip(errors[:-1], wanted, strict=True)
                ),
                trace.error,
            ]
        return signals(errors, trace.slopes)

    def strict(self, trace: Trace, params: Params) -> Lesson:
        """The signals and presynaptic activities after inference on the activities."""
        activities, slopes = trace.inputs, trace.slopes
        errors = [*(slope.new_zeros(slope.shape) for slope in slopes), trace.error]
        for _ in range(self.inference_steps):
            wanted = asked(trace, params, signals(errors, slopes), errors)
            moved = (
                v + self.inference_rate * (eps - u)
                for v, eps, u in zip(activities[1:], errors[:-1], wanted, strict=True)
            )
            activities = (trace.inputs[0], *moved)
            errors, slopes = predicted(trace, params, activities)
        return Lesson(signals(errors, slopes), activities)


def signals(errors: Sequence[Tensor], slopes: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """eps_l * phi'(z_l) of the hidden layers, and the readout's error."""
    return (*(eps * s for eps, s in zip(errors[:-1], slopes, strict=True)), errors[-1])


def asked(
    trace: Trace, params: Params, signals: Sequence[Tensor], errors: Sequence[Tensor]
) -> list[Tensor]:
    """u_1..u_L: what the error of the layer above asks of every hidden activity."""
    net = trace.net
    u = [net.product(s, w.mT) for s, w in zip(signals[1:], params.weights[1:], strict=True)]
    if net.residual:
        u[:-1] = [down + eps for down, eps in zip(u[:-1], errors[1:-1], strict=True)]
    return u


def predicted(
    trace: Trace, params: Params, activities: Sequence[Tensor]
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """The prediction errors and phi' where every layer predicts from the activity below it."""
    net, errors, slopes = trace.net, [], [trace.slopes[0]]
    errors.append(trace.inputs[1] - activities[1])  # the first layer sees the input, which is fixed
    for l, (below, v) in enumerate(pairwise(activities[1:]), start=1):
        phi, h = net.layer(params, l, below)
        errors.append(h - v)
        slopes.append(net.slope(phi))
    logits = net.preactivation(params, -1, activities[-1])
    return [*errors, net.error(logits, trace.targets)], tuple(slopes)
