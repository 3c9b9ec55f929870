"""Direct difference target propagation, linear: direct feedback that inverts what lies above."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rules.perturbation import answers, lifted_operations
from rules.rule import Lesson, State, Trace
from rules.signals import direct
from rules.sources import MEULEMANS_2020

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class DDTP:
    """s_l = (h_l - target_l) * phi'(z_l) = (target_step e Q_l) * phi'(z_l).

    The readout's target is logits - target_step e, and Q_l carries the difference down: target_l
    = h_l - target_step e Q_l. Q_l learns to undo the layers above. Each hidden layer is shifted
    on its own by sigma xi, xi ~ N(0, I) an example; the readout answers with
    d_l = (logits(h_l + sigma xi_l) - logits) / sigma; and Q_l descends half the mean of
    |d_l Q_l - xi_l|^2 + damping |Q_l|^2 (i runs over the N examples):

        Q_l <- Q_l - eta_Q [1/N sum_i d_{l,i}^T (d_{l,i} Q_l - xi_{l,i}) + damping Q_l]

    With J the readout's derivative by h_l, Q_l tends to (J J^T + damping)^-1 J, the direction of
    Gauss and Newton, where fdfa tends to J, the gradient's: a low alignment with the gradient is
    expected. eta_Q is stable below 2 over the largest eigenvalue of the mean of d_l^T d_l, which
    grows with the weights. Q_l starts at 0; signals use Q_l before its own step. The readout
    learns from the error itself.

    Meulemans et al., 2020 (DDTP-linear, with the difference reconstruction loss).
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (MEULEMANS_2020,)

    eta_Q: float | Tensor = field(
        default=0.01, metadata={"help": "step of Q", "range": (1e-3, 0.1)}
    )
    damping: float | Tensor = field(
        default=0.1, metadata={"help": "pulls Q to 0", "range": (0.01, 1.0)}
    )
    target_step: float | Tensor = field(
        default=1.0, metadata={"help": "share of the error taken", "range": (0.1, 10.0)}
    )
    sigma: float | Tensor = field(
        default=0.01, metadata={"help": "size of a perturbation", "range": (1e-3, 0.1)}
    )

    def operations(self, dims: Dims) -> float:
        direct = 2 * dims.outputs * sum(dims.sizes[1:-1])
        return lifted_operations(dims) + 2 * dims.weights[-1] + 3 * direct

    def init(self, dims: Dims, streams: Streams) -> State:
        return {"Q": tuple(streams.zeros((dims.outputs, n)) for n in dims.sizes[1:-1])}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        lesson = direct(trace, [self.target_step * q for q in state["Q"]])
        if trace.measuring:
            return lesson, state
        count, product = trace.error.shape[1], trace.net.product
        learned = (
            q - self.eta_Q * (product(d.mT, product(d, q) - xi) / count + self.damping * q)
            for q, xi, d in zip(state["Q"], *answers(trace, params, self.sigma), strict=True)
        )
        return lesson, {"Q": tuple(learned)}
