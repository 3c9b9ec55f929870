"""Small networks and batches of random examples, on which the laws of a rule are tried."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import sqrt

import torch
from torch import Tensor

from rules.dims import Dims
from rules.net import Net, Params
from rules.rule import Trace
from rules.streams import Streams


@dataclass(frozen=True)
class Case:
    """Small networks, one a seed, and a batch of random examples at one step of training.

    A network, its examples and its noise depend on its own seed and the step only.
    """

    sizes: tuple[int, ...] = (5, 7, 6, 4)
    seeds: tuple[int, ...] = (0, 1, 2)
    batch: int = 6
    net: Net = field(default_factory=Net)
    bias: bool = True
    dtype: torch.dtype = torch.float64
    feedback_shift: int = 0  # the feedback seed of a network is its seed plus this
    step: int = 0
    weight_decay: float = 0.01

    @property
    def dims(self) -> Dims:
        """The layers' sizes."""
        return Dims(self.sizes, self.bias)

    @property
    def streams(self) -> Streams:
        """The streams of the feedback seeds."""
        return Streams(tuple(seed + self.feedback_shift for seed in self.seeds), self.dtype)

    def params(self) -> Params:
        """Networks with biases that are not 0; they grow a little from step to step."""
        numbers = Streams(self.seeds, self.dtype).normal("params", (self.dims.parameter_count,))
        weights, biases = [], []
        for fan_in, fan_out in pairwise(self.sizes):
            shape, count = (-1, fan_in, fan_out), fan_in * fan_out
            drawn, numbers = numbers[:, :count], numbers[:, count:]
            weights.append(drawn.reshape(shape) * (1 + self.step / 10) / sqrt(fan_in))
            if self.bias:
                drawn, numbers = numbers[:, :fan_out], numbers[:, fan_out:]
                biases.append(drawn.reshape(-1, 1, fan_out) / 3)
        return Params(tuple(weights), tuple(biases))

    def examples(self) -> tuple[Tensor, Tensor]:
        """Inputs (replica, batch, inputs) and their targets."""
        own, (inputs, *_, outputs) = Streams(self.seeds, self.dtype), self.sizes
        drawn = own.normal("examples", (self.batch, inputs + outputs), self.step)
        x, y = drawn[..., :inputs].contiguous(), drawn[..., inputs:].contiguous()
        return x, (y if self.net.loss == "squared" else y.argmax(-1))

    def trace(self) -> Trace:
        """The forward pass of the batch."""
        trace = self.net.trace(self.params(), *self.examples(), self.streams, self.step)
        return replace(trace, weight_decay=self.weight_decay)

    def __str__(self) -> str:
        kind, net = str(self.dtype).removeprefix("torch."), self.net
        sizes, skips = "-".join(map(str, self.sizes)), " with skips" if net.residual else ""
        return f"{net.activation} network {sizes}{skips}, {net.loss} loss, {kind}"


SHAPES = (
    ((5, 6, 4), "relu", False),
    ((5, 7, 6, 8, 7, 4), "tanh", False),
    ((5, 6, 6, 6, 6, 4), "tanh", True),
)
"""Sizes, activation, and whether there are skip connections, of the networks of `check_rule`."""

CASES = tuple(
    Case(sizes, net=Net(activation, residual, loss), dtype=dtype)
    for sizes, activation, residual in SHAPES
    for loss, dtype in (("cross-entropy", torch.float32), ("squared", torch.float64))
)
"""The settings in which `check_rule` tries a rule."""
