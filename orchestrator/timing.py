"""How long networks will take: a few steps of every rule's smallest and largest cell, timed."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace

from orchestrator.cell import Cell
from orchestrator.grid import Grid
from orchestrator.sweep import Pump
from orchestrator.trial import Trial, trial_of

FEW, MANY = 2, 10
"""Steps of the runs that are timed; a step is the difference over eight."""

COMPILING = 60.0
"""Seconds in which a shape's step is compiled, to say whether that may pay: 40 to 100 measured."""

SEEDS = 10**9
"""The first of seeds that no study has."""

PHASES = ("tune", "evaluate")

Ends = list[tuple[float, float]]
"""Operations and seconds of a network in the smallest and in the largest cell."""


@dataclass(frozen=True)
class Left:
    """What a study still has to train."""

    networks: Counter[tuple[str, str]]  # by (label, phase)
    operations: Counter[str]  # of all of a label's networks together


@dataclass(frozen=True)
class Times:
    """The seconds of a cell's networks."""

    tune: float
    evaluate: float
    compile: float  # once in the cell, where the study compiles


def left_of(pump: Pump) -> Left:
    """What the pump's study has to train."""
    networks = Counter(pump.totals)
    for (label, phase, _), count in pump.counts.items():
        networks[label, phase] -= count
    return Left(+networks, pump.work - pump.worked)


def core_seconds(grid: Grid, left: Left) -> float:
    """The time of all that is left on one worker as fast as this process, measured in it.

    Between the smallest and the largest cell of a rule a network's time is taken to be linear in
    its operations: what a step costs whatever its size, and what an operation costs.
    """
    total = 0.0
    for label in dict.fromkeys(label for label, _ in left.networks):
        own = [e.cell for e in grid.evaluations if e.cell.rule.label == label]
        ends = {min(own, key=_cost), max(own, key=_cost)}
        line = [(cell.cost, _times(cell, grid)) for cell in sorted(ends, key=_cost)]
        counts = {phase: left.networks[label, phase] for phase in PHASES}
        mean = left.operations[label] / sum(counts.values())
        total += len(own) * sum(times.compile for _, times in line) / len(line)
        for phase, count in counts.items():
            total += count * between([(cost, getattr(t, phase)) for cost, t in line], mean)
    return total


def _cost(cell: Cell) -> float:
    return cell.cost


def between(ends: Ends, operations: float) -> float:
    """Seconds of a network of so many operations, on the line through the ends."""
    (first, seconds), (last, more) = ends[0], ends[-1]
    share = (operations - first) / (last - first) if last > first else 0.0
    return seconds + share * (more - seconds)


def _times(cell: Cell, grid: Grid) -> Times:
    """The time of one network that tunes, of one that evaluates, and of compiling their step.

    Short runs tell what a step takes, what a recorded step takes, and what the rest is: the
    start, and the measurements that are made once. Steps are those of a pack as the study will
    make it.
    """
    from orchestrator.worker import Worker, job_of
    from rules.train import train

    rates = dict(cell.rule.fixed) | {name: low for name, low, _ in cell.rule.space}
    resources = grid.study.resources
    worker = Worker(grid.data, resources.cpus, replicas=resources.together)
    task = worker.task(cell)

    def pack(count: int, steps: int, *record: int, tuning: bool = True) -> list[Trial]:
        short = replace(cell, training=replace(cell.training, steps=steps, record=record))
        seeds = range(SEEDS, SEEDS + count)
        return [trial_of(short, (seed, seed), rates, tuning=tuning) for seed in seeds]

    def timed(count: int, steps: int, *record: int, tuning: bool = True) -> float:
        job = job_of(pack(count, steps, *record, tuning=tuning))
        began = time.perf_counter()
        train(job, task)
        return (time.perf_counter() - began) / count

    search, points = grid.study.search, len({0, *cell.training.record, cell.training.steps})
    count = worker.together(pack(search.points * len(search.seed_list), FEW))
    first = timed(count, FEW)  # warms up
    few, many = (min(timed(count, steps) for _ in range(2)) for steps in (FEW, MANY))
    steps = max(0.0, many - few) / (MANY - FEW) * max(0, cell.training.steps - FEW)

    def whole(short: float, recorded: float) -> float:
        return short + steps + max(0.0, recorded - short) * max(0, points - 2)

    return Times(
        tune=whole(few, timed(count, FEW, 1)),
        evaluate=whole(timed(2, FEW, tuning=False), timed(2, FEW, 1, tuning=False)),
        compile=count * (first - few) if cell.training.compile else 0.0,
    )
