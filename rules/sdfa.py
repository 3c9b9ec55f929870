"""Sign-based direct feedback alignment: only the sign of each output's error goes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rules.dfa import DFA
from rules.rule import Lesson, State, Trace
from rules.signals import direct
from rules.sources import FRENKEL_2021

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class SDFA:
    """s_l = (sign(e) B_l) * phi'(z_l), with B_l fixed and drawn from N(0, scale^2 / n_l).

    The signal of an example does not fade as its error does, so the learning rate that serves
    the start is too large for the end: look at the best step as well as at the last. The scale
    is the ratio of the hidden layers' learning rate to the readout's, as for `dfa`. On mnist-1d
    it is no better than `shallow`: test accuracy .28 against .31 at depth 3, .32 against .34 at
    depth 1 (width 64, 600 steps, best of several rates and scales, three seeds).
    Frenkel, Lefebvre, Bol, 2021.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (FRENKEL_2021,)

    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale", "range": (0.03, 3.0)}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * dims.outputs * sum(dims.sizes[1:-1])

    def init(self, dims: Dims, streams: Streams) -> State:
        return DFA(self.scale).init(dims, streams)

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        return direct(trace, state["B"], trace.error.sign()), state
