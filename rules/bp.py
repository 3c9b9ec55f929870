"""Backpropagation: the true gradient, layer by layer through the transposed forward weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import RUMELHART_1986

if TYPE_CHECKING:
    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class BP:
    """s_l = (s_{l+1} W_{l+1}^T) * phi'(z_l) (Rumelhart, Hinton, Williams, 1986)."""

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False
    sources: ClassVar[tuple[str, ...]] = (RUMELHART_1986,)

    def operations(self, dims: Dims) -> float:
        return 2 * sum(dims.weights[1:])

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        return layered(trace, [w.mT for w in params.weights[1:]]), state
