"""What small random shifts of the hidden layers tell: the loss's gradient, the readout's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.rule import Trace

if TYPE_CHECKING:
    from torch import Tensor

    from rules.dims import Dims
    from rules.net import Params


def lifted_operations(dims: Dims) -> int:
    """Operations, for one example, of sending one shifted copy of every hidden layer upwards."""
    return sum(2 * l * weights for l, weights in enumerate(dims.weights))  # l copies pass


def noise(trace: Trace, draw: int = 0) -> list[Tensor]:
    """xi_1..xi_L ~ N(0, I), another for every example and step: (replica, batch, n_l)."""
    return [
        trace.streams.normal(f"perturbation/{l}/{draw}", tuple(h.shape[1:]), trace.step)
        for l, h in enumerate(trace.inputs[1:], start=1)
    ]


def gradients(trace: Trace, params: Params, draws: int, sigma: float | Tensor) -> list[Tensor]:
    """ghat_1..ghat_L, estimates of dloss/dh_l for every example: (replica, batch, n_l).

    ghat_l = mean over draws of [(loss(h_l + sigma xi) - loss) / sigma] xi, each hidden layer
    shifted on its own.
    """
    total: list[Tensor] = []
    for k in range(draws):
        xi = noise(trace, k)
        shifted = trace.net.perturbed_losses(params, trace, [sigma * x for x in xi])
        scale = sigma * draws
        ghat = [
            (loss - trace.losses).unsqueeze(-1) / scale * x
            for loss, x in zip(shifted, xi, strict=True)
        ]
        total = [t + g for t, g in zip(total, ghat, strict=True)] if total else ghat
    return total


def answers(
    trace: Trace, params: Params, sigma: float | Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """The noise xi_l, and the readout's answer (logits(h_l + sigma xi_l) - logits) / sigma.

    Two lists over the hidden layers, (replica, batch, n_l) and (replica, batch, outputs); each
    hidden layer is shifted on its own.
    """
    xi, logits = noise(trace), trace.net.preactivation(params, -1, trace.inputs[-1])
    shifted = trace.net.perturbed_logits(params, trace, [sigma * x for x in xi])
    return xi, [(above - logits) / sigma for above in shifted]
