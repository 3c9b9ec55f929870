"""What hidden layers make linearly readable: ridge probes beside the accuracy of the network."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from analysis import captions, lines, stats
from analysis.depth_utility import early_third
from analysis.figure import Plot, finish, label_outer, rule_handles, sheet
from analysis.outcomes import counts, evaluated
from analysis.style import Look
from analysis.trials import CELL, GROUP, NETWORK, widths

SPLIT = [*GROUP, "widths"]
"""The columns whose values each have a figure of their own."""

_INTERVAL = ["mean", "low", "high", "n"]
_UNTRAINED: dict[str, Any] = {"color": "0.6", "linestyle": (0, (4, 1.5)), "linewidth": 1.1}
_END: dict[str, Any] = {"linestyle": "", "mec": "black", "mew": 0.6, "ms": 3.6, "zorder": 4}


def by_layer(df: pd.DataFrame) -> pd.DataFrame:
    """One row an evaluated network and layer: `trained`, `untrained`, and `gain`, the difference.

    Layer 0 is the input, which training does not touch. Networks without probes (regression,
    or lost) have no rows; what was not measured is NaN.
    """
    rows = _probed(df)
    names = ("probe_accuracy_input", "probe_accuracy", "probe_accuracy_untrained")
    lists = [_with_input(*values) for values in zip(*(rows[name] for name in names), strict=True)]
    columns = ["layer", "trained", "untrained"]
    values = pd.DataFrame(lists, rows.index, columns, dtype=object)
    long = pd.concat([rows[NETWORK], values], axis="columns")
    long = long.explode(columns, ignore_index=True)
    long = long.astype({"layer": "Int64", "trained": "float64", "untrained": "float64"})
    return long.assign(gain=long["trained"] - long["untrained"])


def _with_input(given: float, trained: Any, untrained: Any) -> tuple[list[Any], ...]:
    """The layers from 0, the input, and the two networks' accuracies there."""
    layers = range(len(trained) + 1)
    before = [np.nan for _ in layers] if untrained is None else [given, *untrained]
    return list(layers), [given, *trained], before


def _probed(df: pd.DataFrame) -> pd.DataFrame:
    """The evaluated networks that have probes, with the gain of their early third."""
    rows = evaluated(df)
    rows = rows[rows["probe_accuracy"].notna()]
    pairs = zip(rows["probe_accuracy"], rows["probe_accuracy_untrained"], strict=True)
    return rows.assign(early_gain=[_early_gain(*pair) for pair in pairs])


def _early_gain(trained: Any, untrained: Any) -> float:
    if untrained is None:
        return np.nan
    return early_third(np.asarray(trained, dtype=float) - np.asarray(untrained, dtype=float))


def summarise(df: pd.DataFrame) -> pd.DataFrame:
    """One row a cell and layer: mean probe accuracy over init seeds, its interval and n.

    The same of the untrained networks of these seeds (`untrained_mean`, ...), of the paired
    differences (`gain_mean`, ...), and, once a cell, of the test accuracy of the networks
    themselves (`end_to_end_mean`, ...). Lost networks have no probes and are left out of all.
    """
    long, keys = by_layer(df), [*CELL, "layer"]
    found = _means(long, "trained", keys)
    for name in ("untrained", "gain"):
        found = found.merge(_means(long, name, keys, f"{name}_"), on=keys, how="left")
    whole = _means(_probed(df), "test_accuracy", CELL, "end_to_end_")
    found = found.merge(whole, on=CELL, how="left")
    whole_numbers = ("untrained_n", "gain_n", "end_to_end_n")
    return found.astype(dict.fromkeys(whole_numbers, "Int64"))


def _means(rows: pd.DataFrame, value: str, by: list[str], prefix: str = "") -> pd.DataFrame:
    means = stats.cell_means(rows, value, by)[[*by, *_INTERVAL]]
    return means.rename(columns={name: f"{prefix}{name}" for name in _INTERVAL})


def early_gain(df: pd.DataFrame) -> pd.DataFrame:
    """One row a cell: what training adds to the probes of the first third of the layers.

    The mean over init seeds of the difference to the untrained network of the same seed, its
    interval and n; and how many networks are wanted, lost or pending.
    """
    rows = evaluated(df)
    lines_of = rows.assign(widths=widths(rows)).groupby(CELL)["widths"].first().reset_index()
    found = counts(rows, CELL).merge(lines_of, on=CELL)
    found = found.merge(_means(_probed(df), "early_gain", CELL), on=CELL, how="left")
    return found.assign(n=found["n"].fillna(0).astype("Int64"))


