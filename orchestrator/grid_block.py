"""A block of the grid as a study file writes it: its axes, its seeds, and what it leaves out."""

from collections.abc import Mapping
from math import prod
from typing import Annotated, Self

from pydantic import BeforeValidator, Tag, model_validator

from orchestrator.fields import (
    MOST_SEEDS,
    Activation,
    Count,
    Depth,
    Flag,
    Line,
    Part,
    SeedCount,
    SeedList,
    SeedSet,
    Values,
    by_shape,
    in_a_list,
    listed,
    refuse,
)


class Reference(Part):
    """The network whose parameter count the others are to match."""

    depth: Depth
    width: Count


class Matched(Part):
    """Gives each depth the width whose parameter count is nearest to the reference's."""

    match_parameters: Reference


class SeedProduct(Part):
    """Every init seed with every feedback seed."""

    init: SeedSet
    feedback: SeedSet

    @model_validator(mode="after")
    def _not_too_many(self) -> Self:
        pairs = len(listed(self.init)) * len(listed(self.feedback))
        if pairs > MOST_SEEDS:
            refuse([((), f"should be at most {MOST_SEEDS} pairs; got {pairs}")])
        return self


Seeds = Annotated[
    SeedCount | SeedList | Annotated[SeedProduct, Tag("[mapping]")],
    by_shape("a count, a list of seeds or {init: ..., feedback: ...}"),
]


class Exclusion(Part):
    """Drops the cells that have one of the values at every key given."""

    label: Values[Line] = ()
    dataset: Values[Line] = ()
    depth: Values[Count] = ()
    width: Values[Count] = ()
    activation: Values[Activation] = ()
    residual: Values[Flag] = ()

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any(values for _, values in self):
            refuse([((), "should name a label or a value of an axis; this drops every cell")])
        return self

    def drops(self, cell: Mapping[str, object]) -> bool:
        """Whether the cell with this label and these values of the axes is dropped."""
        return all(cell[key] in values for key, values in self if values)


class GridBlock(Part):
    """A block of the grid: the product of its axes; an empty axis follows task or network."""

    depth: Values[Depth]
    width: Annotated[
        Annotated[Values[Count], Tag("[list]")] | Annotated[Matched, Tag("[mapping]")],
        by_shape("a whole number, a list or {match_parameters: {depth: ..., width: ...}}"),
        BeforeValidator(in_a_list),
    ]
    seeds: Seeds
    dataset: Values[Line] = ()
    activation: Values[Activation] = ()
    residual: Values[Flag] = ()
    exclude: tuple[Exclusion, ...] = ()

    def count(self) -> int:
        """Cells of each rule, exclusions apart; not one of them is made."""
        axes = (self.depth, self.width, self.dataset, self.activation, self.residual)
        return prod(len(values) or 1 for values in axes if isinstance(values, tuple))

    @property
    def init_seeds(self) -> tuple[int, ...]:
        """The seeds of the initial weights, and of all else unless feedback has its own."""
        return listed(self.seeds.init if isinstance(self.seeds, SeedProduct) else self.seeds)

    @property
    def feedback_seeds(self) -> tuple[int, ...] | None:
        """The seeds of the feedback for each init seed; None where it takes the init seed."""
        return listed(self.seeds.feedback) if isinstance(self.seeds, SeedProduct) else None
