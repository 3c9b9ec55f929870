"""The two ways in which an output error reaches the hidden layers: layer by layer, or directly.

With `u_l` the estimate of dloss/dh_l, the signal is always `s_l = u_l * phi'(z_l)`; the readout's
is the error itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rules.rule import Lesson, Trace

if TYPE_CHECKING:
    from torch import Tensor


def layered(trace: Trace, backward: Sequence[Tensor]) -> Lesson:
    """u_l = s_{l+1} B_{l+1}, plus u_{l+1} where a skip connection leads from h_l to h_{l+1}.

    `backward` holds B_2..B_{L+1}, each (replica, n_l, n_{l-1}): the shape of W_l transposed.
    """
    net, signals = trace.net, [trace.error]
    u = None
    for l in reversed(range(len(trace.slopes))):
        down = net.product(signals[0], backward[l])
        u = down if u is None or not net.residual else down + u
        signals.insert(0, u * trace.slopes[l])
    return Lesson(tuple(signals))


def direct(trace: Trace, backward: Sequence[Tensor], drive: Tensor | None = None) -> Lesson:
    """u_l = e B_l: every hidden layer sees the output error through its own matrix.

    `backward` holds B_1..B_L, each (replica, outputs, n_l). A `drive` (replica, batch, outputs)
    stands in for the error on the way to the hidden layers.
    """
    drive = trace.error if drive is None else drive
    hidden = (
        trace.net.product(drive, b) * slope for b, slope in zip(backward, trace.slopes, strict=True)
    )
    return Lesson((*hidden, trace.error))
