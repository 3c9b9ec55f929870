"""The control for "uses depth": hidden layers stay as they were drawn, the readout learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.sources import FRENKEL_2021

if TYPE_CHECKING:
    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class Shallow:
    """s_l = 0 for every hidden layer; the readout's signal is the error.

    A rule that is no better than this trains a linear readout on random features, whatever its
    depth. Its alignment is undefined (NaN), its hidden weights never change. A control of
    Frenkel, Lefebvre, Bol, 2021.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False
    sources: ClassVar[tuple[str, ...]] = (FRENKEL_2021,)

    def operations(self, dims: Dims) -> float:
        return 0

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        silent = (slope.new_zeros(slope.shape) for slope in trace.slopes)
        return Lesson((*silent, trace.error)), state
