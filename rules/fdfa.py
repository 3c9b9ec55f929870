"""Forward direct feedback alignment: direct feedback that follows the mean Jacobian."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rules.perturbation import answers, lifted_operations
from rules.rule import Lesson, State, Trace
from rules.signals import direct
from rules.sources import BACHO_2024

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class FDFA:
    """s_l = (e A_l) * phi'(z_l), with A_l a running mean of the readout's derivative by h_l.

    Each hidden layer is shifted on its own by sigma xi, xi ~ N(0, I) an example, and the readout
    answers with d_l = (logits(h_l + sigma xi_l) - logits) / sigma (i runs over the N examples):

        A_l <- (1 - eta_A) A_l + eta_A / N sum_i d_{l,i}^T xi_{l,i}

    so that A_l tends to the mean over examples of (dlogits / dh_l)^T. It needs no labels, and its
    target is that of sdil, regressed from the readout instead of the loss. A_l starts at 0: the
    hidden layers are silent in the first step, and signals use A_l before its own step. A linear
    map of the error cannot be the gradient of every example, only of their mean Jacobian.

    Bacho, Chu, 2024; there the derivative is exact (forward mode), and one pass shifts all layers
    at once: the same mean, with more noise.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (BACHO_2024,)

    eta_A: float | Tensor = field(
        default=0.05, metadata={"help": "share of A replaced a step", "range": (0.01, 0.3)}
    )
    sigma: float | Tensor = field(
        default=0.01, metadata={"help": "size of a perturbation", "range": (1e-3, 0.1)}
    )

    def operations(self, dims: Dims) -> float:
        direct = 2 * dims.outputs * sum(dims.sizes[1:-1])
        return lifted_operations(dims) + 2 * dims.weights[-1] + 2 * direct

    def init(self, dims: Dims, streams: Streams) -> State:
        return {"A": tuple(streams.zeros((dims.outputs, n)) for n in dims.sizes[1:-1])}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        lesson = direct(trace, state["A"])
        if trace.measuring:
            return lesson, state
        rate, product = self.eta_A / trace.error.shape[1], trace.net.product
        learned = (
            a - self.eta_A * a + rate * product(d.mT, xi)
            for a, xi, d in zip(state["A"], *answers(trace, params, self.sigma), strict=True)
        )
        return lesson, {"A": tuple(learned)}
