"""The parts of a study but its grid: keys, defaults, and what each part checks in itself."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, Tag, model_validator

from orchestrator.fields import (
    AXES,
    FIRST_TUNING_SEED,
    Activation,
    AxesKept,
    Axis,
    Count,
    CountOrAuto,
    CountOrFull,
    Flag,
    GpusOrAuto,
    Line,
    Number,
    Part,
    Positive,
    Record,
    RuleName,
    Seed,
    SeedSet,
    Share,
    by_shape,
    distinct,
    listed,
    refusal,
    refuse,
)
from orchestrator.yaml_file import nearest, shown


class Range(Part):
    """A range searched on a logarithmic scale."""

    low: Positive
    high: Positive

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.low >= self.high:
            refuse([(("high",), f"should be more than low, {self.low:g}; got {self.high:g}")])
        if not 1e-30 <= self.low < self.high <= 1e30:
            refuse([((), f"should lie within 1e-30 and 1e30; got {self.low:g} to {self.high:g}")])
        return self


Searchable = Annotated[
    Annotated[Number, Tag("[number]")] | Annotated[Range, Tag("[mapping]")],
    by_shape("a number or {low: ..., high: ...}"),
]


def _positive(rate: Range | float) -> Range | float:
    if not isinstance(rate, Range) and rate <= 0:
        raise refusal(f"should be more than 0; got {shown(rate)}")
    return rate


def _positive_lr(space: dict[str, Range | float]) -> dict[str, Range | float]:
    rate = space.get("lr", 1.0)
    if not isinstance(rate, Range) and rate <= 0:
        refuse([(("lr",), f"should be more than 0; got {shown(rate)}")])
    return space


Space = Annotated[dict[str, Searchable], AfterValidator(_positive_lr)]


class Task(Part):
    """The data: which set, its options, and the part kept for choosing learning rates."""

    dataset: Line | None = None
    options: dict[str, JsonValue] = Field(default_factory=dict)
    validation: Annotated[Number, Field(ge=0, le=0.5)] | None = None
    split_seed: Seed = 0

    @model_validator(mode="before")
    @classmethod
    def _options_among_the_keys(cls, keys: object) -> object:
        """A scalar under a key that is not the task's, nor nearly, is an option of the data set."""
        if not isinstance(keys, Mapping) or not isinstance(keys.get("options", {}), Mapping):
            return keys
        given = {key: value for key, value in keys.items() if _is_option(key, value)}
        rest = {key: value for key, value in keys.items() if key not in given}
        twice = sorted(given.keys() & rest.get("options", {}).keys())
        refuse(((key,), "is given twice, here and in options") for key in twice)
        return {**rest, "options": {**rest.get("options", {}), **given}} if given else rest


def _is_option(key: object, value: object) -> bool:
    scalar = isinstance(value, bool | int | float | str)
    return scalar and isinstance(key, str) and not nearest(key, Task.model_fields, cutoff=0.8)


class Network(Part):
    """What all networks share unless the grid varies it."""

    activation: Activation = "tanh"
    residual: Flag = False
    bias: Flag = True


