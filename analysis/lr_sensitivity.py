"""How much the learning rate matters: the tuning score over rates, and the chosen ones."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from analysis import captions, scales, stats
from analysis.figure import Plot, finish, label_outer, rule_handles, sheet
from analysis.outcomes import LOSSES, counts, substitute
from analysis.style import Look
from analysis.trials import CELL, GROUP, at_edge, widths

SPLIT = [*GROUP, "widths"]
"""The columns whose values each have a figure of their own."""

_POINT = [*CELL, "lr", "hyperparameters"]
_TOP = 0.96
_RING: dict[str, Any] = {"marker": "o", "mfc": "none", "ms": 6.5, "mew": 0.9, "linestyle": ""}
_SQUARE: dict[str, Any] = {
    "marker": "s",
    "mfc": "none",
    "ms": 7,
    "mew": 1.3,
    "linestyle": "",
    "color": "black",
}


def summarise(df: pd.DataFrame) -> pd.DataFrame:
    """One row a cell and tried point: the mean score over tuning seeds, counts, `chosen`.

    The score is what the study chooses by, and its name stands in `metric`. `searched` counts
    the values of a point: one, where only the rate was tuned. `start` is the loss before
    training. Lost networks count with their substitutes.
    """
    tuning = df[df["phase"].eq("tune")]
    rows = substitute(tuning.assign(widths=widths(tuning), at_edge=at_edge(tuning)))
    metric = str(rows["choose"].dropna().iloc[0]) if len(rows) else "validation_loss"
    about = rows.groupby(_POINT).agg(
        widths=("widths", "first"), chosen=("is_best", "any"), at_edge=("at_edge", "any"),
        start=("initial_loss", "mean"), lr_low=("lr_low", "first"), lr_high=("lr_high", "first"),
    )  # fmt: skip
    points = counts(rows, _POINT).merge(about.reset_index(), on=_POINT)
    points = points.merge(stats.cell_means(rows, metric, _POINT), on=_POINT, how="left")
    searched = [len(json.loads(text)) for text in points["hyperparameters"]]
    return points.assign(metric=metric, searched=searched, n=points["n"].fillna(0).astype("Int64"))


def edges(df: pd.DataFrame) -> pd.DataFrame:
    """The cells whose rate was searched and chosen: lr, lr_low, lr_high and `at_edge`.

    `at_edge` is true in the outer 5 % of the range, on a log scale: the best rate may lie
    outside, so the range should be widened before anything is claimed of the cell.
    """
    chosen = df[df["phase"].eq("evaluate") & df["lr"].notna() & df["lr_low"].notna()]
    rows = chosen.assign(at_edge=at_edge(chosen))
    found = rows[[*CELL, "lr", "lr_low", "lr_high", "at_edge"]].drop_duplicates()
    return found.reset_index(drop=True)


def draw(summary: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """The scores at one depth: a line a rule over rates, where every seed finished.

    Rates at which a network was lost are crosses at the top. Rings mark chosen rates, squares
    around them those at the edge of the range. Points of rules with more searched values than
    the rate are not joined.
    """
    lost = summary[_is_lost(summary)]
    whole = summary[summary["n"].gt(0) & ~_is_lost(summary)]
    for label, look in of.items():
        points = whole[whole["label"].eq(label)].sort_values("lr")
        joined = "-" if points["searched"].le(1).all() else ""
        ax.plot(points["lr"], points["mean"], look.marker, ls=joined, color=look.color, label=label)
        _mark_chosen(ax, points, points["mean"].tolist(), look)
    above = ax.get_xaxis_transform()
    labels = [label for label in of if label in set(lost["label"])]
    for height, label in zip(_heights(len(labels)), labels, strict=True):
        points = lost[lost["label"].eq(label)]
        ax.plot(points["lr"], [height] * len(points), "x", color=of[label].color, transform=above)
        _mark_chosen(ax, points, [height] * len(points), of[label], transform=above)
    scales.log_ticks(ax, "x")


def _heights(count: int) -> NDArray[np.float64]:
    """Where the crosses of each rule stand: fractions of a panel, in at most its upper half."""
    return np.linspace(_TOP, _TOP - min(0.07 * (count - 1), 0.45), count)


def _is_lost(summary: pd.DataFrame) -> pd.Series:
    return summary["diverged"].add(summary["failed"]).gt(0)


def _mark_chosen(
    ax: Axes, points: pd.DataFrame, heights: list[float], look: Look, **place: Any
) -> None:
    chosen, edge = points["chosen"].to_numpy(bool), points["at_edge"].to_numpy(bool)
    x, y = points["lr"].to_numpy(), np.asarray(heights)
    ax.plot(x[chosen], y[chosen], color=look.color, **_RING, **place)
    ax.plot(x[chosen & edge], y[chosen & edge], **_SQUARE, **place)


def figure(df: pd.DataFrame, of: Mapping[str, Look], note: str = "") -> Plot | None:
    """The figure of one data set and kind of network: a panel a depth; None without tuning."""
    summary = summarise(df)
    seen = summary[summary["n"].gt(0)]
    if seen.empty:
        return None
    depths = sorted(seen["depth"].unique())
    fig, [axes] = sheet(len(depths))
    for ax, depth in zip(axes, depths, strict=True):
        draw(seen[seen["depth"].eq(depth)], ax, of)
        ax.set_title(f"depth {depth}")
    _limit(axes, seen)
    metric = seen["metric"].iloc[0]
    label_outer(axes, "learning rate", metric.replace("_", " "))
    sentences = [
        note,
        f"Mean over {captions.seeds(seen['n'], 'tuning')}.",
        _outside(axes, seen),
        captions.lost(summary, "their rates are marked at the top"),
    ]
    finish(fig, captions.title(df), rule_handles(of, seen["label"]) | _handles(seen), sentences)
    return Plot(fig, summary)


def _outside(axes: Sequence[Axes], seen: pd.DataFrame) -> str:
    """How many points lie above the panels."""
    above = int((seen["mean"].gt(axes[0].get_ylim()[1]) & ~_is_lost(seen)).sum())
    if not above:
        return ""
    return f"{above} of {len(seen)} points {'lies' if above == 1 else 'lie'} above the panels."


def _handles(seen: pd.DataFrame) -> dict[str, Line2D]:
    edge, lost = seen["chosen"] & seen["at_edge"], _is_lost(seen)
    marks = {
        "chosen": (seen["chosen"].any(), Line2D([], [], color="0.4", **_RING)),
        "chosen at edge": (edge.any(), Line2D([], [], **_SQUARE)),
        "diverged": (lost.any(), Line2D([], [], color="0.4", marker="x", linestyle="")),
    }
    return {name: handle for name, (present, handle) in marks.items() if present}


def _limit(axes: Sequence[Axes], seen: pd.DataFrame) -> None:
    """One y range for all panels: losses above the start's leave it, lost rates have room."""
    lost = seen[_is_lost(seen)]
    scores = seen.loc[~_is_lost(seen), "mean"]
    if scores.empty:
        return
    low, high = scores.min(), scores.max()
    if seen["metric"].iloc[0] in LOSSES:
        high = max(min(high, 1.05 * seen["start"].max()), low)
    is_log = low > 0 and high > 20 * low
    ends = np.log([low, high]) if is_log else np.array([low, high])
    span = np.ptp(ends) or 1.0
    taken = 1 - _heights(lost["label"].nunique()).min(initial=1) + 0.08
    ends += [-0.14 * span, span * 1.14 * taken / (1 - taken)]
    axes[0].set_ylim(*(np.exp(ends) if is_log else ends))
    if is_log:
        for ax in axes:
            scales.log_ticks(ax, "y")
