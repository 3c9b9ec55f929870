"""What a learning rule is, and what it exchanges with the core: a Trace in, a Lesson out.

Axes, outermost first, everywhere: `replica` (networks that train side by side), `batch`
(examples), units. `n_0` is the number of inputs, `n_1..n_L` are the widths of the hidden layers,
`n_{L+1}` the outputs; lists over layers run from the input side to the output side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Net, Params
    from rules.streams import Streams

State = dict[str, "tuple[Tensor, ...]"]
"""What a rule carries from step to step: named lists of tensors, `replica` first."""


@dataclass(frozen=True)
class Trace:
    """One forward pass, all that a rule may look at (beside parameters and its own state)."""

    inputs: tuple[Tensor, ...]  # h_0..h_L: what enters each layer; (replica, batch, n_l)
    slopes: tuple[Tensor, ...]  # phi'(z_1)..phi'(z_L); (replica, batch, n_l)
    error: Tensor  # dloss/dz of the readout, per example; (replica, batch, n_{L+1})
    losses: Tensor  # per example; (replica, batch)
    targets: Tensor  # classes (replica, batch) or values (replica, batch, n_{L+1})
    net: Net  # the architecture: `net.residual`, `net.perturbed_losses(...)`
    streams: Streams  # random numbers: `streams.normal(purpose, shape, step)`
    step: int  # updates before this one
    measuring: bool = False  # the new state will be thrown away: a rule need not learn
    weight_decay: float | Tensor = (
        0.0  # the share of every weight that this step's update takes away
    )


@dataclass(frozen=True)
class Lesson:
    """What a rule teaches: for every layer an estimate of dloss/dz_l, per example.

    The core forms the weight update of layer l as inputs[l]^T signals[l] / batch, so a rule
    that wants another presynaptic factor than the layer's own input gives `inputs` too.
    """

    signals: tuple[Tensor, ...]  # s_1..s_{L+1}; (replica, batch, n_l)
    inputs: tuple[Tensor, ...] | None = None  # (replica, batch, n_{l-1})

    def normalized(self) -> Lesson:
        """Every hidden signal scaled to the readout signal's norm over batch and units.

        A silent layer stays silent.
        """
        norms = [s.square().sum((1, 2), keepdim=True).sqrt() for s in self.signals]
        scaled = (
            s * (norms[-1] / n.where(n > 0, n + 1))
            for s, n in zip(self.signals[:-1], norms[:-1], strict=True)
        )
        return Lesson((*scaled, self.signals[-1]), self.inputs)


@runtime_checkable
class Rule(Protocol):
    """A learning rule: a frozen dataclass whose fields are its options.

    The methods are pure: equal arguments give equal answers, and nothing is changed in place.
    A numeric option that a study searches arrives as a (replica, 1, 1) tensor.
    """

    revision: ClassVar[int]  # raise it when the same options come to mean something else
    draws: ClassVar[bool]  # whether it draws anything: feedback weights or noise

    def operations(self, dims: Dims) -> float:
        """Floating-point operations of `teach` for one example: products only, mean over steps."""
        ...

    def init(self, dims: Dims, streams: Streams) -> State:
        """The state before the first step; `streams` are those of the feedback seeds."""
        ...

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        """The teaching signals for this batch, and the state for the next one."""
        ...
