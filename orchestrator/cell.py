"""A cell of a study's grid: a rule and everything of a network but its seeds and rates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from rules.dims import Dims, dims_of
from rules.settings import Measure, Network, Training

ID_VERSION = 1

FIRST = frozenset({
    "depth", "width", "activation", "residual", "bias",
    "steps", "batch_size", "momentum", "weight_decay", "loss", "dtype", "record",
    "normalize_signals",
})  # fmt: skip
"""Settings that ids have always told; a later one is told where it is not at its default."""

TRAINING = (
    "steps", "momentum", "weight_decay", "optimizer", "schedule", "warmup", "compile", "loss",
    "dtype",
)  # fmt: skip
"""Settings of training that are columns as they stand."""


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def short_hash(value: Any) -> str:
    """Sixteen hexadecimal digits that stand for a JSON value."""
    return hashed(canonical(value))


def hashed(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Rule:
    """A learning rule as a study uses it, every option resolved."""

    name: str  # as in the catalog, or package.module:Class
    label: str
    options: tuple[tuple[str, Any], ...]  # but for the searched ones
    revision: int
    draws: bool  # whether it has use for a feedback seed
    source: str = ""  # hash of its source file
    fixed: tuple[tuple[str, float], ...] = ()  # hyperparameters that the study sets
    space: tuple[tuple[str, float, float], ...] = ()  # and those it searches: name, low, high


@dataclass(frozen=True)
class TaskSetting:
    """A data set, what it holds, and the part kept for choosing."""

    dataset: str
    options: tuple[tuple[str, Any], ...]
    validation: float
    split_seed: int
    fingerprint: str  # of the arrays
    inputs: int
    outputs: int
    classes: int | None  # None: regression
    examples: int  # to train on, the validation part taken off


@dataclass(frozen=True)
class Cell:
    """One rule and one tensor shape: everything of a network but its seeds and hyperparameters."""

    rule: Rule
    task: TaskSetting
    network: Network
    training: Training
    measure: Measure
    device: str = "cpu"  # cpu | cuda: unlike devices give unlike last digits
    step_cost: float = 0.0  # floating-point operations of a step for one example

    @cached_property
    def dims(self) -> Dims:
        """The sizes of its layers."""
        return dims_of(self.network, self.task.inputs, self.task.outputs)

    @cached_property
    def content(self) -> str:
        """All that changes its networks' results, as canonical JSON; the label is no part of it."""
        task = {
            k: v for k, v in asdict(self.task).items() if k not in ("inputs", "outputs", "classes")
        }
        return canonical(
            {
                "version": ID_VERSION,
                "rule": [self.rule.name, self.rule.revision, self.rule.options],
                "task": task,
                "network": _told(self.network),
                "training": _told(self.training),
                "device": self.device,
            }
        )

    @cached_property
    def quoted(self) -> tuple[str, str]:
        """What it gives to its trials' ids, as JSON: its content, and what is measured."""
        return canonical(self.content), canonical(asdict(self.measure))

    @property
    def axes(self) -> dict[str, Any]:
        """Where it stands in the grid."""
        return {
            "dataset": self.task.dataset,
            "depth": self.network.depth,
            "width": self.network.width,
            "activation": self.network.activation,
            "residual": self.network.residual,
        }

    @cached_property
    def place(self) -> tuple[Any, ...]:
        """Its rule's label, and where it stands in the grid."""
        return self.rule.label, *self.axes.values()

    @property
    def cost(self) -> float:
        """Floating-point operations of training one of its networks."""
        return self.training.steps * self.training.batch_size * self.step_cost

    @cached_property
    def coordinates(self) -> dict[str, Any]:
        """Its columns in the trial table; not to be changed."""
        options = dict(self.rule.options)
        training = {name: getattr(self.training, name) for name in TRAINING}
        return (
            self.axes
            | training
            | {
                "rule": self.rule.name,
                "options": canonical(options),
                "bias": self.network.bias,
                "batch_size": min(self.training.batch_size, self.task.examples),
                "parameter_count": self.dims.parameter_count,
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data, from which `cell_from` makes an equal cell."""
        return asdict(self)


def _told(settings: Network | Training) -> dict[str, Any]:
    return {
        f.name: value
        for f in fields(settings)
        if (value := getattr(settings, f.name)) != f.default or f.name in FIRST
    }


def cell_from(data: Mapping[str, Any]) -> Cell:
    """The cell that `Cell.as_dict` described; lists that JSON made become tuples again."""
    rule, task, training = dict(data["rule"]), dict(data["task"]), dict(data["training"])
    for pairs in ("options", "fixed", "space"):
        rule[pairs] = tuple(tuple(pair) for pair in rule[pairs])
    task["options"] = tuple(tuple(pair) for pair in task["options"])
    training["record"] = tuple(training["record"])
    return Cell(
        Rule(**rule),
        TaskSetting(**task),
        Network(**data["network"]),
        Training(**training),
        Measure(**data["measure"]),
        data["device"],
        data["step_cost"],
    )
