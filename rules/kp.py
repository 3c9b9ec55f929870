"""Kolen-Pollack: feedback alignment whose feedback weights follow the forward weights' changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rules.fa import FA
from rules.rule import Lesson, State, Trace
from rules.signals import layered
from rules.sources import AKROUT_2019, KOLEN_1994

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class KP:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l), and B learns as W does: same increments, same decay.

    With lam the step's weight decay and D the rest of its change, whatever optimiser made it,

        W <- (1 - lam) W + D        B <- (1 - lam) B + D^T

    so that B - W^T shrinks by the factor 1 - lam a step. B starts as feedback alignment's.

    The time constant is 1 / lam steps: take a lam of at least a few times 1 / steps. Without
    decay B - W^T never changes, though increments that outgrow the start align the two all the
    same. Decay itself costs accuracy, so compare with backpropagation at the same lam.
    Kolen, Pollack, 1994; Akrout et al., 2019.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (KOLEN_1994, AKROUT_2019)

    scale: float | Tensor = field(
        default=1.0, metadata={"help": "feedback weights' scale at the start", "range": (0.3, 3.0)}
    )

    def operations(self, dims: Dims) -> float:
        return 2 * sum(dims.weights[1:])

    def init(self, dims: Dims, streams: Streams) -> State:
        return {"B": FA(self.scale).init(dims, streams)["B"], "W": ()}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        """The state holds B and W as the decay of the last step left them, before its increment."""
        backward, weights = state["B"], params.weights[1:]
        if state["W"]:  # there is no increment before the first step
            increments = (w - old for w, old in zip(weights, state["W"], strict=True))
            backward = tuple(b + d.mT for b, d in zip(backward, increments, strict=True))
        kept = 1 - trace.weight_decay
        after = {"B": tuple(kept * b for b in backward), "W": tuple(kept * w for w in weights)}
        return layered(trace, backward), after
