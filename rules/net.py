"""Many networks of one shape as one batched tensor: parameters, forward pass, losses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from rules.dims import Dims
from rules.rule import Trace
from rules.streams import Streams

GAIN = {"tanh": 1.0, "relu": sqrt(2.0), "sigmoid": 1.0}

ABOVE = (9.99999979e-01, 1.33803676e-01, 3.49480636e-03, 2.05961973e-05, 1.33367447e-08)
BELOW = (1.0, 4.67136831e-01, 2.58740089e-02, 3.28435557e-04, 7.76924001e-07)
"""Coefficients in x^2 of P and Q: x P / Q is tanh x to 2e-8 of it up to `ONE`, the least there is.

Found by Lawson's iteration (least squares with weights that grow where the error is large).
"""

ONE = 9.01
"""From here on the float32 nearest to tanh x is 1."""


def fraction_tanh(x: Tensor) -> Tensor:
    """The tanh of x in float32, to within 8 units in the last place; at most 1, odd, NaN for NaN.

    As a few products and a quotient, which compiled code does in far less time than `torch.tanh`.
    """
    x = x.clamp(-ONE, ONE)
    square = x * x
    return (x * _polynomial(square, ABOVE) / _polynomial(square, BELOW)).clamp(-1, 1)


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def tanh(z: Tensor) -> Tensor:
    """The tanh of z, in the memory of z; in compiled float32 code the fraction."""
    fast = torch.compiler.is_compiling() and z.dtype == torch.float32
    return fraction_tanh(z) if fast else z.tanh_()


ACTIVATE: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": tanh,
    "relu": torch.relu_,
    # torch.sigmoid rounds otherwise where a tensor ends, hence otherwise in a pack; tanh does not
    "sigmoid": lambda z: tanh(z.mul_(0.5)).add_(1).mul_(0.5),
}
"""phi(z), in the memory of z."""

SLOPE: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda phi: phi.square().neg_().add_(1),
    "relu": lambda phi: (phi > 0).to(phi.dtype),
    "sigmoid": lambda phi: phi.square().neg_().add_(phi),
}
"""phi'(z) from phi(z)."""


