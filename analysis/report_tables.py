"""The tables of a report: the analyses' frames as rows of cells with headings and captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis import (
    accuracy_vs_depth,
    captions,
    comparisons,
    depth_utility,
    lr_sensitivity,
    outcomes,
    probes,
)
from analysis.report_words import counted, decimals, probability
from analysis.trials import CELL, GROUP, widths

Row = Mapping[Any, Any]

PANEL = [*GROUP, "widths"]
"""What leads a row, where the study sweeps it."""

_LOST = ("diverged", "failed", "pending")


@dataclass(frozen=True)
class Cell:
    """What a cell says: a number, its interval, and flags; a `scope` makes it a heading."""

    text: str
    detail: str = ""
    flags: tuple[str, ...] = ()
    scope: str = ""
    span: int = 1


@dataclass(frozen=True)
class Table:
    """A table with its caption; `kind` is the analysis it belongs to."""

    kind: str
    caption: str
    note: str
    columns: list[str]
    rows: list[list[Cell]]


def tables(df: pd.DataFrame, compare: Mapping[str, Any]) -> list[Table]:
    """Every table that the trial table allows; `compare` is the study's block of that name."""
    made = [
        _accuracy(df), _depth_utility(df), _probes(df), _comparisons(df, compare),
        _trends(df, compare), _rates(df),
    ]  # fmt: skip
    return [table for table in made if table and table.rows]


def interval(row: Row, mean: str = "mean", low: str = "low", high: str = "high") -> Cell:
    """A mean and its interval; an empty cell where there is none."""
    if pd.isna(row[mean]):
        return Cell("")
    center, *ends = decimals(row[mean], row[low], row[high])
    return Cell(center, f"[{', '.join(ends)}]" if pd.notna(row[low]) else "")


def over_depth(
    frame: pd.DataFrame, lines: Mapping[str, Callable[[Row], Cell]], lead: Sequence[str] = ()
) -> tuple[list[str], list[list[Cell]]]:
    """Columns and rows of a table with a column a depth, and for each rule a row a line.

    `lines` maps the format of a line's heading, in which `{label}` and other columns may stand,
    to what makes its cells. A line without a word is left out.
    """
    swept = [name for name in PANEL if name in frame and len(frame[name].unique()) > 1]
    depths = sorted(frame["depth"].unique())
    rows = []
    for _, rule in frame.groupby([*swept, "label"], sort=False):
        found: dict[int, Row] = {row["depth"]: row for row in rule.to_dict("records")}
        first = {str(name): value for name, value in rule.iloc[0].items()}
        heads = [Cell(named(name, first[name]), scope="row") for name in swept]
        extra = [Cell(str(first[name])) for name in lead]
        for heading, make in lines.items():
            cells = [make(found[depth]) if depth in found else Cell("") for depth in depths]
            if any(cell.text or cell.flags for cell in cells):
                rows.append([*heads, Cell(heading.format(**first), scope="row"), *extra, *cells])
    columns = [*map(heading_of, swept), "rule", *map(heading_of, lead)]
    return [*columns, *(f"depth {depth}" for depth in depths)], rows


def heading_of(name: str) -> str:
    """A column of a frame as a heading."""
    return {"widths": "width", "residual": "network"}.get(name, name.replace("_", " "))


def named(name: str, value: Any) -> str:
    """A coordinate's value as it is read."""
    if name == "residual":
        return "residual" if value else "plain"
    return str(value)


def _flagged(cell: Cell, row: Row) -> Cell:
    """The cell with the networks lost there, and a mark for a rate at the edge of its range."""
    lost = [f"{row[state]} {state}" for state in _LOST if row[state]]
    return replace(cell, flags=tuple([*lost, "edge"] if row.get("at_edge") is True else lost))


def _of_seeds(frame: pd.DataFrame) -> str:
    """What the numbers are: means over so many seeds, with intervals where there are several."""
    return f"{captions.means(frame['n'], 'brackets')}."


