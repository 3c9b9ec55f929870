"""How well each rule does at each depth: the summary, its figure, and the printed table."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis import captions, lines, scales, stats
from analysis.figure import Plot, finish, label_outer, rule_handles, sheet
from analysis.outcomes import counts, evaluated, metric_of
from analysis.style import Look, looks
from analysis.trials import CELL, GROUP, at_edge, widths

SPLIT = GROUP
"""The columns whose values each have a figure of their own."""

_PANEL = [*GROUP, "widths"]
_SUMMARY = [
    *_PANEL, "label", "depth", "width", "metric", "mean", "low", "high", "n", "networks",
    "diverged", "failed", "pending", "lr", "at_edge",
]  # fmt: skip
_GAP = {
    "mean": "gap", "low": "gap_low", "high": "gap_high", "n": "gap_n", "p": "gap_p",
    "p_holm": "gap_p_holm",
}  # fmt: skip
_LOST = ("diverged", "failed", "pending")


def summarise(df: pd.DataFrame, metric: str = "test_accuracy") -> pd.DataFrame:
    """One row a cell: the mean of `metric` over init seeds, its interval, counts and the rate.

    Evaluation rows only; lost networks count with their substitutes. `widths` names the line
    that the cell belongs to. A data set without the metric has a loss in its place; the column
    `metric` says which.
    """
    rows = evaluated(df)
    rows = rows.assign(widths=widths(rows), at_edge=at_edge(rows))
    if rows.empty:
        return pd.DataFrame(columns=_SUMMARY)
    parts = [_summary(part, metric_of(part, metric)) for _, part in rows.groupby("dataset")]
    return pd.concat(parts, ignore_index=True)


def _summary(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    chosen = rows.groupby(CELL).agg(
        widths=("widths", "first"), lr=("lr", "first"), at_edge=("at_edge", "any")
    )
    cells = counts(rows, CELL).merge(chosen.reset_index(), on=CELL)
    cells = cells.merge(stats.cell_means(rows, metric), on=CELL, how="left")
    cells = cells.assign(metric=metric, n=cells["n"].fillna(0).astype("Int64"))
    order = {label: i for i, label in enumerate(rows["label"].unique())}
    line = pd.to_numeric(cells["widths"], errors="coerce")  # 64 before 128, unlike their texts
    ranked = cells.assign(line=line, rank=cells["label"].map(order))
    return ranked.sort_values([*GROUP, "line", "rank", "depth"])[_SUMMARY]


def draw(
    summary: pd.DataFrame, df: pd.DataFrame, ax: Axes, of: Mapping[str, Look] | None = None
) -> None:
    """One panel: a line a rule over depth, intervals, and a dot for every init seed.

    `summary` holds the rows of one panel, `df` the trials behind them, `of` the looks. Means
    whose learning rate lies at the edge of its range are hollow.
    """
    seen = summary[summary["n"].gt(0)]
    metric = seen["metric"].iloc[0]
    dots = stats.seed_means(evaluated(df), metric).merge(seen[CELL], on=CELL)
    lines.over_depth(ax, seen, dots.rename(columns={metric: "value"}), of or looks(df["label"]))
    ax.set_ylabel(metric.replace("_", " "))


def figure(df: pd.DataFrame, of: Mapping[str, Look], note: str = "") -> Plot | None:
    """The figure of one data set and kind of network: a panel a width; None without results."""
    summary = summarise(df)
    seen = summary[summary["n"].gt(0)]
    if seen.empty:
        return None
    panels = seen["widths"].unique()
    fig, [axes] = sheet(len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        draw(seen[seen["widths"].eq(panel)], df, ax, of)
        ax.set_title(f"width {panel}" if len(panels) > 1 else "")
    metric = seen["metric"].iloc[0]
    label_outer(axes, "depth" if len(axes) > 1 else scales.DEPTH, metric.replace("_", " "))
    handles = rule_handles(of, seen["label"]) | _edge_handle(seen)
    sentences = [
        note,
        f"{captions.means(seen['n'])}; dots: seeds.",
        captions.lost(summary, captions.substituted(metric)),
    ]
    finish(fig, captions.title(df), handles, sentences)
    return Plot(fig, summary)


def _edge_handle(summary: pd.DataFrame) -> dict[str, Line2D]:
    if not summary["at_edge"].any():
        return {}
    hollow = Line2D([], [], color="black", marker="o", mfc="white", linestyle="")
    return {"rate at edge of range": hollow}


def summary_table(
    df: pd.DataFrame, metric: str = "test_accuracy", reference: str = "bp"
) -> pd.DataFrame:
    """The rows of `summarise` with each rule's gap to the reference at the same place.

    The gap is paired by init seed: `gap`, `gap_low`, `gap_high`, `gap_n`, its sign-flip `gap_p`
    and that adjusted by Holm over the table (`gap_p_holm`). The reference has none, nor has a
    place where the reference is missing.
    """
    summary = summarise(df, metric)
    others = [label for label in summary["label"].unique() if label != reference]
    pairs = [(label, reference) for label in others]
    if not pairs:
        return summary.assign(reference=reference, **dict.fromkeys(_GAP.values(), np.nan))
    parts = [
        stats.compare(evaluated(df[df["dataset"].eq(dataset)]), part["metric"].iloc[0], pairs)
        for dataset, part in summary.groupby("dataset")
    ]
    gaps = pd.concat(parts, ignore_index=True)
    gaps = gaps.assign(p_holm=stats.holm(gaps["p"]))[[*CELL, *_GAP]].rename(columns=_GAP)
    return summary.assign(reference=reference).merge(gaps, on=CELL, how="left")


def as_text(table: pd.DataFrame) -> pd.DataFrame:
    """The table to print: a row a rule and one for its gap beneath it, a column a depth.

    Cells read `.812 [.800, .824] n=5`, gaps `-.031 [-.040, -.022]`. Of the columns that lead,
    those that the study does not sweep are left out.
    """
    swept = [name for name in _PANEL if len(table[name].unique()) > 1]
    rows: list[dict[str, str]] = []
    for _, line in table.groupby([*_PANEL, "label"], sort=False):
        lead = {name: str(line[name].iloc[0]) for name in swept}
        rows += _text_rows(lead, line)
    depths = [str(depth) for depth in sorted(table["depth"].unique())]
    return pd.DataFrame(rows, columns=[*swept, "rule", *depths]).fillna("")


def _text_rows(lead: dict[str, str], line: pd.DataFrame) -> list[dict[str, str]]:
    """The rule's row and, where it is compared with a reference, that of its gap."""
    cells = line.to_dict("records")
    mean = {str(cell["depth"]): _mean_text(cell) for cell in cells}
    gap = {str(cell["depth"]): _gap_text(cell) for cell in cells if pd.notna(cell["gap"])}
    rows = [lead | {"rule": cells[0]["label"]} | mean]
    if gap:
        rows.append(dict.fromkeys(lead, "") | {"rule": f"  - {cells[0]['reference']}"} | gap)
    return rows


def _mean_text(cell: Mapping[Hashable, Any]) -> str:
    if not cell["n"]:
        return next((state for state in ("pending", "failed") if cell[state]), "")
    words = [_interval_text(cell, "mean", "low", "high"), f"n={cell['n']}"]
    words += [f"{cell[state]} {state}" for state in _LOST if cell[state]]
    return " ".join([*words, "edge"] if cell["at_edge"] else words)


def _gap_text(cell: Mapping[Hashable, Any]) -> str:
    return _interval_text(cell, "gap", "gap_low", "gap_high", sign="+")


def _interval_text(cell: Mapping[Hashable, Any], *names: str, sign: str = "") -> str:
    mean, low, high = (_number(cell[name], sign) for name in names)
    return f"{mean} [{low}, {high}]" if low else mean


def _number(value: float, sign: str) -> str:
    """Three decimals without the zero before the point; nothing for NaN."""
    if np.isnan(value):
        return ""
    text = f"{value:{sign}.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text
