"""PEPITA: a second forward pass on an input that the error has shifted, and no backward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.sources import DELLAFERRERA_2022

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class PEPITA:
    """s_l = h_l - h_l^err, with h^err the layers' outputs for the shifted input x + e F.

    F is fixed and drawn from N(0, scale^2 / inputs). The update of W_l is (h_{l-1}^err)^T s_l:
    the presynaptic factor is that of the second pass too, so alignment is that of the updates.
    The readout's signal is the error of the second pass. There is no phi': the difference of the
    two passes carries it. The default scale is that of the authors' code, which draws F evenly
    from +-.05 sqrt(6 / inputs). It is made for one or two hidden layers; signals scale with F, so
    deeper networks want a larger scale, and gain little.

    Dellaferrera, Kreiman, 2022.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (DELLAFERRERA_2022,)

    scale: float | Tensor = field(
        default=0.05 * sqrt(2), metadata={"help": "scale of F", "range": (0.02, 0.5)}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * dims.outputs * dims.sizes[0] + 2 * sum(dims.weights)

    def init(self, dims: Dims, streams: Streams) -> State:
        inputs = dims.sizes[0]
        drawn = streams.normal("feedback/0", (dims.outputs, inputs))
        return {"F": (self.scale / sqrt(inputs) * drawn,)}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        net, (F,) = trace.net, state["F"]
        shifted = trace.inputs[0] + net.product(trace.error, F)
        second = net.trace(params, shifted, trace.targets, trace.streams, trace.step)
        passes = zip(trace.inputs[1:], second.inputs[1:], strict=True)
        signals = (*(h - h_err for h, h_err in passes), second.error)
        return Lesson(signals, second.inputs), state
