"""How the gap between rules moves over training, also as a part of the reference's progress."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from analysis import captions, lines, scales
from analysis.figure import Plot, finish, label_outer, sheet
from analysis.gap_vs_depth import difference, errors, lost_of, matching, rows_of, share_of, shown_of
from analysis.matched_gap import summarise
from analysis.outcomes import evaluated, metric_of
from analysis.style import Look
from analysis.trials import GROUP

SPLIT = GROUP
"""The columns whose values each have a figure of their own."""


def figure(
    df: pd.DataFrame, of: Mapping[str, Look], note: str = "", metric: str = "train_loss"
) -> Plot | None:
    """The gap at every recorded step, and as a part of the reference's progress: a line a depth.

    A panel a pair of rules and contract; None where nothing pairs.
    """
    rows = rows_of(df, metric_of(evaluated(df), metric))
    if rows.empty:
        return None
    summary = summarise(rows)
    shown = shown_of(summary)
    panels = list(shown.groupby(["label", "contract"], sort=False))
    of_depth = _depth_looks(shown)
    fig, sections = sheet(len(panels), len(panels))
    share = "gap / progress" + (f" of {shown['reference'].iloc[0]}" if len(panels) == 1 else "")
    names = {"gap": difference(shown, len(panels)), "gap_fraction": share}
    for axes, (quantity, name) in zip(sections, names.items(), strict=True):
        for ax, (_, panel) in zip(axes, panels, strict=True):
            draw(panel, ax, of_depth, quantity)
            ax.set_title(_panel_name(panel, shown) if quantity == "gap" else "")
        label_outer(axes, "step", name)
    sentences = [note, matching(shown), errors(shown, "bands"), lost_of(df, summary)]
    handles = {name: look.handle() for name, look in of_depth.items()}
    finish(fig, captions.title(df), handles, sentences)
    return Plot(fig, summary)


def draw(panel: pd.DataFrame, ax: Axes, of: Mapping[str, Look], quantity: str = "gap") -> None:
    """One pair under one contract over steps: a line a depth in the band of its standard error."""
    mean, sem = panel[f"{quantity}_mean"], panel[f"{quantity}_sem"]
    ax.axhline(0, color="0.75", lw=0.6, zorder=1)
    means = panel.assign(label=_depth_names(panel), mean=mean, low=mean - sem, high=mean + sem)
    lines.with_bands(ax, means, "step", of)
    scales.step_axis(ax)
    ax.set_xlim(-0.03 * panel["step"].max(), 1.03 * panel["step"].max())


def _panel_name(panel: pd.DataFrame, shown: pd.DataFrame) -> str:
    """The pair and the contract, as far as they differ between panels."""
    label, contract = str(panel["label"].iloc[0]), str(panel["contract"].iloc[0])
    alone = len(shown["label"].unique()) == 1
    if len(shown["contract"].unique()) > 1:
        return contract if alone else f"{label}, {contract}"
    return share_of(panel) if alone else f"{label} − {panel['reference'].iloc[0]}"


def _depth_names(summary: pd.DataFrame) -> pd.Series:
    return "depth " + summary["depth"].astype("string")


def _depth_looks(summary: pd.DataFrame) -> dict[str, Look]:
    """A look a depth, from dark to light."""
    names = _depth_names(summary.sort_values("depth")).unique()
    shade = mpl.colormaps["viridis"]
    return {
        name: Look(to_hex(shade(0.85 * i / max(len(names) - 1, 1))), "o")
        for i, name in enumerate(names)
    }
