"""Sign symmetry: as backpropagation, through matrices that share the forward weights' signs only.

Three rules that differ in the size of the feedback weights: one size for all, drawn once, or
drawn anew at each step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from rules.fa import FA
from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import LIAO_2016, MOSKOVITZ_2018, XIAO_2019

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
    Liao, Leibo, Poggio, 2016; the name is that of Moskovitz, Litwin-Kumar, Abbott, 2018.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False
    sources: ClassVar[tuple[str, ...]] = (LIAO_2016, XIAO_2019, MOSKOVITZ_2018)

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


@dataclass(frozen=True)
class FRSF:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l) with B_{l+1} = |M_{l+1}| * sign(W_{l+1}^T).

    Fixed random-magnitude sign-concordant feedback: M is drawn once, from N(0, scale^2 / n_l).
    The cosine of B with the W^T of a network that has just been drawn is 2 / pi = .64; the
    alignment of M itself says nothing. Sources as for `usf`.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (LIAO_2016, XIAO_2019, MOSKOVITZ_2018)

    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale", "range": (0.3, 3.0)}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * sum(dims.weights[1:])

    def init(self, dims: Dims, streams: Streams) -> State:
        return {"M": FA(self.scale).init(dims, streams)["B"]}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        return layered(trace, concordant(state["M"], params)), state


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
    sources: ClassVar[tuple[str, ...]] = (LIAO_2016, XIAO_2019, MOSKOVITZ_2018)

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


def concordant(magnitudes: tuple[Tensor, ...], params: Params) -> list[Tensor]:
    """B_2..B_{L+1}: the sizes of these matrices, the signs of the transposed forward weights."""
    return [m.abs() * w.mT.sign() for m, w in zip(magnitudes, params.weights[1:], strict=True)]
