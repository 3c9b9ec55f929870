"""Uniform sign symmetry: as backpropagation, through the signs of the forward weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import LIAO_2016, XIAO_2019

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class USF:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l) with B_{l+1} = (scale / sqrt(n_l)) sign(W_{l+1}^T).

    Uniform sign-concordant feedback. The cosine of B with the W^T of a network that has just been
    drawn is sqrt(2 / pi) = .80. Without the root of the width the signals explode with depth.
    Liao, Leibo, Poggio, 2016; Xiao, Chen, Liao, Poggio, 2019.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False
    sources: ClassVar[tuple[str, ...]] = (LIAO_2016, XIAO_2019)

    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale", "range": (0.3, 3.0)}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * sum(dims.weights[1:])

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        backward = [self.scale / sqrt(w.shape[1]) * w.mT.sign() for w in params.weights[1:]]
        return layered(trace, backward), state
