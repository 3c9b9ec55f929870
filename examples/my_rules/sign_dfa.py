"""A learning rule of one's own, in full: what a study file names my_rules.sign_dfa:SignDFA."""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from rules.rule import Lesson


@dataclass(frozen=True)
class SignDFA:
    """s_l = (sign(e) B_l) * phi'(z_l), with B_l fixed and drawn from N(0, scale^2 / n_l).

    Source: "sDFA" of Frenkel, Lefebvre, Bol, "Learning without feedback: fixed random learning
    signals allow for feedforward training of deep neural networks", Frontiers in Neuroscience 2021.
    """

    revision: ClassVar[int] = 1  # raise it when the same options come to mean something else
    draws: ClassVar[bool] = True  # it has feedback weights, which need a seed

    scale: float = 1.0

    def operations(self, dims):
        """Two operations a feedback weight."""
        return 2 * dims.outputs * sum(dims.sizes[1:-1])

    def init(self, dims, streams):
        """B_1..B_L, each (replica, outputs, n_l)."""
        widths = enumerate(dims.sizes[1:-1], start=1)
        drawn = ((n, streams.normal(f"feedback/{l}", (dims.outputs, n))) for l, n in widths)
        return {"B": tuple(self.scale / sqrt(n) * b for n, b in drawn)}

    def teach(self, trace, params, state):
        """The signals, each (replica, batch, n_l); the readout learns from the error itself."""
        sign, product = trace.error.sign(), trace.net.product
        layers = zip(state["B"], trace.slopes, strict=True)
        return Lesson((*(product(sign, b) * slope for b, slope in layers), trace.error)), state
