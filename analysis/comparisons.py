"""The comparisons that a study declares: paired differences, what may be claimed, and trends."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis import captions, lines, scales, stats
from analysis.depth_utility import early_third
from analysis.figure import Plot, finish, label_outer, rule_handles, sheet
from analysis.outcomes import counts, evaluated, metric_of
from analysis.style import Look
from analysis.trials import CELL, GROUP, at_edge, widths

SPLIT = GROUP
"""The columns whose values each have a figure of their own."""

METRIC = "test_loss"
"""What rules are compared by where the study does not say."""

Pair = tuple[str, str]

_STATES = ["networks", "diverged", "failed", "pending"]
_ABOUT = ["lr", "at_edge", *_STATES]
_TABLE = [
    *GROUP, "widths", "label", "reference", "depth", "width", "metric", "mean", "low", "high", "n",
    "p", "p_holm", "method", *_ABOUT, *(f"reference_{name}" for name in _ABOUT),
]  # fmt: skip
_LINE = [*GROUP, "widths"]
_TREND = ["label", "reference", "metric", "depths", "slope", "low", "high", "n", "p", "method"]
_EARLY = "early_third_"


def pairs_of(df: pd.DataFrame, compare: Mapping[str, Any] | None = None) -> list[Pair]:
    """The declared pairs, or every rule against backpropagation where none are declared."""
    given = (compare or {}).get("pairs") or ()
    if given:
        return [(str(label), str(reference)) for label, reference in given]
    references = df.loc[df["rule"].eq("bp"), "label"].unique().tolist()[:1]
    labels = df["label"].unique().tolist()
    return [(label, bp) for bp in references for label in labels if label != bp]


def comparisons(df: pd.DataFrame, compare: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """One row a declared pair and place: label minus reference, paired by init seed.

    `compare` holds `metric` and `pairs`, as a study's block does. All rows are one family for
    Holm's correction (`p_holm`). A column that holds lists is compared by its early third. Data
    without the metric are compared by a loss, or else by accuracy; the column `metric` says
    which. For both cells the rate, whether it is at the edge of its range, and the lost networks
    are told. A place that lacks one rule's results has no row.
    """
    rows = evaluated(df)
    rows = rows.assign(widths=widths(rows), at_edge=at_edge(rows))
    pairs, metric = pairs_of(df, compare), _metric(compare)
    parts = [_compared(part, metric, pairs) for _, part in rows.groupby("dataset")] if pairs else []
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=_TABLE)
    table = pd.concat(parts, ignore_index=True)
    return table.assign(p_holm=stats.holm(table["p"]))[_TABLE]


def _metric(compare: Mapping[str, Any] | None) -> str:
    return str((compare or {}).get("metric") or METRIC)


def _measured(rows: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, str]:
    """The rows with one number a network under the name of the metric, and that name.

    Raises:
        ValueError: the table has no such column of numbers or of lists.
    """
    column = metric.removeprefix(_EARLY)
    if column in rows and rows[column].dtype == object:
        early = f"{_EARLY}{column}"
        return rows.assign(**{early: [early_third(value) for value in rows[column]]}), early
    if metric not in rows or not pd.api.types.is_numeric_dtype(rows[metric]):
        raise ValueError(f"compare: metric {metric!r} is no column of numbers in the trial table")
    found = metric_of(rows, metric)
    return rows, found if rows[found].notna().any() else metric_of(rows, "test_accuracy")


def _compared(rows: pd.DataFrame, metric: str, pairs: Iterable[Pair]) -> pd.DataFrame:
    rows, metric = _measured(rows, metric)
    found = stats.compare(rows, metric, pairs)
    about = rows.groupby(CELL).agg(
        widths=("widths", "first"), lr=("lr", "first"), at_edge=("at_edge", "any")
    )
    cells = about.reset_index().merge(counts(rows, CELL), on=CELL)
    reference = cells.drop(columns="widths").rename(
        columns={"label": "reference", **{name: f"reference_{name}" for name in _ABOUT}}
    )
    found = found.merge(cells, on=CELL).merge(reference, on=["reference", *stats.PLACE])
    order = {pair: i for i, pair in enumerate(pairs)}
    ranks = [order[pair] for pair in zip(found["label"], found["reference"], strict=True)]
    line = pd.to_numeric(found["widths"], errors="coerce")  # 64 before 128, unlike their texts
    ranked = found.assign(metric=metric, rank=ranks, line=line)
    return ranked.sort_values([*GROUP, "line", "rank", "depth"], ignore_index=True)


def claims(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `comparisons` with `claimed`, whether an effect may be, and the `reason`.

    It may where the interval excludes 0, no rate of the two cells is at the edge of its range,
    and both lost as many networks. The reason names everything that stands against it.
    """
    against = [_against(row) for row in table.to_dict("records")]
    reasons = ["; ".join(words) or "interval excludes 0" for words in against]
    return table.assign(
        claimed=pd.Series([not words for words in against], table.index, dtype="boolean"),
        reason=pd.Series(reasons, table.index, dtype="string"),
    )


def _against(row: Mapping[Any, Any]) -> list[str]:
    """What stands against a claim."""
    sides = {row["label"]: "", row["reference"]: "reference_"}
    edges = [label for label, prefix in sides.items() if row[f"{prefix}at_edge"]]
    lost = [
        f"{row[state]} against {row[f'reference_{state}']} {state}"
        for state in ("diverged", "failed")
        if row[state] != row[f"reference_{state}"]
    ]
    return [*_of_interval(row), *(f"rate of {label} at edge of range" for label in edges), *lost]


