"""SDIL, soma-dendrite innovation learning: direct feedback that is learned from perturbations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rules.perturbation import gradients, lifted_operations
from rules.rule import Lesson, State, Trace
from rules.signals import direct
from rules.sources import LANSDELL_2020

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params
    from rules.streams import Streams


@dataclass(frozen=True)
class SDIL:
    """s_l = (e A_l) * phi'(z_l): direct feedback alignment whose feedback A_l is learned.

    Every `pert_every` steps each hidden layer is perturbed on its own, h_l + sigma xi with xi ~
    N(0, I) an example, and the change of the loss tells the gradient at h_l:

        ghat_l = mean over pert_ndirs draws of [(loss(h_l + sigma xi) - loss) / sigma] xi

    A_l follows by normalised least mean squares (i runs over the N examples of the batch):

        A_l <- A_l + eta_A / N sum_i e_i^T (ghat_{l,i} - e_i A_l) / (|e_i|^2 + rho mean_j |e_j|^2)

    A_l starts at 0, so the hidden layers are silent in the first step; signals use A_l before
    its own step. This is this project's definition of the rule, after Lansdell, Prakash, Kording,
    2020 (feedback learned from node perturbation); the apical dendrite's part that the soma
    predicts is zero for a context that is an error, and is left out.
    """

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    sources: ClassVar[tuple[str, ...]] = (LANSDELL_2020,)
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "seed": {"eta_A": 0.02, "pert_ndirs": 8, "pert_every": 4, "normalize_delta": True}
    }

    eta_A: float | Tensor = field(
        default=0.1, metadata={"help": "step of A, stable below 2", "range": (0.03, 0.3)}
    )
    pert_ndirs: int = field(default=1, metadata={"help": "draws a perturbing step", "least": 1})
    pert_every: int = field(default=1, metadata={"help": "steps between perturbations", "least": 1})
    sigma: float | Tensor = field(
        default=0.01, metadata={"help": "size of a perturbation", "range": (1e-3, 0.1)}
    )
    normalize_delta: bool = field(
        default=False, metadata={"help": "scale each hidden signal to the norm of the error"}
    )
    rho: float | Tensor = field(
        default=0.05, metadata={"help": "damping of small errors", "range": (0.01, 1.0)}
    )

    def operations(self, dims: Dims) -> float:
        direct = 2 * dims.outputs * sum(dims.sizes[1:-1])
        perturbing = self.pert_ndirs * lifted_operations(dims)
        return direct + (perturbing + 2 * direct) / self.pert_every

    def init(self, dims: Dims, streams: Streams) -> State:
        return {"A": tuple(streams.zeros((dims.outputs, n)) for n in dims.sizes[1:-1])}

    def teach(self, trace: Trace, params: Params, state: State) -> tuple[Lesson, State]:
        lesson = direct(trace, state["A"])
        if self.normalize_delta:
            lesson = lesson.normalized()
        if trace.measuring or trace.step % self.pert_every:
            return lesson, state
        targets = gradients(trace, params, self.pert_ndirs, self.sigma)
        return lesson, {"A": self.learn(trace, state["A"], targets)}

    def learn(
        self, trace: Trace, A: tuple[Tensor, ...], targets: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """One normalised least-mean-squares step of every A_l towards its targets."""
        e, product = trace.error, trace.net.product
        power = e.square().sum(-1, keepdim=True)
        damped = power + self.rho * power.mean(1, keepdim=True)
        factor = (e / damped.where(damped > 0, 1.0)).mT  # no error, nothing learned
        rate = self.eta_A / e.shape[1]
        return tuple(
            a + rate * product(factor, ghat - product(e, a))
            for a, ghat in zip(A, targets, strict=True)
        )
