"""The grid of a study, expanded into cells and their evaluation seeds, every name resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

from orchestrator.cell import Cell, Rule, TaskSetting
from orchestrator.columns import named
from orchestrator.spec import GridBlock, Matched, Range, RuleChoice, Study
from orchestrator.spec import Network as NetworkSpec
from orchestrator.trial import rounded
from orchestrator.yaml_file import StudyError
from rules import catalog
from rules.data import Data, load
from rules.dims import Dims, dims_of, matched_width
from rules.settings import Measure, Network, Training
from rules.shuffle import split

MOST_STEPS = 2**31 - 1


@dataclass(frozen=True)
class Evaluation:
    """A cell, and the pairs of seeds (init, feedback) that its evaluation trains."""

    cell: Cell
    seeds: tuple[tuple[int, int], ...]
    target: int | None = None  # the parameter count that its width matches; None: a given width


@dataclass(frozen=True)
class Grid:
    """A whole study, ready to run: what to evaluate, and the data it takes."""

    study: Study
    evaluations: tuple[Evaluation, ...]
    data: dict[str, Data]


def expand(study: Study, data_dir: Path | None = None) -> Grid:
    """Every cell of the study, in the order of its file: rules outermost, then the grid's axes.

    Loads the data sets, for their sizes and their fingerprints.

    Raises:
        StudyError: cells that are equal, a loss that does not fit the data, a width that cannot be.
        RuleError, DataError: a rule or a data set that cannot be used.
    """
    _refuse_unknown_metric(study.compare.metric)
    rules = [resolved(choice, study) for choice in study.rules]
    names = dict.fromkeys(name for block in study.blocks for name in block.dataset)
    data = {name: load(name, study.task.options, data_dir) for name in names}
    tasks = {name: _task(name, study, data[name]) for name in names}
    evaluations = tuple(
        Evaluation(
            _cell(study, rules, rule, tasks[axes["dataset"]], axes), _seeds(block), axes["target"]
        )
        for block in study.blocks
        for rule in rules
        for axes in _points(block, rule.label, tasks, study.network)
    )
    _refuse_equal(evaluations)
    return Grid(study, evaluations, data)


def _refuse_unknown_metric(metric: str) -> None:
    known = named("result")
    if metric not in known:
        near = get_close_matches(metric, known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "take one such as test_loss"
        raise StudyError([f'compare.metric: no result column "{metric}"; {hint}'])


def resolved(choice: RuleChoice, study: Study) -> Rule:
    """The rule with all its options, and its hyperparameters as fixed numbers or ranges."""
    found, options = catalog.find(choice.name), catalog.resolve(choice.name, choice.options)
    space = study.space_of(choice)
    able = catalog.searchable(choice.name)
    for name in choice.search:
        if name != "lr" and name not in able:
            raise StudyError(
                [
                    f'rules: option "{name}" of "{choice.label}" cannot be searched; '
                    f"these can: {', '.join(['lr', *able])}"
                ]
            )
    return Rule(
        choice.name,
        choice.label,
        tuple(sorted((k, v) for k, v in options.items() if k not in space)),
        found.revision,
        found.draws,
        catalog.source_hash(choice.name),
        tuple(sorted((k, float(v)) for k, v in space.items() if not isinstance(v, Range))),
        tuple(sorted(_range(k, v) for k, v in space.items() if isinstance(v, Range))),
    )


def _range(name: str, found: Range) -> tuple[str, float, float]:
    """A range in the digits of a point, so that its ends are points of it."""
    ends = rounded({"low": found.low, "high": found.high})
    return name, ends["low"], ends["high"]


def _task(name: str, study: Study, data: Data) -> TaskSetting:
    if (study.training.loss == "squared") != (data.classes is None):
        fitting = "squared" if data.classes is None else "cross-entropy"
        raise StudyError(
            [
                f'training.loss: data set "{name}" needs the loss {fitting}; '
                f"got {study.training.loss}"
            ]
        )
    if study.search.choose == "validation_accuracy" and data.classes is None:
        raise StudyError(
            [f'search.choose: data set "{name}" has no classes; choose by validation_loss']
        )
    train, held = split(len(data.x_train), study.validation, study.task.split_seed)
    if study.validation and not len(held):
        raise StudyError(
            [
                f"task.validation: {study.validation:g} of the {len(train)} examples of {name} is "
                "not one; take a larger share"
            ]
        )
    return TaskSetting(
        name,
        tuple(sorted(study.task.options.items())),
        study.validation,
        study.task.split_seed,
        data.fingerprint,
        data.inputs,
        data.outputs,
        data.classes,
        len(train),
    )


def _points(
    block: GridBlock, label: str, tasks: dict[str, TaskSetting], network: NetworkSpec
) -> Iterator[dict[str, Any]]:
    widths = block.width if isinstance(block.width, tuple) else (0,)  # 0: to be matched
    axes = ("dataset", "activation", "residual", "depth", "width")
    values = (block.dataset, block.activation, block.residual, block.depth, widths)
    for combination in product(*values):
        point: dict[str, Any] = dict(zip(axes, combination, strict=True))
        point["target"] = None
        if isinstance(block.width, Matched):
            point |= _matched(block.width, tasks[point["dataset"]], point, bias=network.bias)
        if not any(exclusion.drops({"label": label} | point) for exclusion in block.exclude):
            yield point


def _matched(
    width: Matched, task: TaskSetting, point: dict[str, Any], *, bias: bool
) -> dict[str, int]:
    """The width at this depth whose parameter count is nearest to the reference's."""

    def count(depth: int, units: int) -> int:
        return dims_of(Network(depth, units, bias=bias), task.inputs, task.outputs).parameter_count

    reference, depth = width.match_parameters, point["depth"]
    target = count(reference.depth, reference.width)
    try:
        return {"target": target, "width": matched_width(lambda units: count(depth, units), target)}
    except ValueError as error:
        what = f"at depth {depth} {error}; take a wider reference or leave that depth out"
        raise StudyError([f"grid.width.match_parameters: {what}"]) from None


