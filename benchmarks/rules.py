"""What a step of every rule costs over one of backpropagation: one thread, no Ray."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.numbers import Number, number
from benchmarks.packing import BATCH, EPOCH, bench, over, step_seconds, task
from benchmarks.sizes import Sizes
from rules import catalog
from rules.dims import Dims, dims_of
from rules.settings import Network
from rules.task import Task

REPLICAS = 16
"""Networks in the packs by which the rules are compared."""


def measure(sizes: Sizes) -> list[Number]:
    """Every built-in rule at every shape."""
    data = task()
    data = replace(data, train=data.train.slice(0, EPOCH * BATCH))
    shapes = zip(sizes.rule_widths, sizes.rule_depths, strict=True)
    return [n for width, depth in shapes for n in compared(Network(depth, width), data, sizes)]


def compared(network: Network, data: Task, sizes: Sizes) -> list[Number]:
    """Milliseconds of a step of bp; each rule's step over it, and what its equations ask for.

    The operations are those of the products of a whole step, the core's and the rule's.
    """
    benches = {rule: bench(rule, network, REPLICAS, data) for rule in catalog.BUILT_IN}
    seconds = step_seconds(benches, sizes.samples, sizes.seconds)
    dims = dims_of(network, data.train.x.shape[1], data.train.classes or 1)
    name = f"depth {network.depth}, width {network.width}, pack of {REPLICAS}"
    numbers = [number(f"step of bp, {name}", (1000 * s for s in seconds["bp"]), "ms")]
    for rule in [rule for rule in benches if rule != "bp"]:
        ratios = over(seconds[rule], seconds["bp"])
        asked = operations(rule, dims) / operations("bp", dims)
        numbers.append(number(f"step of {rule} over bp", ratios, "x"))
        numbers.append(number("  operations of its equations over bp's", asked, "x"))
    return numbers


def operations(rule: str, dims: Dims) -> float:
    """Floating-point operations of a step for one example."""
    return dims.core_operations + catalog.find(rule)().operations(dims)