def _in_order(frame: pd.DataFrame, df: pd.DataFrame) -> pd.DataFrame:
    """The frame with its rules in the order of the study."""
    rank = {label: i for i, label in enumerate(df["label"].unique())}
    return frame.sort_values("label", key=lambda labels: labels.map(rank), kind="stable")


def _edge_note(frame: pd.DataFrame) -> str:
    if not frame["at_edge"].any():
        return ""
    return "Edge: the rate lies at the edge of its searched range, a better one may lie outside."


def _accuracy(df: pd.DataFrame) -> Table | None:
    references = [*df.loc[df["rule"].eq("bp"), "label"].unique(), ""]
    frame = accuracy_vs_depth.summary_table(df, reference=references[0])
    if not frame["n"].gt(0).any():
        return None
    frame = frame.assign(at_edge=frame["at_edge"].astype(bool))
    columns, rows = over_depth(frame, {
        "{label}": lambda row: _flagged(interval(row), row),
        "{label} − {reference}": lambda row: interval(row, "gap", "gap_low", "gap_high"),
    })  # fmt: skip
    metric = " or ".join(frame["metric"].unique()).replace("_", " ")
    against = f", and its difference to {references[0]}" if references[0] else ""
    notes = [_of_seeds(frame), "Differences are paired by seed." if against else ""]
    text = " ".join(filter(None, [*notes, _edge_note(frame)]))
    return Table("accuracy_vs_depth", f"{metric.capitalize()}{against}", text, columns, rows)


def _depth_utility(df: pd.DataFrame) -> Table | None:
    frame = _in_order(depth_utility.summarise(df), df)
    frame = frame[frame["rule"].ne("bp")]
    if not frame["n"].gt(0).any():
        return None
    columns, rows = over_depth(frame, {
        "{label}": interval,
        "{label}, layer 1": lambda row: interval(row, *(f"layer_1_{n}" for n in _ENDS)),
    })  # fmt: skip
    caption = "Alignment with the negative gradient: mean of the early third of the layers"
    note = f"{_of_seeds(frame)} It is 1 for backpropagation, by definition."
    return Table("depth_utility", caption, note, columns, rows)


_ENDS = ("mean", "low", "high")


def _probes(df: pd.DataFrame) -> Table | None:
    frame = _in_order(probes.early_gain(df), df)
    if not frame["n"].gt(0).any():
        return None
    columns, rows = over_depth(frame, {"{label}": interval})
    caption = "What training adds to the accuracy of probes in the early third of the layers"
    return Table("probes", caption, _of_seeds(frame), columns, rows)


def _rates(df: pd.DataFrame) -> Table | None:
    frame = lr_sensitivity.edges(df)
    if frame.empty:
        return None
    ends = zip(frame["lr_low"], frame["lr_high"], strict=True)
    frame = frame.assign(
        widths=widths(frame),
        searched=[f"{low:.3g} to {high:.3g}" for low, high in ends],
        at_edge=frame["at_edge"].astype(bool),
    )
    columns, rows = over_depth(frame, {"{label}": _rate}, ["searched"])
    return Table("lr_sensitivity", "Tuned learning rates", _edge_note(frame), columns, rows)


def _rate(row: Row) -> Cell:
    return Cell(f"{row['lr']:.3g}", flags=("edge",) if row["at_edge"] else ())


def _comparisons(df: pd.DataFrame, compare: Mapping[str, Any]) -> Table | None:
    frame = comparisons.claims(comparisons.comparisons(df, compare))
    if frame.empty:
        return None
    swept = [name for name in (*PANEL, "metric") if len(frame[name].unique()) > 1]
    columns = [*map(heading_of, swept), "rules", "depth", "difference", "seeds", "p", "p (Holm)"]
    rows = list(_grouped(frame, [*swept, "label", "reference"], _compared))
    metric = " or ".join(frame["metric"].unique()).replace("_", " ")
    note = "95 % intervals; sign-flip p; Holm over the table. "
    note += "An effect may be claimed where the interval excludes 0, no rate is at the edge of its "
    note += "range, and both rules lost as many networks."
    caption = f"Differences in {metric}, paired by seed"
    return Table("comparisons", caption, note, [*columns, "may be claimed"], rows)


