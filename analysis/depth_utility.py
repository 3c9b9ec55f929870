"""Whether the teaching signal reaches early layers: alignment over depth, and layer by layer."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis import captions, lines, scales, stats
from analysis.figure import Plot, finish, label_outer, rule_handles, sheet
from analysis.outcomes import counts, evaluated
from analysis.style import Look, looks
from analysis.trials import CELL, GROUP, layers, widths

SPLIT = [*GROUP, "widths"]
"""The columns whose values each have a figure of their own."""

_INTERVAL = ["mean", "low", "high", "n"]
_CHANCE = "chance (fresh feedback)"
_GREY = "0.88"


def early_third(alignment: Any) -> float:
    """The mean over the first third of the hidden layers, at least one; NaN if none is known.

    Layers without a value (a silent signal has no direction) are left out.
    """
    values = np.asarray([] if alignment is None else alignment, dtype=float)
    first = values[: max(1, len(values) // 3)]
    known = first[np.isfinite(first)]
    return float(known.mean()) if known.size else np.nan


def summarise(df: pd.DataFrame) -> pd.DataFrame:
    """One row a cell: early-third alignment and that of layer 1, with intervals and counts.

    `n` counts the init seeds with a signal, `silent` the networks with a layer that has none.
    Lost networks have no alignment and no substitute: they are counted only. `chance` is the
    half width of the band about 0 that holds the early third of 95 % of fresh feedback.
    """
    rows = _with_alignment(evaluated(df))
    band = rows.groupby(CELL)["chance"].agg(_band).astype(float).reset_index()
    about = rows.groupby(CELL).agg(
        rule=("rule", "first"), widths=("widths", "first"), silent=("silent", "sum")
    )
    cells = counts(rows, CELL).merge(about.reset_index(), on=CELL)
    early = stats.cell_means(rows, "early_third")[[*CELL, *_INTERVAL]]
    first = stats.cell_means(rows, "layer_1")[[*CELL, *_INTERVAL]]
    first = first.rename(columns={name: f"layer_1_{name}" for name in _INTERVAL})
    found = cells.merge(early, on=CELL, how="left").merge(first, on=CELL, how="left")
    found = found.merge(band, on=CELL, how="left")
    return found.fillna({"n": 0, "layer_1_n": 0}).astype({"n": "Int64", "layer_1_n": "Int64"})


def _with_alignment(rows: pd.DataFrame) -> pd.DataFrame:
    lists = [[np.nan] if values is None else values for values in rows["alignment"]]
    values = [np.asarray(row, dtype=float) for row in lists]
    return rows.assign(
        widths=widths(rows),
        early_third=[early_third(row) for row in values],
        layer_1=[row[0] for row in values],
        chance=[_of_mean(row) for row in _chances(rows)],
        silent=rows["alignment"].notna() & np.array([np.isnan(row).any() for row in values], bool),
    )


def _chances(rows: pd.DataFrame) -> list[Any]:
    """The deviations by chance of each network; None where they were not measured."""
    known = "alignment_chance" in rows
    return rows["alignment_chance"].tolist() if known else [None] * len(rows)


def _of_mean(deviations: Any) -> float:
    """The deviation of the early third's mean: each layer has feedback of its own."""
    values = np.asarray([] if deviations is None else deviations, dtype=float)
    first = values[: max(1, len(values) // 3)]
    known = first[np.isfinite(first)]
    return float(np.sqrt(np.square(known).sum()) / known.size) if known.size else np.nan


def _band(deviations: pd.Series) -> float:
    """The half width of the 95 % band about 0, over the networks whose deviation is known."""
    known = deviations.dropna()
    return 1.96 * float(np.sqrt(known.pow(2).mean())) if len(known) else np.nan


def profile(df: pd.DataFrame) -> pd.DataFrame:
    """One row a cell and hidden layer: mean alignment, interval, n (init seeds) and `chance`."""
    rows, keys = evaluated(df), [*CELL, "layer"]
    means = stats.cell_means(layers(rows), "alignment", keys)
    by_chance = layers(rows.assign(chance=_chances(rows)), "chance")
    band = by_chance.groupby(keys)["chance"].agg(_band).astype(float).reset_index()
    return means.merge(band, on=keys, how="left")


def draw(
    summary: pd.DataFrame, df: pd.DataFrame, ax: Axes, of: Mapping[str, Look] | None = None
) -> None:
    """Early-third alignment over depth: a line a rule, intervals, a dot for every init seed.

    Backpropagation, whose alignment is 1 by definition, is a reference line.
    """
    seen = summary[summary["n"].gt(0) & summary["rule"].ne("bp")].assign(at_edge=False)
    of = of or looks(df["label"])
    dots = stats.seed_means(_with_alignment(evaluated(df)), "early_third")
    dots = dots.merge(seen[CELL], on=CELL).rename(columns={"early_third": "value"})
    if len(seen):
        lines.over_depth(ax, seen, dots, of)
    _draw_chance(ax, seen, "depth")
    _draw_reference(ax, summary, of)
    _limit(ax, [*seen["low"], *dots["value"], *-seen["chance"]])
    ax.set_ylabel("early-third alignment")


def draw_profile(means: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """Alignment over hidden layers at one depth, the input side first."""
    depth = int(means["depth"].iloc[0])
    lines.with_bands(ax, means, "layer", of)
    scales.layer_axis(ax, depth)
    _draw_chance(ax, means, "layer")
    ax.set_title(f"depth {depth}")


def _draw_chance(ax: Axes, means: pd.DataFrame, x: str) -> None:
    """The band of chance over the whole panel: at each place the widest of the rules'."""
    widest = means.groupby(x)["chance"].max().dropna()
    if widest.empty:
        return
    ends = ax.get_xlim()
    places = np.array([ends[0], *widest.index, ends[1]], dtype=float)
    half = widest.to_numpy(dtype=float)[[0, *range(len(widest)), -1]]
    ax.fill_between(places, -half, half, color=_GREY, linewidth=0, zorder=0.5)
    ax.set_xlim(ends)


def _draw_reference(ax: Axes, summary: pd.DataFrame, of: Mapping[str, Look]) -> None:
    for label in summary.loc[summary["rule"].eq("bp"), "label"].unique():
        ax.axhline(1, color=of[label].color, linestyle="--", label=label, zorder=1)


def _limit(ax: Axes, values: Iterable[float]) -> None:
    """From 0 to 1, and below 0 as far as the data go; a cosine is never below -1."""
    lowest = max(float(np.nanmin([0.0, *values])), -1.0)
    ax.set_ylim(lowest - 0.05 if lowest < 0 else 0.0, 1.05)


def figure(df: pd.DataFrame, of: Mapping[str, Look], note: str = "") -> Plot | None:
    """Early-third alignment over depth, and below it a profile a depth; None without signals."""
    summary = summarise(df)
    seen = summary[summary["n"].gt(0) & summary["rule"].ne("bp")]
    if seen.empty:
        return None
    by_layer = profile(df)
    depths = sorted(seen["depth"].unique())
    fig, [[top], panels] = sheet(1, len(depths))
    draw(summary, df, top, of)
    shown = by_layer[by_layer["label"].isin(seen["label"])]
    for ax, depth in zip(panels, depths, strict=True):
        draw_profile(shown[shown["depth"].eq(depth)], ax, of)
        _draw_reference(ax, summary, of)
    _limit(panels[0], [*shown["mean"], *shown["low"], *-shown["chance"]])
    label_outer(panels, "hidden layer", "alignment")
    finish(fig, captions.title(df), _handles(summary, seen, of), [note, *_sentences(summary)])
    return Plot(fig, _numbers(summary, by_layer))


def _handles(
    summary: pd.DataFrame, seen: pd.DataFrame, of: Mapping[str, Look]
) -> dict[str, Artist]:
    references = summary.loc[summary["rule"].eq("bp"), "label"].unique()
    dashed = {name: Line2D([], [], color=of[name].color, linestyle="--") for name in references}
    grey = {_CHANCE: Patch(color=_GREY, linewidth=0)} if seen["chance"].notna().any() else {}
    return {**dashed, **rule_handles(of, seen["label"]), **grey}


def _sentences(summary: pd.DataFrame) -> list[str]:
    others = summary[summary["rule"].ne("bp")]
    with_signal = others.groupby("label", sort=False)["n"].sum().gt(0)
    silent = int(others.loc[others["n"].gt(0), "silent"].sum())
    return [
        "Cosine of signal and negative gradient.",
        f"{captions.means(others['n'], 'bars, bands')}; dots: seeds.",
        "bp is 1 by definition." if len(others) < len(summary) else "",
        "Grey: 95 % of draws of fresh feedback." if others["chance"].notna().any() else "",
        captions.named("No signal", with_signal.index[~with_signal]),
        f"{silent} networks have a silent layer, left out of the means." if silent else "",
        captions.lost(summary, "without alignment, left out"),
    ]


def _numbers(summary: pd.DataFrame, by_layer: pd.DataFrame) -> pd.DataFrame:
    """The plotted numbers, one row a mark; rules without a signal are there with n = 0."""
    early = summary.assign(layer="early third")
    single = by_layer.assign(layer=by_layer["layer"].astype("string"))
    return pd.concat([early, single], ignore_index=True)
