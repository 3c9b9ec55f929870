"""Counting a network without building it: sizes, parameters, operations, matched widths."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from rules.settings import Network


@dataclass(frozen=True)
class Dims:
    """The sizes of a network's layers: inputs, every hidden layer, outputs."""

    sizes: tuple[int, ...]
    bias: bool = True

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self.sizes) - 2

    @property
    def outputs(self) -> int:
        """The number of units of the readout."""
        return self.sizes[-1]

    @property
    def parameter_count(self) -> int:
        """The number of weights and biases; a rule's feedback weights are not among them."""
        return sum(self.weights) + (sum(self.sizes[1:]) if self.bias else 0)

    @property
    def weights(self) -> tuple[int, ...]:
        """The number of weights of every layer, input side first."""
        return tuple(fan_in * fan_out for fan_in, fan_out in pairwise(self.sizes))

    @property
    def core_operations(self) -> int:
        """Floating-point operations of a step but for the rule's own, for one example.

        Products only, two operations a weight: the forward pass and the weights' updates.
        """
        return 4 * sum(self.weights)


def dims_of(network: Network, inputs: int, outputs: int) -> Dims:
    """The sizes of `network` on data with this many inputs and outputs."""
    return Dims((inputs, *[network.width] * network.depth, outputs), network.bias)


def matched_width(count: Callable[[int], int], target: int) -> int:
    """The width whose parameter count is nearest to `target`; the smaller one on a tie.

    `count` gives the number of parameters at a width and must grow with it. Bisection, so that
    a target of any size costs a few dozen calls.

    Raises:
        ValueError: if even width 1 has more parameters than the target.
    """
    if count(1) > target:
        raise ValueError(f"no width reaches {target} parameters: width 1 has {count(1)} already")
    low, high = 1, 2
    while count(high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) <= target else (low, middle)
    return min((low, high), key=lambda width: abs(count(width) - target))