def _cell(
    study: Study, rules: Sequence[Rule], rule: Rule, task: TaskSetting, axes: dict[str, Any]
) -> Cell:
    network = Network(
        axes["depth"], axes["width"], axes["activation"], axes["residual"], study.network.bias
    )
    dims = dims_of(network, task.inputs, task.outputs)
    cost = step_cost(rule, dims)
    reference = {r.label: r for r in rules}.get(study.training.match_compute or "")
    share = step_cost(reference, dims) / cost if reference else 1.0
    device = "cuda" if study.resources.gpus else "cpu"
    measure = Measure(**study.measure.model_dump(exclude={"save_weights"}))
    return Cell(rule, task, network, _training(study, task, share), measure, device, cost)


def step_cost(rule: Rule, dims: Dims) -> float:
    """Floating-point operations of a step for one example: the core's and the rule's own."""
    searched = {name: low for name, low, _ in rule.space} | dict(rule.fixed)
    options = dict(rule.options) | {k: v for k, v in searched.items() if k != "lr"}
    return dims.core_operations + catalog.operations(rule.name, options, dims)


def _training(study: Study, task: TaskSetting, share: float) -> Training:
    """The training of a cell; `share` of the study's steps, where compute is to match."""
    given = study.training
    batch = task.examples if given.batch_size == "full" else min(given.batch_size, task.examples)
    horizon = given.steps or (given.epochs or 0) * ceil(task.examples / batch)
    steps = max(1, round(share * horizon))
    if steps > MOST_STEPS:
        raise StudyError([f"training: should take at most {MOST_STEPS} steps; got {steps:g}"])
    if isinstance(given.record, int):
        record = {round(steps * i / given.record) for i in range(1, given.record + 1)}
    else:
        record = set(given.record)
    if max(record, default=0) > steps:
        raise StudyError(
            [f"training.record: should end by the last step, {steps}; got {max(record)}"]
        )
    return Training(
        steps,
        batch,
        given.momentum,
        given.weight_decay,
        given.loss,
        given.dtype,
        tuple(sorted(record)),
        given.normalize_signals,
        given.optimizer,
        given.schedule,
        round(given.warmup * steps),
        given.compile,
    )


def _seeds(block: GridBlock) -> tuple[tuple[int, int], ...]:
    if block.feedback_seeds is None:
        return tuple((seed, seed) for seed in block.init_seeds)
    return tuple(product(block.init_seeds, block.feedback_seeds))


def _refuse_equal(evaluations: tuple[Evaluation, ...]) -> None:
    seen = set[tuple[Any, ...]]()
    for cell in (evaluation.cell for evaluation in evaluations):
        if cell.place in seen:
            told = f"{cell.rule.label}: {cell.axes}"
            raise StudyError([f"grid: the cell {told} stands there twice; blocks must not overlap"])
        seen.add(cell.place)
    if not seen:
        raise StudyError(["grid: no cell is left; exclude drops them all"])