@dataclass(frozen=True)
class Params:
    """Weights W_1..W_{L+1}, each (replica, fan_in, fan_out), and biases (replica, 1, fan_out)."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]  # empty where the network has none

    def __iter__(self) -> Iterator[Tensor]:
        """The weights, then the biases."""
        return iter((*self.weights, *self.biases))

    def keep(self, replicas: list[int]) -> Params:
        """The parameters of these replicas only."""
        return self._map(lambda t: t[replicas])

    def double(self) -> Params:
        """A float64 copy."""
        return self._map(Tensor.double)

    def zeros(self) -> Params:
        """Zeros of the same shapes."""
        return self._map(torch.zeros_like)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Params:
        return Params(tuple(map(change, self.weights)), tuple(map(change, self.biases)))


def init_params(dims: Dims, activation: str, streams: Streams) -> Params:
    """Weights from N(0, gain^2 / fan_in) with gain sqrt 2 for relu, else 1; biases 0.

    The relu law is He et al., 2015. The readout has the gain of the hidden layers.
    """
    weights, biases = [], []
    for l, (fan_in, fan_out) in enumerate(zip(dims.sizes, dims.sizes[1:], strict=False), start=1):
        std = GAIN[activation] / sqrt(fan_in)
        weights.append(std * streams.normal(f"weights/{l}", (fan_in, fan_out)))
        biases.append(torch.zeros_like(weights[-1][:, :1]))
    return Params(tuple(weights), tuple(biases) if dims.bias else ())


@dataclass(frozen=True)
class Net:
    """The architecture as pure functions: h_l = phi(h_{l-1} W_l + b_l), linear readout.

    With `residual`, h_l = phi(z_l) + h_{l-1} from the second hidden layer on.
    """

    activation: str = "tanh"
    residual: bool = False
    loss: str = "cross-entropy"

    @staticmethod
    def product(a: Tensor, b: Tensor) -> Tensor:
        """A @ b, bit for bit the same for a replica alone as in a pack.

        MKL takes another path for a single matrix with one row or one column, with another
        order of summation; such a side is doubled and the copy thrown away.
        """
        rows, columns = a.shape[1], b.shape[2]
        if rows == 1:
            a = a.expand(-1, 2, -1)
        if columns == 1:
            b = b.expand(-1, -1, 2)
        out = torch.bmm(a, b)
        return out if rows > 1 and columns > 1 else out[:, :rows, :columns].contiguous()

    def preactivation(self, params: Params, l: int, h: Tensor) -> Tensor:
        """z_{l+1} from h_l, l from 0: (replica, batch, n_l) -> (replica, batch, n_{l+1})."""
        z = self.product(h, params.weights[l])
        return z.add_(params.biases[l]) if params.biases else z

    def activate(self, z: Tensor) -> Tensor:
        """phi(z), in the memory of z."""
        return ACTIVATE[self.activation](z)

    def slope(self, phi: Tensor) -> Tensor:
        """phi'(z) from phi(z)."""
        return SLOPE[self.activation](phi)

    def layer(self, params: Params, l: int, h: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden layer above h_l: phi(z_{l+1}), and its output h_{l+1}."""
        phi = self.activate(self.preactivation(params, l, h))
        return phi, (phi + h if self.residual and l > 0 else phi)

    def hidden(self, params: Params, x: Tensor) -> Iterator[Tensor]:
        """The outputs h_1..h_L of the hidden layers, in turn, for x (replica, batch, inputs)."""
        for l in range(len(params.weights) - 1):
            _, x = self.layer(params, l, x)
            yield x

    def logits(self, params: Params, x: Tensor) -> Tensor:
        """The readout for x: (replica, batch, inputs) -> (replica, batch, outputs)."""
        (top,) = deque(self.hidden(params, x), maxlen=1)
        return self.preactivation(params, -1, top)

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Per example (replica, batch): cross-entropy, or half the squared error over outputs."""
        if self.loss == "squared":
            return (logits - targets).square().sum(-1) / 2
        chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return torch.logsumexp(logits, -1) - chosen

    def error(self, logits: Tensor, targets: Tensor) -> Tensor:
        """dloss/dlogits per example, not divided by the batch: (replica, batch, outputs)."""
        if self.loss == "squared":
            return logits - targets
        p = torch.softmax(logits, -1)
        return p.scatter_add_(-1, targets.unsqueeze(-1), torch.full_like(p[..., :1], -1.0))

    def trace(
        self, params: Params, x: Tensor, targets: Tensor, streams: Streams, step: int
    ) -> Trace:
        """One forward pass with all that rules need of it."""
        inputs, slopes = [x], []
        for l in range(len(params.weights) - 1):
            phi, h = self.layer(params, l, inputs[-1])
            inputs.append(h)
            slopes.append(self.slope(phi))
        logits = self.preactivation(params, -1, inputs[-1])
        error, losses = self.error(logits, targets), self.losses(logits, targets)
        return Trace(tuple(inputs), tuple(slopes), error, losses, targets, self, streams, step)

    def perturbed_losses(
        self, params: Params, trace: Trace, shifts: Sequence[Tensor]
    ) -> list[Tensor]:
        """The losses after adding shifts[l-1] to h_l, one hidden layer l at a time.

        Each shift is (replica, batch, n_l); the answer has a (replica, batch) a hidden layer.
        """
        repeats = (1, len(shifts), *[1] * (trace.targets.dim() - 2))
        losses = self.losses(self._lifted(params, trace, shifts), trace.targets.repeat(repeats))
        return list(torch.split(losses, trace.losses.shape[1], dim=1))

    def perturbed_logits(
        self, params: Params, trace: Trace, shifts: Sequence[Tensor]
    ) -> list[Tensor]:
        """As `perturbed_losses`, but the readout: a (replica, batch, outputs) a hidden layer."""
        lifted = self._lifted(params, trace, shifts)
        return list(torch.split(lifted, trace.losses.shape[1], dim=1))

    def _lifted(self, params: Params, trace: Trace, shifts: Sequence[Tensor]) -> Tensor:
        """The readout of one shifted copy for every hidden layer, stacked along the batch.

        All copies travel upwards together, so that depth L costs L products of growing size and
        not L(L+1)/2 small ones.
        """
        wave = trace.inputs[1] + shifts[0]
        for l in range(1, len(shifts)):
            _, above = self.layer(params, l, wave)
            wave = torch.cat([above, trace.inputs[l + 1] + shifts[l]], dim=1)
        return self.preactivation(params, -1, wave)
