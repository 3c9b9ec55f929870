"""Local losses: every hidden layer learns from a linear readout of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.sources import NOKLAND_2019

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class LocalLoss:
    """s_l = (e_l C_l^T) * phi'(z_l), with e_l the error of the layer's own readout h_l C_l.

    This is the prediction loss: e_l = softmax(h_l C_l) - y, or h_l C_l - y where the loss is
    squared. C_l is drawn from N(0, 1 / n_l) and follows its own gradient with its own step and
    momentum, from 0:

        V_l <- momentum V_l + 1/N sum_i h_{l,i}^T e_{l,i},    C_l <- C_l - eta_C V_l

    No layer hears of the layers above it, so its signal is no estimate of dloss/dz_l and its
    alignment only describes. C_l has n_l times outputs weights, which the parameter count, and
    widths matched to it, leave out. Signals use C_l before its own step.

    Nøkland, Eidnes, 2019; their code starts C_l at 0 and gives the local readouts biases.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (NOKLAND_2019,)

    eta_C: float | Tensor = field(
        default=0.03, metadata={"help": "step of the local readouts", "range": (0.003, 0.3)}
    )
    momentum: float | Tensor = field(
        default=0.9, metadata={"help": "momentum of that step, below 1", "range": (0.5, 0.95)}
    )

    def operations(self, dims: Dims) -> float:
        return 6 * dims.outputs * sum(dims.sizes[1:-1])

    def init(self, dims: Dims, streams: Streams) -> State:
        shapes = [(n, dims.outputs) for n in dims.sizes[1:-1]]
        drawn = (streams.normal(f"feedback/{l}", shape) for l, shape in enumerate(shapes, start=1))
        return {
            "C": tuple(c / sqrt(n) for c, (n, _) in zip(drawn, shapes, strict=True)),
            "V": tuple(map(streams.zeros, shapes)),
        }

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        net, hidden, C = trace.net, trace.inputs[1:], state["C"]
        errors = [
            net.error(net.product(h, c), trace.targets) for h, c in zip(hidden, C, strict=True)
        ]
        signals = (
            net.product(e, c.mT) * slope
            for e, c, slope in zip(errors, C, trace.slopes, strict=True)
        )
        lesson = Lesson((*signals, trace.error))
        if trace.measuring:
            return lesson, state
        V = tuple(
            self.momentum * v + net.product(h.mT, e) / e.shape[1]
            for v, h, e in zip(state["V"], hidden, errors, strict=True)
        )
        return lesson, {"C": tuple(c - self.eta_C * v for c, v in zip(C, V, strict=True)), "V": V}
