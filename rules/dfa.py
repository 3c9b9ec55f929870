"""Direct feedback alignment: the output error goes to every layer through a fixed random matrix."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.signals import direct
from rules.sources import NOKLAND_2016

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class DFA:
    """s_l = (e B_l) * phi'(z_l), with B_l fixed and drawn from N(0, scale^2 / n_l).

    The scale is the ratio of the hidden layers' learning rate to the readout's, so it must be
    stated, or tuned; the learning rate alone does not absorb it. Nøkland, 2016.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (NOKLAND_2016,)

    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale", "range": (0.1, 5.0)}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * dims.outputs * sum(dims.sizes[1:-1])

    def init(self, dims: Dims, streams: Streams) -> State:
        return {
            "B": tuple(
                self.scale / sqrt(n) * streams.normal(f"feedback/{l}", (dims.outputs, n))
                for l, n in enumerate(dims.sizes[1:-1], start=1)
            )
        }

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        return direct(trace, state["B"]), state
