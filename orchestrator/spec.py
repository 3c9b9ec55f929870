"""The whole study as one frozen value, how it is loaded and dumped, and its cross-checks."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, ValidationError, model_validator

from orchestrator.complaints import explain
from orchestrator.fields import (
    AXES,
    FIRST_TUNING_SEED,
    Axis,
    Location,
    Part,
    PathSafe,
    Problem,
    mapping_in_a_list,
    not_empty,
    refuse,
)
from orchestrator.grid_block import Exclusion, GridBlock, Matched, Reference, SeedProduct
from orchestrator.parts import (
    Compare,
    Measure,
    Network,
    Range,
    Resources,
    RuleChoice,
    SearchSpec,
    Task,
    Training,
)
from orchestrator.yaml_file import StudyError, nearest, read_mapping, shown, with_overrides, write

__all__ = [
    "AXES",
    "FIRST_TUNING_SEED",
    "Axis",
    "Compare",
    "Exclusion",
    "GridBlock",
    "Matched",
    "Measure",
    "Network",
    "Range",
    "Reference",
    "Resources",
    "RuleChoice",
    "SearchSpec",
    "SeedProduct",
    "Study",
    "StudyError",
    "Task",
    "Training",
    "dump",
    "load_study",
    "study_from",
]


class Study(Part):
    """A whole study file."""

    name: PathSafe
    task: Task = Task()
    network: Network = Network()
    training: Training = Training()
    rules: Annotated[tuple[RuleChoice, ...], AfterValidator(not_empty)]
    grid: Annotated[
        tuple[GridBlock, ...], BeforeValidator(mapping_in_a_list), AfterValidator(not_empty)
    ]
    search: SearchSpec = SearchSpec()
    compare: Compare = Compare()
    measure: Measure = Measure()
    resources: Resources = Resources()

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        refuse(_contradictions(self))
        return self

    @property
    def blocks(self) -> tuple[GridBlock, ...]:
        """The blocks of the grid with every axis filled in from task and network."""
        return tuple(map(self._filled, self.grid))

    def _filled(self, block: GridBlock) -> GridBlock:
        axes = {
            "dataset": block.dataset or (self.task.dataset,),
            "activation": block.activation or (self.network.activation,),
            "residual": block.residual or (self.network.residual,),
        }
        return block.model_copy(update=axes)

    def space_of(self, rule: RuleChoice) -> dict[str, Range | float]:
        """Every hyperparameter of `rule` that reaches it as a number: a range or fixed."""
        return {"lr": self.search.lr, **rule.search}

    def lr_of(self, rule: RuleChoice) -> Range | float:
        """The learning rate of `rule`: its own, or else the study's."""
        return self.space_of(rule)["lr"]

    @property
    def searched(self) -> bool:
        """Whether anything is tuned."""
        spaces = map(self.space_of, self.rules)
        return any(isinstance(value, Range) for space in spaces for value in space.values())

    @property
    def validation(self) -> float:
        """The share of the training set kept for choosing."""
        if self.task.validation is not None:
            return self.task.validation
        return 0.1 if self.searched else 0.0


def load_study(path: str | Path, overrides: Sequence[str] = ()) -> Study:
    """The study in the file at `path`, with overrides such as `grid.seeds=3` written into it."""
    tree = read_mapping(Path(path))
    return study_from(with_overrides(_rules_as_mappings(tree), overrides) if overrides else tree)


def study_from(mapping: Mapping[str, object]) -> Study:
    """The study that a mapping describes, checked as a file would be."""
    try:
        return Study.model_validate(mapping)
    except ValidationError as error:
        raise StudyError(explain(error.errors(include_url=False), mapping, Study)) from None


def dump(study: Study) -> str:
    """The study as YAML that loads back to an equal study, defaults spelt out."""
    return write(study.model_dump(mode="json"))


def _rules_as_mappings(tree: Mapping[str, object]) -> dict[str, object]:
    """`tree` with rules that are mere names as mappings, so that overrides can reach into them."""
    rules = tree.get("rules")
    if not isinstance(rules, list):
        return dict(tree)
    return {**tree, "rules": [{"name": r} if isinstance(r, str) else r for r in rules]}


def _contradictions(study: Study) -> Iterator[Problem]:
    """What no part of the study can see alone."""
    yield from _label_problems(study)
    yield from _excess(study)
    if study.task.dataset is None and not all(block.dataset for block in study.grid):
        yield ("task", "dataset"), "missing; name it here or in every block of the grid"
    if not study.searched:
        return
    if study.task.validation == 0:
        what = "should be more than 0 where rates are searched; leave it out for 0.1, or fix lr"
        yield ("task", "validation"), what
    reported = {seed for b in study.grid for seed in (*b.init_seeds, *(b.feedback_seeds or ()))}
    shared = sorted(reported.intersection(study.search.seed_list))
    if shared:
        what = f"tuning and evaluation share {shown(shared)}; seeds that choose must not report"
        yield ("search", "seeds"), what


MOST_NETWORKS = 1_000_000
"""Networks that a study may tune with, and that it may evaluate; each of them is planned."""


def _excess(study: Study) -> Iterator[Problem]:
    """More networks than a driver can keep in mind."""
    rules, search = len(study.rules), study.search
    seeds = [len(b.init_seeds) * len(b.feedback_seeds or (0,)) for b in study.grid]
    evaluated = rules * sum(b.count() * n for b, n in zip(study.grid, seeds, strict=True))
    cells = rules * sum(block.count() for block in study.grid)
    tuned = cells * search.rounds * search.points * len(search.seed_list) if study.searched else 0
    for place, count in (("grid", evaluated), ("search", tuned)):
        if count > MOST_NETWORKS:
            yield (place,), f"should want at most {MOST_NETWORKS} networks; got {count}"


def _label_problems(study: Study) -> Iterator[Problem]:
    labels = [rule.label for rule in study.rules]
    for i, label in enumerate(labels):
        if label in labels[:i]:
            yield ("rules", i), f"label {shown(label)} is taken; give it another, as label: ..."
    for place, label in _labels_named(study):
        if label not in labels:
            hint = nearest(label, labels, cutoff=0.5) or f"; labels are {', '.join(labels)}"
            yield place, f"no rule has the label {shown(label)}{hint}"


def _labels_named(study: Study) -> Iterator[tuple[Location, str]]:
    """Every mention of a rule's label outside the rules, with its place."""
    if study.training.match_compute is not None:
        yield ("training", "match_compute"), study.training.match_compute
    for i, pair in enumerate(study.compare.pairs):
        yield from ((("compare", "pairs", i, j), label) for j, label in enumerate(pair))
    for i, block in enumerate(study.grid):
        for j, exclusion in enumerate(block.exclude):
            place = ("grid", i, "exclude", j, "label")
            yield from (((*place, k), label) for k, label in enumerate(exclusion.label))
