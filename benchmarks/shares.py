"""What share of a cell's time goes into what is measured: train with and without."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

from benchmarks.numbers import Number, number
from benchmarks.packing import BATCH, bench, task
from benchmarks.sizes import Sizes
from rules import catalog
from rules.settings import Measure, Network, Training
from rules.task import Task
from rules.train import Job, train

NETWORK = Network(depth=6, width=64)
POINTS = 5


def measure(sizes: Sizes) -> list[Number]:
    """The shares under backpropagation, where a step is cheapest, and under sdil."""
    data = task()
    return [n for rule in ("bp", "sdil") for n in shares(rule, data, sizes)]


def shares(rule: str, data: Task, sizes: Sizes) -> list[Number]:
    """Shares of training, evaluation, alignment and probes; they add up to 1."""
    turns = [seconds(rule, data, sizes) for _ in range(sizes.samples)]
    steps, losses, aligned, everything = (median(column) for column in zip(*turns, strict=True))
    name = f"{rule}, {sizes.share_epochs} epochs, pack of {sizes.share_replicas}"
    return [
        number(f"{name}: all", (turn[-1] for turn in turns), "s"),
        number("  training steps", steps / everything),
        number(f"  losses and accuracies, {POINTS + 1} times", (losses - steps) / everything),
        number(f"  alignment, {POINTS + 1} times", (aligned - losses) / everything),
        number("  probes, before and after", (everything - aligned) / everything),
        number("  all but steps, quick study", (of_study(*turn) for turn in turns), at_most=0.15),
    ]


def of_study(steps: float, losses: float, aligned: float, everything: float) -> float:
    """The share of measurements in a study with 8 tuning networks to 5 evaluated ones.

    As in `examples/quick.yaml`. A tuning network is measured by losses and accuracies only.
    """
    return (8 * (losses - steps) + 5 * (everything - steps)) / (8 * losses + 5 * everything)


def seconds(rule: str, data: Task, sizes: Sizes) -> tuple[float, float, float, float]:
    """Of the steps alone, then with losses, then with alignment, then with probes as well."""
    count = sizes.share_replicas
    steps = sizes.share_epochs * -(-len(data.train) // BATCH)
    record = tuple(round(steps * i / POINTS) for i in range(1, POINTS + 1))
    seeds = tuple(range(count))
    measured = Measure(alignment=False, probes=False)
    training = Training(steps, BATCH, record=record)
    job = Job(
        NETWORK, training, catalog.find(rule)(), seeds, seeds, (0.01,) * count, measure=measured
    )
    aligned = replace(measured, alignment=True)
    alone = bench(catalog.find(rule)(), NETWORK, count, data).epochs(sizes.share_epochs) * steps
    return (
        alone,
        clocked(job, data),
        clocked(replace(job, measure=aligned), data),
        clocked(replace(job, measure=Measure()), data),
    )


def clocked(job: Job, data: Task) -> float:
    """Seconds of training a job."""
    began = time.perf_counter()
    train(job, data)
    return time.perf_counter() - began
