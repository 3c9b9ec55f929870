"""What packing gains: one thread, no Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks import jax_peer
from benchmarks.numbers import Number, number
from benchmarks.sizes import Sizes
from rules import catalog
from rules.compiled import CompilerError, compiler
from rules.data import load
from rules.dims import dims_of
from rules.learner import Learner
from rules.memory import keep_freed
from rules.net import Net
from rules.rule import Rule
from rules.settings import Network, Training
from rules.streams import Streams
from rules.task import Examples, Task, task_of
from rules.train import Job, advance, start

BATCH = 128
SIDE = 512
LARGEST = 4096
"""Networks x width of the largest packs: beyond, a sample takes too long."""

PEERS = (1, 16)
"""Sizes of packs at which JAX is measured."""

COMPILED = 16
"""The size of the pack whose step is compiled, too."""

AIMS = {32: {"gain": 2.0, "JAX": 1.6}, 64: {"gain": 1.5, "JAX": 1.25}, 256: {"JAX": 1.25}}
"""By width, for bp in packs of 16: the gain over one at least, compiled time over JAX's at most."""

EPOCH = 8
"""Steps of an epoch: few, so that a sample is short; a step's share of the shuffle stays."""


def one_thread() -> None:
    """Work as a worker of one core does; JAX too, whose flags alone leave it two threads."""
    if hasattr(os, "sched_setaffinity"):  # not on macOS
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    keep_freed()


def task() -> Task:
    """The data that all is trained on."""
    one_thread()
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
    benches: Mapping[Any, Bench | Other], samples: int, seconds: float
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


def bench(
    rule: Rule, network: Network, replicas: int, task: Task, *, compile: bool = False
) -> Bench:
    """A pack of networks that differ in their seeds."""
    training = Training(steps=1, batch_size=BATCH, compile=compile)
    seeds = tuple(range(replicas))
    job = Job(network, training, rule, seeds, seeds, (0.01,) * replicas, measure=None)
    dims = dims_of(network, task.train.x.shape[1], task.train.classes or 1)
    learner = start(job, dims, torch.device("cpu"))
    return Bench(Net(network.activation), learner, training, task)


@dataclass(frozen=True)
class Other:
    """Something else that takes its turns with the packs: `epochs` gives seconds of one step."""

    epochs: Callable[[int], float]
    per_epoch: int = 1


def peak() -> Other:
    """This machine's matrix product, one thread: two matrices of the side `SIDE`."""
    a, b = torch.randn(2, SIDE, SIDE, generator=torch.Generator().manual_seed(0))

    def seconds(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            torch.mm(a, b)
        return (time.perf_counter() - began) / count

    return Other(seconds)


def random_task(inputs: int) -> Task:
    """One epoch of random examples of ten classes."""
    one_thread()
    x, y = Streams((0,)).normal("x", (EPOCH * BATCH, inputs))[0], torch.arange(EPOCH * BATCH) % 10
    return Task(Examples(x, y, 10, 0.0, 1.0, torch.float32), None, None)


def measure(sizes: Sizes) -> list[Number]:
    """Every shape in packs of every size, with JAX beside bp where it is installed."""
    one_thread()
    has_jax = jax_peer.there()
    if not has_jax:
        print("  JAX is not installed (pip install rulesweep[bench]): no peer", flush=True)
    shapes = zip(sizes.pack_widths, sizes.pack_depths, sizes.pack_inputs, strict=True)
    numbers: list[Number] = []
    for width, depth, inputs in shapes:
        network = Network(depth, width)
        numbers += packed("bp", network, inputs, sizes, peer=has_jax)
        if width <= 64:
            numbers += packed("sdil", network, inputs, sizes, peer=False)
    return numbers


def packed(name: str, network: Network, inputs: int, sizes: Sizes, *, peer: bool) -> list[Number]:
    """Networks x steps a second in packs of every size, their gain, and their share of the peak."""
    task, dims, rule = random_task(inputs), dims_of(network, inputs, 10), catalog.find(name)()
    aims = AIMS.get(network.width, {}) if name == "bp" else {}
    counts = [count for count in sizes.pack_sizes if count * network.width <= LARGEST]
    turns: dict[Any, Bench | Other] = {n: bench(rule, network, n, task) for n in counts}
    turns["peak"] = peak()
    if COMPILED in counts and can_compile():
        turns["compiled"] = bench(rule, network, COMPILED, task, compile=True)
    for n in (n for n in PEERS if peer and n in counts):
        turns["JAX", n] = Other(jax_peer.stepper(dims.sizes, n, BATCH), jax_peer.STEPS)
    seconds = step_seconds(turns, sizes.samples, sizes.seconds)
    name = f"{name}, depth {network.depth}, width {network.width}, {inputs} inputs"
    flop = BATCH * (dims.core_operations + rule.operations(dims))
    best = [2 * SIDE**3 / s for s in seconds["peak"]]
    numbers = [number(f"{name}: matrix-product peak", (b / 1e9 for b in best), "GFLOP/s")]
    for n in counts:
        rates = [n / s for s in seconds[n]]
        numbers.append(number(f"{name}, pack of {n}", rates, "steps/s"))
        shares = over([flop * rate for rate in rates], best)
        numbers.append(number("  of the peak", shares))
        if n > counts[0]:
            alone = [counts[0] / s for s in seconds[counts[0]]]
            least = aims.get("gain") if n == COMPILED else None
            gains = over(rates, alone)
            numbers.append(number(f"  gain over {counts[0]}", gains, "x", at_least=least))
        if ("JAX", n) in seconds:
            numbers.append(number("  time over JAX's", over(seconds[n], seconds["JAX", n]), "x"))
    return numbers + compiled(seconds, aims.get("JAX"))


def compiled(seconds: Mapping[Any, Sequence[float]], most: float | None) -> list[Number]:
    """What compiling the step gains; nothing where it was not measured."""
    ours = seconds.get("compiled")
    if ours is None:
        return []
    gains = over(ours, seconds[COMPILED])
    numbers = [number(f"  pack of {COMPILED}, time compiled over not", gains, "x")]
    if ("JAX", COMPILED) in seconds:
        ratios = over(ours, seconds["JAX", COMPILED])
        name = f"  pack of {COMPILED}, time compiled over JAX's"
        numbers.append(number(name, ratios, "x", at_most=most))
    return numbers


def can_compile() -> bool:
    """Whether this machine has a C++ compiler."""
    with suppress(CompilerError):
        return bool(compiler())
    return False


def over(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The ratios within each turn."""
    return [a / b for a, b in zip(above, below, strict=True)]
