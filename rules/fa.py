"""Feedback alignment: as backpropagation, through fixed random matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import LILLICRAP_2016

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class FA:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l), with B fixed and drawn from N(0, std^2).

    std is scale / sqrt(n_l), n_l being the width of the layer that receives the signal: at scale
    1 the law of the forward weights of a tanh network. `feedback_scale` names three laws in terms
    of the forward weight's fan-in, which is n_l: relu (sqrt(2 / n_l)), fan-in (sqrt(1 / n_l)) and
    unit (1, which explodes with depth). Lillicrap, Cownden, Tweed, Akerman, 2016.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (LILLICRAP_2016,)

    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale", "range": (0.3, 3.0)}
    )
    feedback_scale: str = field(
        default="fan-in", metadata={"choices": ("fan-in", "relu", "unit"), "help": "law of the std"}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * sum(dims.weights[1:])

    def init(self, dims: Dims, streams: Streams) -> State:
        feedback = []
        for l, (n, above) in enumerate(zip(dims.sizes[1:], dims.sizes[2:], strict=False), start=1):
            std = {"fan-in": sqrt(1 / n), "relu": sqrt(2 / n), "unit": 1.0}[self.feedback_scale]
            feedback.append(self.scale * std * streams.normal(f"feedback/{l}", (above, n)))
        return {"B": tuple(feedback)}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        return layered(trace, state["B"]), state
