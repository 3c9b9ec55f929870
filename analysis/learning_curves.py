"""How rules get there: accuracy or loss, and early-third alignment, over the steps of training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import captions, lines, scales, stats
from analysis.depth_utility import early_third
from analysis.figure import Plot, finish, label_outer, rule_handles, sheet
from analysis.outcomes import counts, evaluated, floor, metric_of
from analysis.style import Look
from analysis.trials import CELL, GROUP

SPLIT = [*GROUP, "widths"]
"""The columns whose values each have a figure of their own."""

ALIGNMENT = "early_third_alignment"


def summarise(df: pd.DataFrame, metric: str = "test_accuracy") -> pd.DataFrame:
    """One row a cell, quantity and recorded step: mean over init seeds, interval and n.

    The quantities are `metric`, or a loss where there is none, and the early-third alignment.
    From the step at which it diverged, a network counts with its substitute; a failed one
    throughout. Neither has an alignment.
    """
    rows = evaluated(df)
    chosen = metric_of(rows, metric)
    steps = sorted({step for recorded in rows["curve_step"].dropna() for step in recorded})
    worst = floor(rows, chosen)
    scores = [
        _score(row, steps, chosen, value)
        for row, value in zip(rows.to_dict("records"), worst, strict=True)
    ]
    aligned = [_aligned(row, steps) for row in rows.to_dict("records")]
    parts = [_means(rows, steps, scores, chosen), _means(rows, steps, aligned, ALIGNMENT)]
    return pd.concat(parts, ignore_index=True)


def _score(row: Mapping[Any, Any], steps: list[int], metric: str, worst: float) -> list[float]:
    """The network's curve on `steps`, with what it counts as where it has left its bounds."""
    known = _at_steps(row, f"curve_{metric}")
    values = [float(known.get(step, np.nan)) for step in steps]
    if row["status"] not in ("diverged", "failed"):
        return values
    end = 0 if pd.isna(row["diverged_step"]) else row["diverged_step"]
    return [
        value if step <= end and np.isfinite(value) else worst
        for step, value in zip(steps, values, strict=True)
    ]


def _aligned(row: Mapping[Any, Any], steps: list[int]) -> list[float]:
    known = _at_steps(row, "curve_alignment")
    return [early_third(known.get(step)) for step in steps]


def _at_steps(row: Mapping[Any, Any], column: str) -> dict[int, Any]:
    if row["curve_step"] is None or row[column] is None:
        return {}
    return dict(zip(row["curve_step"], row[column], strict=True))


def _means(
    rows: pd.DataFrame, steps: list[int], values: list[list[float]], quantity: str
) -> pd.DataFrame:
    keys = [*CELL, "rule", "init_seed"]
    parts = [
        rows[keys].assign(step=step, value=[curve[i] for curve in values])
        for i, step in enumerate(steps)
    ]
    long = pd.concat([rows[keys].head(0).assign(step=0, value=0.0), *parts])
    return stats.cell_means(long, "value", [*CELL, "rule", "step"]).assign(quantity=quantity)


def draw(summary: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """One quantity at one depth over steps: a line a rule in the band of its interval."""
    lines.with_bands(ax, summary, "step", of)
    scales.step_axis(ax)


def figure(df: pd.DataFrame, of: Mapping[str, Look], note: str = "") -> Plot | None:
    """Panels of depths for accuracy, then for alignment where it was recorded; None without."""
    summary = summarise(df)
    if summary.empty:
        return None
    quantities = summary["quantity"].unique()
    depths = sorted(summary["depth"].unique())
    fig, sections = sheet(*[len(depths)] * len(quantities))
    for axes, quantity in zip(sections, quantities, strict=True):
        part = summary[summary["quantity"].eq(quantity)]
        for ax, depth in zip(axes, depths, strict=True):
            draw(part[part["depth"].eq(depth)], ax, of)
            ax.set_title(f"depth {depth}")
        label_outer(axes, "step", quantity.removeprefix("early_third_").replace("_", " "))
    sentences = [
        note,
        f"{captions.means(summary['n'], 'bands')}.",
        "Alignment: of the first third of the layers." if ALIGNMENT in quantities else "",
        captions.lost(counts(evaluated(df), CELL), captions.substituted(quantities[0])),
    ]
    finish(fig, captions.title(df), rule_handles(of, summary["label"]), sentences)
    return Plot(fig, summary)
