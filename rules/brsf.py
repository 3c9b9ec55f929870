"""Sign symmetry with new sizes at each step: the forward weights' signs, magnitudes drawn anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from rules.frsf import concordant
from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import LIAO_2016, XIAO_2019

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class BRSF:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l) with B_{l+1} = |M_{l+1}| * sign(W_{l+1}^T).

    Batchwise random-magnitude sign-concordant feedback: M is drawn anew at each step, from
    N(0, scale^2 / n_l). Every step draws as many numbers as there are weights above the first
    layer, which takes longer than the step itself in a small network.
    Sources as for `usf`.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (LIAO_2016, XIAO_2019)

    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale", "range": (0.3, 3.0)}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * sum(dims.weights[1:])

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        drawn = []
        for l, w in enumerate(params.weights[1:], start=1):
            n, above = w.shape[1:]
            m = trace.streams.normal(f"feedback/{l}", (above, n), trace.step)
            drawn.append(self.scale / sqrt(n) * m)
        return layered(trace, concordant(tuple(drawn), params)), state
