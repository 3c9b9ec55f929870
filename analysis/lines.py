"""The lines of rules in a panel: over depth with intervals and dots, or over an x with bands."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis import scales
from analysis.style import Look

_MOST_MARKERS = 12


def over_depth(ax: Axes, means: pd.DataFrame, dots: pd.DataFrame, of: Mapping[str, Look]) -> None:
    """A dodged line a rule, with its intervals, and its dots beside the means.

    `means` has label, depth, mean, low, high and at_edge (such means are hollow); `dots` has
    label, depth and value. A missing interval is not drawn.
    """
    scale = scales.DepthScale(tuple(means["depth"].unique().tolist()))
    labels = [label for label in of if label in set(means["label"])]
    beside = scales.SPREAD / max(len(labels), 1) / 2
    for label, share in zip(labels, scales.shares(len(labels)), strict=True):
        line = means[means["label"].eq(label)].sort_values("depth")
        _draw_line(ax, line, scale.dodged(line["depth"].tolist(), share), of[label])
        own = dots[dots["label"].eq(label)]
        x = scale.dodged(own["depth"].tolist(), share + beside)
        ax.plot(x, own["value"], ".", color=of[label].color, alpha=0.5, ms=3, mew=0, zorder=4)
    scale.label(ax)


def _draw_line(ax: Axes, line: pd.DataFrame, x: NDArray[np.float64], look: Look) -> None:
    label, color = line["label"].iloc[0], look.color
    y = line["mean"].to_numpy()
    edge = line["at_edge"].to_numpy(dtype=bool)
    known = line["low"].notna().to_numpy()
    ax.plot(x, y, color=color, label=label, zorder=2)
    ax.plot(x[~edge], y[~edge], look.marker, color=color, zorder=3)
    ax.plot(x[edge], y[edge], look.marker, color=color, mfc="white", zorder=3)
    ax.vlines(x[known], line["low"][known], line["high"][known], color=color, lw=0.9, zorder=2)


def with_bands(ax: Axes, means: pd.DataFrame, x: str, of: Mapping[str, Look]) -> None:
    """A line a rule over the column `x`, in a band that is its interval where it has one."""
    for label, look in of.items():
        line = means[means["label"].eq(label) & means["mean"].notna()].sort_values(x)
        if line.empty:
            continue
        places = line[x].to_numpy(dtype=float)
        marker = look.marker if len(line) <= _MOST_MARKERS else ""
        ax.plot(places, line["mean"], marker=marker, ms=2.2, color=look.color, label=label)
        low, high = (line[bound].fillna(line["mean"]) for bound in ("low", "high"))
        ax.fill_between(places, low, high, color=look.color, alpha=0.2, linewidth=0)
