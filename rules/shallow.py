"""The control for "uses depth": hidden layers stay as they were drawn, the readout learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace

if TYPE_CHECKING:
    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class Shallow:
    """s_l = 0 for every hidden layer; the readout's signal is the error.

    A rule that is no better than this trains a linear readout on random features, whatever its
    depth. Used as a control by Frenkel, Lefebvre, Bol, "Learning without feedback: fixed random
    learning signals allow for feedforward training of deep neural networks", Frontiers in
    Neuroscience 2021. Its alignment is undefined (NaN), its hidden weights never change.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False

    def operations(self, dims: Dims) -> float:
        return 0

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        silent = (slope.new_zeros(slope.shape) for slope in trace.slopes)
        return Lesson((*silent, trace.error)), state
