"""What the commands print: tables for a terminal, made from plans, run folders and catalogs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.store import current, every_result, shard_folders, trials

if TYPE_CHECKING:
    from orchestrator.forecast import Plan
    from orchestrator.grid import Evaluation
    from orchestrator.price import Price

Rows = list[dict[str, Any]]

EDGE = 0.05
"""The outer part of a log range in which a chosen rate counts as at the edge."""


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A plain table; numbers stand to the right."""
    made = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        numbers = all(isinstance(row[place], int | float) for row in rows)
        made.add_column(heading, justify="right" if rows and numbers else "left")
    for row in rows:
        made.add_row(*(Text(_cell(value)) for value in row))
    return made


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def planned(plan: Plan, price: Price | None = None) -> Iterator[RenderableType]:
    """A plan: the cells, the networks by rule and phase, the time."""
    from orchestrator.progress import duration

    shapes = {(e.cell.task.dataset, e.cell.network): e for e in plan.grid.evaluations}
    headings = [
        "dataset",
        "depth",
        "width",
        "activation",
        "residual",
        "parameters",
        "steps",
        "batch",
    ]
    matched = any(e.target for e in shapes.values())
    yield table(
        f"{len(plan.grid.evaluations)} cells of {len(shapes)} shapes",
        [*headings, "target", "error"] if matched else headings,
        [_shape(e)[: len(headings) + 2 * matched] for e in shapes.values()],
    )
    if plan.grid.study.training.match_compute:
        yield _compute(plan)
    yield _networks(plan)
    for warning in plan.warnings:
        yield Text(f"note: {warning}", style="yellow")
    if plan.weights:
        yield Text(f"weights to be kept in the run folder: {plan.weights:.3g} MB")
    if plan.modules:
        yield Text(f"will import: {', '.join(plan.modules)}")
    if plan.missing and plan.seconds is not None:
        where = f"{plan.workers} workers as fast as this machine's"
        yield Text(
            f"{plan.missing} networks to train, about {duration(plan.seconds)} on {where}, "
            "starting aside"
        )
        if price is not None:
            yield _cost(plan, plan.seconds * plan.workers, price)
    else:
        yield Text(f"{plan.missing} networks to train")


def _cost(plan: Plan, worker_seconds: float, price: Price) -> Text:
    resources = plan.grid.study.resources
    cost, hours = (f(worker_seconds, resources) for f in (price.cost, price.hours))
    return Text(
        f"about {cost:.2f} at {price}: {hours:.2f} {price.unit}-hours at this machine's speed, "
        "idle time and the head aside"
    )


def _networks(plan: Plan) -> Table:
    rows = []
    for kind, total in plan.totals.items():
        known = plan.known.get(kind, 0)
        rows.append([*kind, total, known, total - known])
    return table("networks", ["rule", "phase", "wanted", "in the table", "to train"], rows)


def _compute(plan: Plan) -> Table:
    """What the same compute buys each rule: steps, and operations a network."""
    return table(
        f"same compute as {plan.grid.study.training.match_compute}",
        ["rule", "dataset", "depth", "width", "steps", "Gflop a network"],
        [
            [
                c.rule.label,
                c.task.dataset,
                c.network.depth,
                c.network.width,
                c.training.steps,
                c.cost / 1e9,
            ]
            for c in (e.cell for e in plan.grid.evaluations)
        ],
    )


def _shape(evaluation: Evaluation) -> list[object]:
    cell, target = evaluation.cell, evaluation.target
    count = cell.dims.parameter_count
    error = count - target if target else None
    training = [cell.training.steps, cell.training.batch_size]
    return [*map(_flag, cell.axes.values()), count, *training, target, error]


def status(run: Path, *, failed: bool, name: str) -> Iterator[RenderableType]:
    """How far a run is: counts by rule and phase, chosen rates, failures, leftovers.

    `name` is what the user calls the run.
    """
    content = current(run)
    rows: Rows = trials(run, STATUS).to_pylist()
    counts = Counter((row["label"], row["phase"], row["status"]) for row in rows)
    statuses = ("ok", "diverged", "failed", "pending")
    kinds = dict.fromkeys((row["label"], row["phase"]) for row in rows)
    yield table(
        f"study {content.get('name')} in {name}",
        ["rule", "phase", *statuses],
        [[*kind, *(counts[*kind, status] for status in statuses)] for kind in kinds],
    )
    yield from _rates(rows)
    bad = [row for row in rows if row["status"] == "failed"]
    for row in bad if failed else bad[:3]:
        error = row["error"] if failed else row["error"].strip().splitlines()[-1]
        yield Text(f"failed: {row['trial']} {row['label']} depth {row['depth']}: {error}", "red")
        if failed:
            yield Text(f"train it again: rulesweep verify {name} --trial {row['trial']}")
    begun = sum(any(shard.glob("trials/part-*")) for shard in shard_folders(run))
    if begun:
        yield Text(f"{begun} shards have begun; when all are done: rulesweep merge {name}")
    wanted = {row["trial"] for row in rows}
    others = sum(trial not in wanted for trial in every_result(run, ["trial"])["trial"].to_pylist())
    if others:
        yield Text(f"{others} more results in the folder belong to no trial of the current study")


def _rates(rows: Rows) -> Iterator[RenderableType]:
    """The chosen rate of every cell, and whether it lies at the edge of what was searched."""
    chosen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        if row["phase"] == "evaluate" and row["lr"] is not None:
            chosen.setdefault(tuple(row[name] for name in CELL), row)
    if not chosen:
        return
    yield table(
        "learning rates",
        [*CELL, "lr", ""],
        [
            [*map(_flag, cell), row["lr"], "at the edge of its range" if edge(row) else ""]
            for cell, row in chosen.items()
        ],
    )


CELL = ("label", "dataset", "depth", "width", "activation", "residual")


STATUS = ("trial", "phase", "status", "error", *CELL, "lr", "lr_low", "lr_high")
"""What `status` reads of the table."""


def _flag(value: object) -> object:
    return str(value) if isinstance(value, bool) else value


def edge(row: Mapping[str, Any]) -> bool:
    """Whether a chosen rate lies in the outer 5 % of its log range: widen it before any claim."""
    from math import log

    if row["lr_low"] is None:
        return False
    place = log(row["lr"] / row["lr_low"]) / log(row["lr_high"] / row["lr_low"])
    return not EDGE < place < 1 - EDGE


def summary(run: Path) -> Iterator[RenderableType]:
    """The table a study ends with: rules by depths, mean, interval, n, and the gap."""
    from analysis.accuracy_vs_depth import as_text, summary_table
    from analysis.captions import pending
    from analysis.trials import load_trials

    df = load_trials(run)
    if missing := pending(df):
        yield Text(missing, style="yellow")
    text = as_text(summary_table(df))
    if not len(text):
        yield Text("no network has been evaluated yet")
        return
    yield table("", [str(name) for name in text.columns], text.to_numpy().tolist())