def _of_interval(row: Mapping[Any, Any]) -> list[str]:
    if pd.isna(row["low"]):
        return ["no interval: one seed"]
    return ["interval includes 0"] if row["low"] <= 0 <= row["high"] else []


def trend(df: pd.DataFrame, pair: Pair, metric: str = METRIC) -> pd.DataFrame:
    """One row a line over depth: how the pair's difference changes with each doubling of depth.

    The slope of the difference on log2(depth) is taken for each init seed, then its mean over
    seeds with interval and sign-flip p. Only seeds with every depth of the line count. Lines of
    two depths or fewer have no row.
    """
    rows = evaluated(df)
    rows = rows.assign(widths=widths(rows))
    found: list[dict[str, Any]] = []
    for _, part in rows.groupby("dataset"):
        measured, name = _measured(part, metric)
        seeds = stats.seed_means(measured, name, [*CELL, "widths"])
        differences = stats.paired(seeds, name, pair, [*stats.PLACE, "widths"])
        about = {"label": pair[0], "reference": pair[1], "metric": name}
        for key, line in differences.groupby(_LINE):
            place = dict(zip(_LINE, key, strict=True))
            found += [place | about | numbers for numbers in _slope(line)]
    return pd.DataFrame(found, columns=[*_LINE, *_TREND])


def _slope(line: pd.DataFrame) -> list[dict[str, Any]]:
    wide = line.pivot_table(index="init_seed", columns="depth", values="d").dropna()
    if wide.shape[1] < 3 or wide.empty:
        return []
    doublings = np.log2(wide.columns.to_numpy(dtype=float))
    slopes = np.polyfit(doublings, wide.to_numpy(dtype=float).T, 1)[0]
    found = asdict(stats.difference_of(slopes))
    return [found | {"slope": found["mean"], "depths": wide.shape[1]}]


def draw(table: pd.DataFrame, dots: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """Differences over depth: a line a pair, intervals, a dot a seed; hollow: not claimed."""
    lines.over_depth(ax, table.assign(at_edge=~table["claimed"]), dots, of)
    ax.axhline(0, color="black", linewidth=0.6, zorder=1)


def figure(
    df: pd.DataFrame, of: Mapping[str, Look], note: str = "", family: pd.DataFrame | None = None
) -> Plot | None:
    """The figure of one data set and kind of network: a panel a width; None without pairs.

    `family` has the rows of `comparisons` for the whole study, of which these are a part.
    """
    family = claims(comparisons(df) if family is None else family)
    table = family.merge(df[GROUP].drop_duplicates(), on=GROUP)
    if table.empty:
        return None
    styles, named = _looks(table, of), table.assign(label=_names(table))
    dots = _dots(df, table)
    panels = table["widths"].unique()
    fig, [axes] = sheet(len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        draw(named[named["widths"].eq(panel)], dots[dots["widths"].eq(panel)], ax, styles)
        ax.set_title(f"width {panel}" if len(panels) > 1 else "")
    words = f"{table['metric'].iloc[0]} difference".replace("_", " ")
    depth, label = ("depth", fill(words, 20)) if len(axes) > 1 else (scales.DEPTH, words)
    label_outer(axes, depth, label)
    hollow = Line2D([], [], color="black", marker="o", mfc="white", linestyle="")
    unsure = {} if table["claimed"].all() else {"not claimed": hollow}
    handles = {**rule_handles(styles, named["label"]), **unsure}
    finish(fig, captions.title(df), handles, [note, *_sentences(table, family, df)])
    return Plot(fig, table)


def _which(claimed: pd.Series) -> str:
    return (
        "All claimed" if claimed.all() else "Filled: claimed" if claimed.any() else "None claimed"
    )


def _names(table: pd.DataFrame) -> pd.Series:
    names: pd.Series = table["label"] + " − " + table["reference"]
    return names


def _looks(table: pd.DataFrame, of: Mapping[str, Look]) -> dict[str, Look]:
    """A pair looks as its rule does; a rule's further pairs have their references' markers."""
    found: dict[str, Look] = {}
    pairs = table.assign(name=_names(table)).drop_duplicates("name")
    for name, label, other in zip(pairs["name"], pairs["label"], pairs["reference"], strict=True):
        own = of[label]
        found[name] = own if own not in found.values() else Look(own.color, of[other].marker)
    return found


def _dots(df: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The difference of every init seed, with the widths and the name of its pair."""
    rows, metric = _measured(evaluated(df), table["metric"].iloc[0])
    seeds = stats.seed_means(rows, metric)
    pairs = table[["label", "reference"]].drop_duplicates().itertuples(index=False, name=None)
    dots = pd.concat([stats.paired(seeds, metric, (a, b)) for a, b in pairs], ignore_index=True)
    dots = dots.merge(table[["label", "reference", *stats.PLACE, "widths"]])
    return dots.assign(label=_names(dots)).rename(columns={"d": "value"})


def _sentences(table: pd.DataFrame, family: pd.DataFrame, df: pd.DataFrame) -> list[str]:
    networks = counts(evaluated(df), CELL)
    compared = networks["label"].isin([*table["label"], *table["reference"]])
    methods = " or ".join(name for name in table["method"].unique() if name != "none")
    interval = f" with 95 % {methods} interval (bars)" if methods else ""
    passing = int(family["p_holm"].lt(0.05).sum())
    return [
        f"Mean paired difference{interval} over {captions.seeds(table['n'])}; dots: seeds.",
        f"{_which(table['claimed'])}: interval excludes 0, no rate at edge, as many networks lost.",
        f"Sign flips with Holm: {passing} of {len(family)} comparisons below .05.",
        captions.lost(networks[compared], captions.substituted(table["metric"].iloc[0])),
    ]
