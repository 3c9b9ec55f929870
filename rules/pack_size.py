"""How many networks train best as one tensor: a matter of time and memory, never of results."""

from __future__ import annotations

from itertools import pairwise

from rules.dims import Dims

FILL = 2**20
"""Bytes that one layer's outputs fill, for all networks of a tensor.

Measured on cores with 512 KiB of cache each: from there on a network's step takes the same time to
within 3 %, at widths 16 to 128, up to 256 networks; with a quarter of it 5 to 20 % longer.
"""

LEAST = 8
"""Below this a step's calls take too large a part of it, however large the networks are."""

MOST = 256
"""Networks beyond which nothing is gained on a CPU, however small they are."""


def suited(dims: Dims, batch: int, itemsize: int) -> int:
    """Networks of a tensor on a CPU: one layer's outputs, (replica, batch, units), fill `FILL`.

    `itemsize` is the bytes of a number.
    """
    return min(MOST, max(LEAST, FILL // (batch * max(dims.sizes[1:]) * itemsize)))


def roughly(dims: Dims, itemsize: int) -> int:
    """Bytes of a network that trains: a guess, from a third to ten times what is counted.

    `memory.bytes_each` counts. Here it is eight numbers a parameter (gradient, moments, feedback
    among them), and outputs for a thousand examples: the most that is evaluated at once.
    """
    return itemsize * (8 * dims.parameter_count + 1000 * sum(dims.sizes))


def in_groups(count: int, size: int) -> list[range]:
    """The places of `count` networks in as few groups of at most `size` as there can be.

    Their sizes differ by one at most.
    """
    groups = -(-count // size)
    ends = [count * i // groups for i in range(groups + 1)]
    return [range(first, last) for first, last in pairwise(ends)]
