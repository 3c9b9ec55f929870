"""Weight mirrors: feedback alignment whose feedback weights are learned from noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rules.fa import FA
from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import AKROUT_2019

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class WM:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l), with B learned in a mirror mode after each step.

    Every hidden layer in turn sends noise xi ~ N(0, noise^2) through the weights above it, a
    batch of N as large as that of the examples. What comes out is correlated with what went in:

        y = phi(xi W_{l+1} + b_{l+1})
        B_{l+1} <- (1 - lam_B) B_{l+1} + eta_B / (N noise^2) sum_i (y_i - mean_j y_j)^T xi_i

    whose mean tends to (eta_B / lam_B) W^T diag(mean phi'): the size of B is that of W^T when
    eta_B is lam_B over the mean slope, and what is amiss in it multiplies from layer to layer.
    Small noise keeps units where they are linear. A small lam_B averages over more noise, which
    leaves cos(B, W^T) near 1 / sqrt(1 + n_l lam_B / (2 N)), but follows the weights later, by
    1 / lam_B steps. The readout is linear and mirrored as such. B starts as feedback alignment's,
    and signals use it before its own step. Akrout et al., 2019.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (AKROUT_2019,)

    eta_B: float | Tensor = field(
        default=0.05, metadata={"help": "step of B", "range": (0.005, 0.5)}
    )
    lam_B: float | Tensor = field(
        default=0.05, metadata={"help": "decay of B a step, below 1", "range": (0.005, 0.5)}
    )
    noise: float | Tensor = field(
        default=0.3, metadata={"help": "standard deviation of the noise", "range": (0.03, 1.0)}
    )
    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale at the start", "range": (0.3, 3.0)}
    )

    def operations(self, dims: Dims) -> float:
        return 6 * sum(dims.weights[1:])  # signals; noise on its way up; its correlation

    def init(self, dims: Dims, streams: Streams) -> State:
        return FA(self.scale).init(dims, streams)

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        lesson = layered(trace, state["B"])
        if trace.measuring:
            return lesson, state
        return lesson, {"B": self.mirrored(trace, params, state["B"])}

    def mirrored(
        self, trace: Trace, params: Params, backward: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """B_2..B_{L+1} after a batch of noise through every layer."""
        net, depth, learned = trace.net, len(backward), []
        for l, (b, h) in enumerate(zip(backward, trace.inputs[1:], strict=True), start=1):
            xi = self.noise * trace.streams.normal(f"mirror/{l}", tuple(h.shape[1:]), trace.step)
            z = net.preactivation(params, l, xi)
            y = net.activate(z) if l < depth else z
            centred = y - y.mean(1, keepdim=True)
            rate = self.eta_B / (xi.shape[1] * self.noise * self.noise)
            learned.append((1 - self.lam_B) * b + rate * net.product(centred.mT, xi))
        return tuple(learned)
