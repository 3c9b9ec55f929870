"""Every table of a report, from the analyses' frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from analysis import (
    accuracy_vs_depth,
    captions,
    comparisons,
    depth_utility,
    lr_sensitivity,
    matched_gap,
    probes,
)
from analysis.report_tables import (
    PANEL,
    Cell,
    Row,
    Table,
    grouped,
    headings,
    in_order,
    interval,
    over_depth,
    swept_in,
    with_widths,
)
from analysis.report_words import probability
from analysis.trials import CELL

_LOST = ("diverged", "failed", "pending")
_CLAIMS = (
    "Sign-flip p, adjusted by Holm over the table. An effect may be claimed where the interval "
    "excludes 0, neither rate is at the edge of its range, and both rules lost as many networks."
)
_ENDS = ("mean", "low", "high")


def tables(df: pd.DataFrame, compare: Mapping[str, Any]) -> list[Table]:
    """Every table that the trial table allows; `compare` is the study's block of that name."""
    made = [
        _accuracy(df), _depth_utility(df), _rates(df), _probes(df), _comparisons(df, compare),
        _trends(df, compare), _matched(df),
    ]  # fmt: skip
    return [table for table in made if table and table.rows]


def _flagged(cell: Cell, row: Row) -> Cell:
    """The cell with the networks lost there, and a mark for a rate at the edge of its range."""
    lost = [f"{row[state]} {state}" for state in _LOST if row[state]]
    return replace(cell, flags=tuple([*lost, "edge"] if row.get("at_edge") is True else lost))


def _of_seeds(frame: pd.DataFrame, what: str = "Mean") -> str:
    """What the numbers are: means over so many seeds, with intervals where there are several."""
    told = captions.means(frame["n"], "brackets")
    return f"{what}{told.removeprefix('Mean')}."


def _edge_note(frame: pd.DataFrame) -> str:
    if not frame["at_edge"].any():
        return ""
    return "Edge: the rate lies at the edge of its searched range, a better one may lie outside."


def _metric(frame: pd.DataFrame) -> str:
    return " or ".join(frame["metric"].unique()).replace("_", " ")


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
    paired = frame["gap"].notna().any()
    against = f", and its difference to {references[0]}" if paired else ""
    notes = [_of_seeds(frame), "Differences are paired by seed." if paired else ""]
    text = " ".join(filter(None, [*notes, _edge_note(frame)]))
    return Table(
        "accuracy_vs_depth", f"{_metric(frame).capitalize()}{against}", text, columns, rows
    )


def _depth_utility(df: pd.DataFrame) -> Table | None:
    frame = in_order(depth_utility.summarise(df), df)
    frame = frame[frame["rule"].ne("bp")]
    if not frame["n"].gt(0).any():
        return None
    first = [f"layer_1_{name}" for name in _ENDS]
    lines = {"{label}": interval, "{label}, layer 1": lambda row: interval(row, *first)}
    columns, rows = over_depth(frame, lines)
    caption = "Alignment with the negative gradient in the early third of the layers"
    note = f"{_of_seeds(frame)} It is 1 for backpropagation, by definition."
    return Table("depth_utility", caption, note, columns, rows)


def _probes(df: pd.DataFrame) -> Table | None:
    summary, gains = probes.summarise(df), in_order(probes.early_gain(df), df)
    if not gains["n"].gt(0).any():
        return None
    ends = {"layer 1": summary["layer"].eq(1), "last layer": summary["layer"].eq(summary["depth"])}
    for name, rows_of in ends.items():
        at = summary.loc[rows_of, [*CELL, *_ENDS]]
        names = {end: f"{name} {end}" for end in _ENDS}
        gains = gains.merge(at.rename(columns=names), on=CELL, how="left")
    lines = {f"{{label}}, {name}": _ends(f"{name} {{}}") for name in ends}
    columns, rows = over_depth(gains, {"{label}, gain": interval, **lines})
    caption = "Accuracy of ridge probes, and what training adds to it"
    note = _of_seeds(gains, "Gain: of the early third of the layers, trained minus untrained. Mean")
    return Table("probes", caption, note, columns, rows)


def _ends(name: str) -> partial[Cell]:
    """Makes cells of the mean and interval whose columns are named so."""
    mean, low, high = (name.format(end) for end in _ENDS)
    return partial(interval, mean=mean, low=low, high=high)


