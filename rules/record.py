"""What is written down while networks train: points of their curves, and an Outcome for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rules.learner import Learner
from rules.measure import Credit, chance, credit, evaluate, input_probe, probes
from rules.net import Net
from rules.settings import Measure
from rules.task import Examples, Task

DIVERGED = 1000.0
"""A loss above this many times that at the start, or a non-finite one, ends a network."""

TRAIN_EXAMPLES = 1000
"""Training examples, the first of the set, on which the training loss is measured."""

DRAWS = 10
"""Fresh feedback matrices a layer, drawn to know what alignment is by chance."""

GROUP = 2**22
"""Numbers in one list of layer outputs when credit is measured: it bounds the memory."""


@dataclass(frozen=True)
class Point:
    """One network at one recorded step; None where the task has no such part."""

    step: int
    train_loss: float | None = None
    train_accuracy: float | None = None
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None
    alignment: list[float] | None = None  # one value a hidden layer, input side first
    update_cosine: list[float] | None = None
    norm_ratio: list[float] | None = None


@dataclass(frozen=True)
class Outcome:
    """What training one network gave."""

    points: list[Point] = field(default_factory=list)
    diverged_step: int | None = None  # updates made while the loss was within bounds
    chance_accuracy: float | None = None
    alignment_chance: list[float] | None = None  # one value a hidden layer, input side first
    probe_accuracy: list[float] | None = None
    probe_accuracy_untrained: list[float] | None = None
    probe_accuracy_input: float | None = None


class Recorder:
    """Takes the points of a pack while it trains, and lets go of replicas that diverge."""

    def __init__(self, net: Net, task: Task, measure: Measure | None, replicas: int) -> None:
        self.net, self.task, self.measure = net, task, measure
        self.parts = {"train": task.train.slice(0, TRAIN_EXAMPLES)}
        if task.validation:
            self.parts["validation"] = task.validation
        if measure and task.test:
            self.parts["test"] = task.test
        self.chooser = "validation_loss" if task.validation else "train_loss"
        self.points: list[list[Point]] = [[] for _ in range(replicas)]
        self.diverged: dict[int, int] = {}
        self.untrained: dict[int, list[float]] = {}

    def record(self, learner: Learner) -> None:
        """Take a point of every replica that still trains; the diverged ones stop here."""
        points = [Point(learner.step) for _ in learner.replicas]
        for name, examples in self.parts.items():
            loss, accuracy = (v.tolist() for v in evaluate(self.net, learner.params, examples))
            for place, point in enumerate(points):
                values = {f"{name}_loss": loss[place]}
                if examples.classes:
                    values[f"{name}_accuracy"] = accuracy[place]
                points[place] = replace(point, **values)
        points = self._release(learner, points)
        if self.measure and self.measure.alignment and points:
            points = [
                replace(point, **layers)
                for point, layers in zip(
                    points, self._credit(learner, self.measure.examples), strict=True
                )
            ]
        for replica, point in zip(learner.replicas, points, strict=True):
            self.points[replica].append(point)

    def _release(self, learner: Learner, points: list[Point]) -> list[Point]:
        losses = learner.limit.new_tensor([getattr(point, self.chooser) for point in points])
        if learner.step == 0:
            learner.limit = DIVERGED * losses
        healthy = (learner.healthy & (losses <= learner.limit)).tolist()
        for place, replica in enumerate(learner.replicas):
            if not healthy[place]:
                self.diverged[replica] = int(learner.lasted[place])
        if all(healthy):
            return points
        kept = [place for place, fine in enumerate(healthy) if fine]
        learner.keep(kept)
        return [points[place] for place in kept]

    def _credit(self, learner: Learner, count: int) -> Iterator[dict[str, Any]]:
        """Layer lists of every replica."""
        examples = self.task.held_out.slice(0, count)
        for part in _groups(learner, count):
            found = credit(self.net, part.rule, part.params, part.state, part.streams, examples)
            yield from _layers(found)

    def chance(self, learner: Learner) -> dict[int, list[float]]:
        """What alignment would be by chance, by replica; empty where it is not measured."""
        if not (self.measure and self.measure.alignment):
            return {}
        examples, found = self.task.held_out.slice(0, self.measure.examples), []
        for part in _groups(learner, len(examples)):
            found += chance(self.net, part.params, part.streams, examples, DRAWS).tolist()
        return dict(zip(learner.replicas, found, strict=True))

    def probe(self, learner: Learner) -> dict[int, list[float]]:
        """Probe accuracies of the hidden layers, by replica; empty where probes do not apply."""
        parts = self._probe_parts()
        if not parts:
            return {}
        accuracy = probes(self.net, learner.params, *parts)
        return dict(zip(learner.replicas, accuracy.tolist(), strict=True))

    def outcomes(self, learner: Learner) -> list[Outcome]:
        """The outcomes, in the order of the replicas, once `learner` has trained."""
        trained, by_chance = self.probe(learner), self.chance(learner)
        classes = self.task.train.classes
        guess = 1 / classes if classes else None
        parts = self._probe_parts()
        on_input = input_probe(*parts) if parts else None
        return [
            Outcome(
                points,
                self.diverged.get(replica),
                guess,
                by_chance.get(replica),
                trained.get(replica),
                self.untrained.get(replica),
                on_input,
            )
            for replica, points in enumerate(self.points)
        ]

    def _probe_parts(self) -> tuple[Examples, Examples, float] | None:
        """What probes learn from, what they are tested on, and their penalty."""
        measure, test = self.measure, self.parts.get("test")
        if not (measure and measure.probes and test and test.classes):
            return None
        return self.task.train.slice(0, measure.probe_examples), test, measure.ridge


def _groups(learner: Learner, examples: int) -> Iterator[Learner]:
    """The learner in parts whose layers' outputs fit into memory."""
    units = examples * sum(w.shape[2] for w in learner.params.weights)
    size = max(1, GROUP // units)
    places = list(range(len(learner.replicas)))
    for first in range(0, len(places), size):
        yield learner.part(places[first : first + size])


def _layers(found: Credit) -> list[dict[str, Any]]:
    columns = {name: getattr(found, name).tolist() for name in Credit.__dataclass_fields__}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