class Training(Part):
    """How every network is trained: `epochs` over the training set, or so many `steps`."""

    epochs: Positive | None = None
    steps: Count | None = None
    batch_size: CountOrFull = 128
    momentum: Share = 0.9
    weight_decay: Share = 0.0
    loss: Literal["cross-entropy", "squared"] = "cross-entropy"
    dtype: Literal["float32", "float64"] = "float32"
    record: Record = 5
    normalize_signals: Flag = False
    optimizer: Literal["sgd", "adam"] = "sgd"
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: Share = 0.0  # share of the steps in which the learning rate rises, before the schedule
    compile: Flag = False  # the step as machine code: about a minute a shape, then faster
    match_compute: Line | None = None  # a label: every rule takes the steps this one's cost buys

    @model_validator(mode="before")
    @classmethod
    def _fifteen_epochs(cls, keys: object) -> object:
        if isinstance(keys, Mapping) and not keys.keys() & {"epochs", "steps"}:
            return {**keys, "epochs": 15}
        return keys

    @model_validator(mode="after")
    def _one_horizon(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            refuse([((), "should say either epochs or steps, and not both")])
        last = self.record[-1] if isinstance(self.record, tuple) else 0
        if self.steps is not None and last > self.steps:
            refuse([(("record",), f"should end by the last step, {self.steps}; got {last}")])
        return self


class RuleChoice(Part):
    """A learning rule with its options and what is searched besides the study's rate."""

    name: RuleName
    label: Line = ""  # of its own accord the name, or the class of a dotted one
    options: dict[str, JsonValue] = Field(default_factory=dict)
    search: Space = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _labelled(cls, keys: object) -> object:
        named = {"name": keys} if isinstance(keys, str) else keys
        if isinstance(named, Mapping) and isinstance(named.get("name"), str):
            return {"label": named["name"].rpartition(":")[2], **named}
        return named

    @model_validator(mode="after")
    def _searched_or_fixed(self) -> Self:
        both = sorted(self.search.keys() & self.options.keys())
        refuse((("search", key), "is fixed in options too; leave one of them out") for key in both)
        return self


class SearchSpec(Part):
    """How rates are chosen: the ranges, the effort, and which cells share what is found."""

    lr: Annotated[Searchable, AfterValidator(_positive)] = Range(low=1e-4, high=1.0)
    rounds: Count = 2
    points: Annotated[Count, Field(ge=2)] = 9
    seeds: SeedSet = 3
    sampler: Literal["tpe", "grid", "random"] = "tpe"
    per: AxesKept = "cell"
    choose: Literal["validation_loss", "validation_accuracy"] = "validation_loss"

    @model_validator(mode="before")
    @classmethod
    def _a_grid_is_one_round(cls, keys: object) -> object:
        if isinstance(keys, Mapping) and keys.get("sampler") == "grid":
            return {"rounds": 1, **keys}
        return keys

    @model_validator(mode="after")
    def _no_second_grid(self) -> Self:
        if self.sampler == "grid" and self.rounds > 1:
            refuse([(("rounds",), f"should be 1 with sampler: grid; got {self.rounds}")])
        return self

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The tuning seeds; a count takes them from a namespace of their own."""
        return listed(self.seeds, FIRST_TUNING_SEED)

    @property
    def own_axes(self) -> tuple[Axis, ...]:
        """The axes along which each value has its own rate."""
        if isinstance(self.per, tuple):
            return self.per
        return AXES if self.per == "cell" else ()


class Compare(Part):
    """The comparisons declared beforehand, hence the family for Holm's correction."""

    metric: Line = "test_loss"
    pairs: Annotated[tuple[tuple[Line, Line], ...], AfterValidator(distinct)] = ()

    @model_validator(mode="after")
    def _differ(self) -> Self:
        alike = [i for i, (one, other) in enumerate(self.pairs) if one == other]
        refuse((("pairs", i), f"compares {shown(self.pairs[i][0])} with itself") for i in alike)
        return self


class Measure(Part):
    """What is measured besides losses and accuracies, as in `rules.settings.Measure`; and kept."""

    alignment: Flag = True
    probes: Flag = True
    examples: Count = 500
    probe_examples: Count = 10_000
    ridge: Positive = 0.1
    save_weights: Flag = False  # keep every evaluated network's weights in the run folder


MOST_SHARING = 8
"""Workers that share a GPU at most, where the study says `gpus: auto`."""


class Resources(Part):
    """What one worker takes, and how many networks train together."""

    cpus: Count = 1
    gpus: GpusOrAuto = 0.0  # of one GPU; auto: as many workers share one as it has CPUs for
    replicas: CountOrAuto = "auto"

    @property
    def together(self) -> int | None:
        """Networks of a tensor, where the study says so; else the worker does."""
        return None if self.replicas == "auto" else self.replicas

    @property
    def least_gpus(self) -> float:
        """The share of a GPU that a worker takes at least."""
        return 1 / MOST_SHARING if self.gpus == "auto" else self.gpus
