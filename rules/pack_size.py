"""How many networks train best as one tensor: a matter of caches and memory, never of results."""

from __future__ import annotations

from itertools import pairwise

from rules.dims import Dims

CACHE = 2**19
"""Bytes of a core's own cache that one layer's outputs may fill, for all networks of a tensor.

Measured on a core with 512 KiB of it: from there on a network takes 5 to 13 % longer at widths 64
and 128, since every operation on a layer then fetches it from further away.
"""

LEAST = 8
"""Below this a step's calls cost more than the cache saves."""

MOST = 256
"""Networks beyond which nothing is gained on a CPU, however small they are."""


def cached(dims: Dims, batch: int, itemsize: int) -> int:
    """Networks of a tensor on a CPU: one layer's outputs, (replica, batch, units), fill the cache.

    `itemsize` is the bytes of a number.
    """
    return min(MOST, max(LEAST, CACHE // (batch * max(dims.sizes[1:]) * itemsize)))


def fitting(dims: Dims, batch: int, itemsize: int, room: int, most: int = 4096) -> int:
    """Networks of a tensor that fit into `room` bytes of a device's memory; at least one.

    Counted are eight numbers a parameter (gradient, moments, feedback among them), five a unit
    and example of the batch (output, slope, signal, two on the way), and for rules that send
    shifted copies of every layer upwards two a unit, example and layer.
    """
    units = batch * sum(dims.sizes)
    numbers = 8 * dims.parameter_count + (5 + 2 * dims.depth) * units
    return max(1, min(most, room // (numbers * itemsize)))


def in_groups(count: int, size: int) -> list[range]:
    """The places of `count` networks in as few groups of at most `size` as there can be.

    Their sizes differ by one at most.
    """
    groups = -(-count // size)
    ends = [count * i // groups for i in range(groups + 1)]
    return [range(first, last) for first, last in pairwise(ends)]