def untrained(df: pd.DataFrame) -> pd.DataFrame:
    """One row a place and layer: the untrained networks' probes, which rules of a seed share."""
    return _means(by_layer(df), "untrained", [*stats.PLACE, "layer"])


def draw(gains: pd.DataFrame, df: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """The gain of the early third over depth: a line a rule, intervals, a dot a seed."""
    seen = gains[gains["n"].gt(0)].assign(at_edge=False)
    dots = stats.seed_means(_probed(df), "early_gain").rename(columns={"early_gain": "value"})
    lines.over_depth(ax, seen, dots, of)
    ax.axhline(0, zorder=1, **_UNTRAINED)
    ax.set_ylabel("early-third probe gain")


def draw_profile(
    means: pd.DataFrame, before: pd.DataFrame, ax: Axes, of: Mapping[str, Look]
) -> None:
    """Probe accuracy at one depth from the input to the last hidden layer, then the network's.

    `means` are the rows of `summarise`, `before` those of `untrained`.
    """
    depth = int(means["depth"].iloc[0])
    out = _out(depth)
    ax.plot(before["layer"].to_numpy(dtype=float), before["mean"], **_UNTRAINED)
    lines.with_bands(ax, means, "layer", of)
    whole = means.groupby("label")["end_to_end_mean"].first()
    for label, value in whole.dropna().items():
        look = of[str(label)]
        ax.plot(out, value, look.marker, color=look.color, **_END)
    ax.set_xlim(-0.04 * out, 1.06 * out)
    inner = _inner_ticks(depth)
    ax.xaxis.set_major_locator(FixedLocator([0, *inner, out]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels(["in", *map(str, inner), "out"])
    ax.set_title(f"depth {depth}")


def _out(depth: int) -> float:
    """Where the accuracies of the networks themselves stand: apart from the last layer."""
    return depth + max(1.0, 0.15 * depth)


def _inner_ticks(depth: int) -> list[int]:
    if depth <= 3:
        return list(range(1, depth + 1))
    return [round(depth / 2)] if depth < 6 else [round(depth / 3), round(2 * depth / 3)]


def figure(df: pd.DataFrame, of: Mapping[str, Look], note: str = "") -> Plot | None:
    """The early third's gain over depth, and below it a profile a depth; None without probes.

    Without probes of untrained networks there are only the profiles.
    """
    summary, gains, before = summarise(df), early_gain(df), untrained(df)
    if summary.empty:
        return None
    depths = sorted(summary["depth"].unique())
    wide = [1] if gains["n"].gt(0).any() else []
    fig, sections = sheet(*wide, len(depths))
    if wide:
        draw(gains, df, sections[0][0], of)
    for ax, depth in zip(sections[-1], depths, strict=True):
        means, grey = (frame[frame["depth"].eq(depth)] for frame in (summary, before))
        draw_profile(means, grey, ax, of)
    label_outer(sections[-1], "hidden layer", "probe accuracy")
    finish(fig, captions.title(df), _handles(summary, of), [note, *_sentences(summary, gains)])
    return Plot(fig, _numbers(summary, gains))


def _handles(summary: pd.DataFrame, of: Mapping[str, Look]) -> dict[str, Artist]:
    grey = {"untrained": Line2D([], [], **_UNTRAINED)}
    known = summary["untrained_n"].notna().any()
    return {**rule_handles(of, summary["label"]), **(grey if known else {})}


def _sentences(summary: pd.DataFrame, gains: pd.DataFrame) -> list[str]:
    known = summary["untrained_n"].notna().any()
    marks = "bars, bands" if known else "bands"
    return [
        "Accuracy of ridge probes on the input (in) and hidden layers; out: that of the network.",
        "Gain: trained minus untrained, mean of the first third of the layers." if known else "",
        f"{captions.means(summary['n'], marks)}{'; dots: seeds' if known else ''}.",
        captions.lost(gains, "without probes, left out"),
    ]


def _numbers(summary: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """The plotted numbers, one row a mark of a line."""
    early = gains[gains["n"].gt(0)].assign(quantity="early-third gain")
    return pd.concat([early, summary.assign(quantity="probe accuracy")], ignore_index=True)
