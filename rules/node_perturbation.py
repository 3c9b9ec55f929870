"""Node perturbation: a layer's gradient from how the loss answers to noise in that layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rules.perturbation import gradients, lifted_operations
from rules.rule import Lesson, State, Trace
from rules.sources import FIETE_2006, WERFEL_2005

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class NP:
    """s_l = ghat_l * phi'(z_l), with ghat_l measured afresh for every example at every step.

        ghat_l = mean over pert_ndirs draws of [(loss(h_l + sigma xi) - loss) / sigma] xi

    with xi ~ N(0, I), one hidden layer shifted at a time; the readout's signal is the error.
    E[ghat_l] is dloss/dh_l as sigma goes to 0, but few draws are mostly noise: for an example the
    cosine with the gradient is about sqrt(2 / (pi n_l)) for one draw, 1 / sqrt(1 + (n_l + 1) / K)
    for K of 16 or more. It learns because the noise averages out over batches, which takes a
    learning rate below backpropagation's; with one draw it hardly beats `shallow` in short runs.

    Werfel, Xie, Seung, 2005; Fiete, Seung, 2006. There one draw shifts what enters all units at
    once; a layer at a time, and after phi, an estimate has less noise, and costs more passes.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (FIETE_2006, WERFEL_2005)

    pert_ndirs: int = field(default=4, metadata={"help": "draws a step", "least": 1})
    sigma: float | Tensor = field(
        default=0.01, metadata={"help": "size of a perturbation", "range": (1e-3, 0.1)}
    )

    def operations(self, dims: Dims) -> float:
        return self.pert_ndirs * lifted_operations(dims)

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        ghat = gradients(trace, params, self.pert_ndirs, self.sigma)
        signals = (g * slope for g, slope in zip(ghat, trace.slopes, strict=True))
        return Lesson((*signals, trace.error)), state