def _rates(df: pd.DataFrame) -> Table | None:
    frame = lr_sensitivity.edges(df)
    if frame.empty:
        return None
    ends = zip(frame["lr_low"], frame["lr_high"], strict=True)
    frame = with_widths(frame, df).assign(
        searched=[f"{low:.3g} to {high:.3g}" for low, high in ends],
        at_edge=frame["at_edge"].astype(bool),
    )
    others = [str(name) for name in df if str(name).startswith("hp_") and name != "hp_lr"]
    chosen = df[df["phase"].eq("evaluate")].groupby(CELL)[others].first().reset_index()
    ranges = frame["searched"].unique()
    lines: dict[str, Callable[[Row], Cell]] = {"{label}": _rate}
    lines |= {f"{{label}}, {name.removeprefix('hp_')}": partial(_value, name) for name in others}
    if len(ranges) > 1:
        lines["{label}, searched"] = lambda row: Cell(row["searched"])
    columns, rows = over_depth(in_order(frame.merge(chosen, on=CELL, how="left"), df), lines)
    what = "Tuned learning rates" + (" and other searched values" if others else "")
    note = f"Searched from {ranges[0]}." if len(ranges) == 1 else ""
    text = " ".join(filter(None, [note, _edge_note(frame)]))
    return Table("lr_sensitivity", what, text, columns, rows)


def _rate(row: Row) -> Cell:
    return Cell(f"{row['lr']:.3g}", flags=("edge",) if row["at_edge"] else ())


def _value(name: str, row: Row) -> Cell:
    return Cell("" if pd.isna(row[name]) else f"{row[name]:.3g}")


def _comparisons(df: pd.DataFrame, compare: Mapping[str, Any]) -> Table | None:
    frame = comparisons.claims(comparisons.comparisons(df, compare))
    if frame.empty:
        return None
    swept = swept_in(frame, [*PANEL, "metric"])
    columns = [*headings(swept), "rules", "depth", "difference", "p", "p (Holm)", "claimed"]
    rows = list(grouped(frame, [*swept, "label", "reference"], _compared))
    means = _of_seeds(frame)
    if frame["method"].eq("BCa").any():
        means = means.replace(" t interval", " interval")
    note = f"{means} {_CLAIMS}"
    caption = f"Differences in {_metric(frame)}, paired by seed"
    return Table("comparisons", caption, note, columns, rows)


def _compared(row: Row) -> list[Cell]:
    verdict = "yes" if row["claimed"] else f"no: {row['reason']}"
    chances = [Cell(probability(row[name])) for name in ("p", "p_holm")]
    return [Cell(str(row["depth"]), scope="row"), interval(row), *chances, Cell(verdict)]


def _trends(df: pd.DataFrame, compare: Mapping[str, Any]) -> Table | None:
    metric = compare.get("metric") or comparisons.METRIC
    parts = [comparisons.trend(df, pair, metric) for pair in comparisons.pairs_of(df, compare)]
    parts = [part for part in parts if len(part)]
    if not parts:
        return None
    frame = pd.concat(parts, ignore_index=True)
    swept = swept_in(frame, [*PANEL, "metric"])
    columns = [*headings(swept), "rules", "slope", "p"]
    rows = list(grouped(frame, [*swept, "label", "reference"], _sloped))
    caption = f"Change of the difference in {_metric(frame)} with each doubling of depth"
    note = _of_seeds(frame, "Slope of each seed, then mean")
    return Table("comparisons", caption, note, columns, rows)


def _sloped(row: Row) -> list[Cell]:
    return [interval(row, "slope"), Cell(probability(row["p"]))]


def _matched(df: pd.DataFrame) -> Table | None:
    """The gap where widths were chosen to match parameter counts."""
    parts = [matched_gap.gap_rows(df, pair, "train_loss") for pair in matched_gap.pairs(df)]
    parts = [part for part in parts if len(part)]
    if not parts or df["parameter_target"].isna().all():
        return None
    frame = matched_gap.at_horizon(matched_gap.summarise(pd.concat(parts, ignore_index=True)))
    frame = frame[frame["contract"].str.startswith(matched_gap.MATCHED)]
    columns, rows = over_depth(frame, {
        "{label} − {reference}": _ends("gap_{}"),
        "units a layer": lambda row: Cell(str(row["width"])),
        "parameters": lambda row: Cell(f"{row['parameter_count']:,}"),
    })  # fmt: skip
    note = _of_seeds(frame.assign(n=frame["init_seeds"]))
    caption = "Gap in train loss at the last step, at matched parameter counts"
    return Table("gap_vs_depth", caption, note, columns, rows)
