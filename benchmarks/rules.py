"""What a step of every rule costs over one of backpropagation: one thread, no Ray."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.numbers import Number, number
from benchmarks.packing import BATCH, EPOCH, bench, over, step_seconds, task
from benchmarks.sizes import Sizes
from rules import catalog
from rules.dims import Dims, dims_of
from rules.rule import Rule
from rules.sdil import SDIL
from rules.settings import Network
from rules.task import Task

REPLICAS = 16
"""Networks in the packs by which the rules are compared."""

SPARSE = "sdil, perturbing every 4th step,"
"""A rule beside the built-in ones, whose step is to take what its operations do, within 20 %."""


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
    rules = {name: catalog.find(name)() for name in catalog.BUILT_IN}
    rules |= {SPARSE: SDIL(pert_every=4)}
    benches = {name: bench(rule, network, REPLICAS, data) for name, rule in rules.items()}
    seconds = step_seconds(benches, sizes.samples, sizes.seconds)
    dims = dims_of(network, data.train.x.shape[1], data.train.classes or 1)
    name = f"depth {network.depth}, width {network.width}, pack of {REPLICAS}"
    numbers = [number(f"step of bp, {name}", (1000 * s for s in seconds["bp"]), "ms")]
    for rule in [rule for rule in benches if rule != "bp"]:
        ratios = over(seconds[rule], seconds["bp"])
        asked = operations(rules[rule], dims) / operations(rules["bp"], dims)
        most = 1.2 * asked if rule == SPARSE else None
        numbers.append(number(f"step of {rule} over bp", ratios, "x", at_most=most))
        numbers.append(number("  operations of its equations over bp's", asked, "x"))
    return numbers


def operations(rule: Rule, dims: Dims) -> float:
    """Floating-point operations of a step for one example."""
    return dims.core_operations + rule.operations(dims)
