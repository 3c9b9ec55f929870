"""What packing gains: one thread, no Ray."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.numbers import Number, number
from benchmarks.sizes import Sizes
from rules import catalog
from rules.data import load
from rules.dims import dims_of
from rules.learner import Learner
from rules.net import Net
from rules.settings import Network, Training
from rules.task import Task, task_of
from rules.train import Job, advance, start

BATCH = 128
EPOCH = 8
"""Steps of an epoch: few, so that a sample is short; a step's share of the shuffle stays."""


def task() -> Task:
    """The data that all is trained on."""
    torch.set_num_threads(1)
    return task_of(load("mnist-1d", {}, None), 0.1, 0, "float32", torch.device("cpu"))


@dataclass
class Bench:
    """A pack that trains on and on, and is timed."""

    net: Net
    learner: Learner
    training: Training
    task: Task

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        return -(-len(self.task.train) // self.training.batch_size)

    def epochs(self, count: int) -> float:
        """Seconds a step over so many epochs: whole ones, since each begins with a shuffle."""
        steps = count * self.per_epoch
        began = time.perf_counter()
        advance(self.net, self.learner, self.training, self.task.train, self.learner.step + steps)
        return (time.perf_counter() - began) / steps


def step_seconds(
    benches: Mapping[Any, Bench], samples: int, seconds: float
) -> dict[Any, list[float]]:
    """Seconds a step of every pack, several times; a sample lasts at least so long.

    The packs take turns, so that all of them meet the same moods of the machine.
    """
    first = {key: each.epochs(1) for key, each in benches.items()}  # warms caches, too
    counts = {
        key: max(1, round(seconds / (first[key] * each.per_epoch))) for key, each in benches.items()
    }
    turns = [{key: b.epochs(counts[key]) for key, b in benches.items()} for _ in range(samples)]
    return {key: [turn[key] for turn in turns] for key in benches}


def bench(rule: str, network: Network, replicas: int, task: Task) -> Bench:
    """A pack of networks that differ in their seeds."""
    training = Training(steps=1, batch_size=BATCH)
    seeds = tuple(range(replicas))
    job = Job(
        network, training, catalog.find(rule)(), seeds, seeds, (0.01,) * replicas, measure=None
    )
    dims = dims_of(network, task.train.x.shape[1], task.train.classes or 1)
    learner = start(job, dims, torch.device("cpu"))
    return Bench(Net(network.activation), learner, training, task)


def measure(sizes: Sizes) -> list[Number]:
    """A cheap rule and a dear one in every shape and size of a pack."""
    data = task()
    data = replace(data, train=data.train.slice(0, EPOCH * BATCH))
    shapes = zip(sizes.pack_widths, sizes.pack_depths, strict=True)
    numbers = []
    for network in (Network(depth, width) for width, depth in shapes):
        for rule in ("bp", "sdil"):
            numbers += packed(rule, network, data, sizes)
    return numbers


def packed(rule: str, network: Network, data: Task, sizes: Sizes) -> list[Number]:
    """Networks x steps a second in packs of every size, and the gain over the smallest."""
    benches = {size: bench(rule, network, size, data) for size in sizes.pack_sizes}
    seconds = step_seconds(benches, sizes.samples, sizes.seconds)
    rates = {size: [size / s for s in seconds[size]] for size in benches}
    least, *larger = sizes.pack_sizes
    name = f"{rule}, depth {network.depth}, width {network.width}"
    return [
        *(number(f"{name}, pack of {size}", r, "steps/s") for size, r in rates.items()),
        *(
            number(f"{name}, gain of {size} over {least}", over(rates[size], rates[least]), "x")
            for size in larger
        ),
    ]


def over(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The ratios within each turn."""
    return [a / b for a, b in zip(above, below, strict=True)]
