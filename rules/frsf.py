"""Sign symmetry with fixed sizes: the forward weights' signs, magnitudes drawn once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rules.fa import FA
from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import LIAO_2016, XIAO_2019

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class FRSF:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l) with B_{l+1} = |M_{l+1}| * sign(W_{l+1}^T).

    Fixed random-magnitude sign-concordant feedback: M is drawn once, from N(0, scale^2 / n_l).
    The cosine of B with the W^T of a network that has just been drawn is 2 / pi = .64; the
    alignment of M itself says nothing. Sources as for `usf`.
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
        return {"M": FA(self.scale).init(dims, streams)["B"]}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        return layered(trace, concordant(state["M"], params)), state


def concordant(magnitudes: tuple[Tensor, ...], params: Params) -> list[Tensor]:
    """B_2..B_{L+1}: the sizes of these matrices, the signs of the transposed forward weights."""
    return [m.abs() * w.mT.sign() for m, w in zip(magnitudes, params.weights[1:], strict=True)]