def _compared(row: Row) -> list[Cell]:
    verdict = "yes" if row["claimed"] else f"no: {row['reason']}"
    numbers = [Cell(str(row["n"])), Cell(probability(row["p"])), Cell(probability(row["p_holm"]))]
    return [Cell(str(row["depth"]), scope="row"), interval(row), *numbers, Cell(verdict)]


def _trends(df: pd.DataFrame, compare: Mapping[str, Any]) -> Table | None:
    metric = compare.get("metric") or comparisons.METRIC
    parts = [comparisons.trend(df, pair, metric) for pair in comparisons.pairs_of(df, compare)]
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if frame.empty:
        return None
    swept = [name for name in (*PANEL, "metric") if len(frame[name].unique()) > 1]
    columns = [*map(heading_of, swept), "rules", "slope", "seeds", "p"]
    rows = list(_grouped(frame, [*swept, "label", "reference"], _sloped))
    caption = "How the differences change with each doubling of depth"
    return Table("comparisons", caption, "Mean over seeds of each seed's slope.", columns, rows)


def _sloped(row: Row) -> list[Cell]:
    slope = interval(row, "slope")
    return [slope, Cell(str(row["n"])), Cell(probability(row["p"]))]


def _grouped(
    frame: pd.DataFrame, by: list[str], make: Callable[[Row], list[Cell]]
) -> Iterator[list[Cell]]:
    """The frame's rows, under one heading for those that agree in `by`."""
    for key, part in frame.groupby(by, sort=False):
        *lead, label, reference = key
        heads = [named(name, value) for name, value in zip(by, lead, strict=False)]
        span, scope = len(part), "row" if len(part) == 1 else "rowgroup"
        group = [Cell(t, scope=scope, span=span) for t in [*heads, f"{label} − {reference}"]]
        for i, row in enumerate(part.to_dict("records")):
            yield [*([] if i else group), *make(row)]


def divergences(df: pd.DataFrame) -> Table:
    """How many networks of each cell diverged, of how many."""
    frame = outcomes.counts(df, CELL)
    for phase in ("tune", "evaluate"):
        found = outcomes.counts(df[df["phase"].eq(phase)], CELL)[[*CELL, "networks", "diverged"]]
        frame = frame.merge(found, on=CELL, how="left", suffixes=("", f"_{phase}"))
    frame = _in_order(frame.assign(widths=widths(frame)).fillna(0), df)
    columns, rows = over_depth(frame, {
        "{label}, tuning": lambda row: _share(row, "tune"),
        "{label}, evaluation": lambda row: _share(row, "evaluate"),
    })  # fmt: skip
    caption = f"{counted(int(frame['diverged'].sum()), 'network')} diverged"
    return Table("lost", caption, "Where a cell is empty, none did.", columns, rows)


def _share(row: Row, phase: str) -> Cell:
    diverged, networks = (int(row[f"{name}_{phase}"]) for name in ("diverged", "networks"))
    return Cell(f"{diverged} of {networks}" if diverged else "")


def failures(df: pd.DataFrame) -> Table:
    """The networks whose rule raised an error, by cell and the error's last line."""
    failed = df[df["status"].eq("failed")]
    lines = [str(text).strip().splitlines() or [""] for text in failed["error"].fillna("")]
    keys = [*CELL, "phase", "message"]
    found = failed.assign(message=[line[-1] for line in lines]).groupby(keys, sort=False).size()
    frame = found.reset_index(name="networks")
    swept = [name for name in (*GROUP, "width") if len(frame[name].unique()) > 1]
    names = [*swept, "label", "depth", "phase", "networks", "message"]
    rows = [
        [Cell(named(name, row[name]), scope="row" if name == "label" else "") for name in names]
        for row in frame.to_dict("records")
    ]
    columns = [{"label": "rule", "message": "error"}.get(name, name) for name in names]
    return Table("lost", f"{counted(len(failed), 'network')} failed", "", columns, rows)
