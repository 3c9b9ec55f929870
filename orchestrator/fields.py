"""The kinds of values that a study's fields take, each with the words that refuse another."""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    Tag,
    ValidationError,
    model_serializer,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from orchestrator.yaml_file import shown

FIRST_TUNING_SEED = 1_000_000

T = TypeVar("T")
Location = tuple[str | int, ...]
Problem = tuple[Location, str]


def refusal(problem: str) -> PydanticCustomError:
    """The error that says `problem` of one value, in words of our own."""
    return PydanticCustomError("study", "{problem}", {"problem": problem})


def refuse(problems: Iterable[Problem]) -> None:
    """Raise all `problems` of one model at once, each at its own place; none is no error."""
    details = [InitErrorDetails(type=refusal(what), loc=loc, input=None) for loc, what in problems]
    if details:
        raise ValidationError.from_exception_data("study", details)


class Part(BaseModel):
    """A frozen piece of a study that knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _without_blanks(self, whole: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {key: value for key, value in whole(self).items() if value not in (None, [], {})}

    def __hash__(self) -> int:
        return hash(tuple(value for _, value in self if not isinstance(value, dict)))


def shape(value: object) -> str:
    """Which member of a union a value is meant for, by how it is written."""
    if isinstance(value, list | tuple):
        return "[list]"
    if isinstance(value, str):
        return "[text]"
    return "[mapping]" if isinstance(value, Mapping | BaseModel) else "[number]"


def by_shape(wanted: str) -> Discriminator:
    """Chooses among the members of a union, tagged with their shapes; `wanted` names them all."""
    return Discriminator(shape, custom_error_type="shape", custom_error_message=wanted)


def in_a_list(value: object) -> object:
    """A lone value as the list of it; lists and mappings as they are."""
    return value if shape(value) in ("[list]", "[mapping]") else (value,)


def mapping_in_a_list(value: object) -> object:
    """A lone mapping as the list of it."""
    return (value,) if shape(value) == "[mapping]" else value


def not_empty(values: tuple[T, ...]) -> tuple[T, ...]:
    """The same values, refused where there are none (`min_length` would count valid ones only)."""
    if not values:
        raise refusal("should have at least one entry; got []")
    return values


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """The same values, refused where one is given twice."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            raise refusal(f"{shown(value)} is given twice")
        seen.add(value)
    return values


def listed(seeds: int | tuple[int, ...], first: int = 0) -> tuple[int, ...]:
    """A count of seeds as the seeds from `first` on; a list of seeds as it is."""
    return tuple(range(first, first + seeds)) if isinstance(seeds, int) else seeds


def _ascending(values: tuple[int, ...]) -> tuple[int, ...]:
    for first, second in pairwise(values):
        if first >= second:
            raise refusal(f"should ascend; {second} comes after {first}")
    return values


def _share_or_whole(gpus: float) -> float:
    if gpus > 1 and (gpus % 1 or gpus > 1024):
        raise refusal(
            f"should be a share of one GPU or a whole number up to 1024; got {shown(gpus)}"
        )
    return gpus


def _matching(pattern: str, wanted: str) -> AfterValidator:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise refusal(f"should be {wanted}; got {shown(text)}")
        return text

    return AfterValidator(check)


Flag = Annotated[bool, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
Share = Annotated[Number, Field(ge=0, lt=1)]
Count = Annotated[int, Strict(), Field(ge=1, le=2**31 - 1)]
Depth = Annotated[int, Strict(), Field(ge=1, le=10_000)]
Step = Annotated[int, Strict(), Field(ge=0, le=2**31 - 1)]
Seed = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Text = Annotated[str, Strict()]
Line = Annotated[
    Text,
    _matching(
        r"(?!\s)[^\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]{1,64}(?<!\s)",
        "a line of 1 to 64 visible characters without blanks around it",
    ),
]
PathSafe = Annotated[
    Text,
    _matching(
        r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}",
        "letters, digits, - _ . (at most 64, and no . first)",
    ),
]
RuleName = Annotated[
    Text,
    _matching(r"[A-Za-z][\w-]*|\w+(\.\w+)*:\w+(\.\w+)*", "a rule's name or package.module:Class"),
]
Activation = Literal["tanh", "relu", "sigmoid"]
Axis = Literal["dataset", "depth", "width", "activation", "residual"]
AXES: tuple[Axis, ...] = get_args(Axis)

Distinct = Annotated[tuple[T, ...], AfterValidator(not_empty), AfterValidator(distinct)]
Values = Annotated[Distinct[T], BeforeValidator(in_a_list)]
MOST_SEEDS = 100_000
"""Seeds, or pairs of them, that a cell may be evaluated with."""

SeedCount = Annotated[Count, Field(le=MOST_SEEDS), Tag("[number]")]
SeedList = Annotated[Distinct[Seed], Tag("[list]")]
SeedSet = Annotated[SeedCount | SeedList, by_shape("a count or a list of seeds")]
Steps = Annotated[tuple[Step, ...], AfterValidator(not_empty), AfterValidator(_ascending)]
Record = Annotated[
    Annotated[Count, Field(le=100_000), Tag("[number]")] | Annotated[Steps, Tag("[list]")],
    by_shape("a count of points or a list of steps"),
]
CountOrFull = Annotated[
    Annotated[Count, Tag("[number]")] | Annotated[Literal["full"], Tag("[text]")],
    by_shape('a whole number or "full"'),
]
CountOrAuto = Annotated[
    Annotated[Count, Tag("[number]")] | Annotated[Literal["auto"], Tag("[text]")],
    by_shape('a whole number or "auto"'),
]
GpusOrAuto = Annotated[
    Annotated[Number, Field(ge=0), AfterValidator(_share_or_whole), Tag("[number]")]
    | Annotated[Literal["auto"], Tag("[text]")],
    by_shape('a number or "auto"'),
]
AxesKept = Annotated[
    Annotated[Literal["cell", "rule"], Tag("[text]")] | Annotated[Distinct[Axis], Tag("[list]")],
    by_shape('"cell", "rule" or a list of axes'),
]
