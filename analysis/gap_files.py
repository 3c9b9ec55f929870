"""The gap between rules as figures, and as the files of a study at matched parameter counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from analysis import captions, lines, scales
from analysis.figure import Plot, finish, label_outer, sheet
from analysis.matched_gap import (
    LINE,
    MATCHED,
    at_horizon,
    early_step,
    gap_rows,
    pairs,
    summarise,
    trend,
)
from analysis.outcomes import counts, evaluated, metric_of
from analysis.style import Look, looks, style
from analysis.trials import CELL, GROUP

_DASHES = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MOST_WIDTHS = 11
_MOST_TRENDS = 4


def rows_of(df: pd.DataFrame, metric: str = "train_loss") -> pd.DataFrame:
    """The rows of every label's gap to the study's reference, one pair after the other."""
    found = [gap_rows(df, pair, metric) for pair in pairs(df)]
    kept = [rows for rows in found if len(rows)]
    return pd.concat(kept, ignore_index=True) if kept else gap_rows(df.head(0))


def gap_vs_depth(
    df: pd.DataFrame, of: Mapping[str, Look], note: str = "", metric: str = "train_loss"
) -> Plot | None:
    """The gap at the horizon and at an early step over depth; None where nothing pairs.

    Matched widths are shown where the study has them, and below them beside the fixed ones; else
    there is a panel a fixed width.
    """
    rows = rows_of(df, metric_of(evaluated(df), metric))
    if rows.empty:
        return None
    summary = summarise(rows)
    shown, last = _shown(summary), at_horizon(summary)
    compared = last if shown["contract"].nunique() < last["contract"].nunique() else last.head(0)
    contracts = shown["contract"].unique()
    fig, [axes, *below] = sheet(len(contracts), *([1] if len(compared) else []))
    for ax, contract in zip(axes, contracts, strict=True):
        draw_steps(shown[shown["contract"].eq(contract)], ax, of)
        ax.set_title(_share(shown[shown["contract"].eq(contract)]))
    label_outer(axes, axes[0].get_xlabel(), _difference(summary))
    for [ax] in below:
        draw_contracts(compared, ax, of)
        ax.set_title(f"Matched and fixed width, step {compared['step'].max()}")
        ax.set_ylabel(_difference(summary))
    sentences = [note, _matching(shown), _errors(summary), _growing(rows, shown), _lost(df, summary)]
    finish(fig, captions.title(df), _legend(shown, compared, of), sentences)
    return Plot(fig, summary)


def _shown(summary: pd.DataFrame) -> pd.DataFrame:
    """The matched lines, or all where none is."""
    matched = summary[_is_matched(summary)]
    return matched if len(matched) else summary


def _is_matched(rows: pd.DataFrame) -> pd.Series:
    return rows["contract"].str.startswith(MATCHED)


@dataclass(frozen=True)
class _Line:
    """One line over depth: its cells, and how it looks."""

    cells: pd.DataFrame
    look: Look
    dashes: Any = "-"

    def draw(self, ax: Axes, scale: scales.DepthScale, share: float) -> None:
        """Means joined by a line; standard errors where there are any."""
        cells, color = self.cells.sort_values("depth"), self.look.color
        x, fill = scale.dodged(cells["depth"].tolist(), share), self.fill
        y, sem = cells["gap_mean"].to_numpy(dtype=float), cells["gap_sem"].to_numpy(dtype=float)
        known = cells["gap_sem"].notna().to_numpy(dtype=bool)
        bars: dict[str, Any] = {"ecolor": color, "elinewidth": 0.8, "capsize": 1.6, "capthick": 0.8}
        ax.errorbar(x[known], y[known], yerr=sem[known], fmt="none", zorder=2, **bars)
        ax.plot(x, y, self.look.marker, ls=self.dashes, color=color, mfc=fill, zorder=3)

    @property
    def fill(self) -> str:
        """The colour within the markers: white unless the line is solid."""
        return self.look.color if self.dashes == "-" else "white"


def draw_steps(summary: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """One contract over depth: solid at the horizon, dotted and hollow at the early step."""
    early = early_step(summary["step"])
    marks = [(summary["step"].max(), "-"), *([(early, ":")] if early else [])]
    _draw(ax, [
        _Line(summary[summary["label"].eq(label) & summary["step"].eq(step)], of[label], dashes)
        for label in summary["label"].unique() for step, dashes in marks
    ])  # fmt: skip
    if summary["parameter_target"].notna().any():
        _name_widths(ax, summary)


def draw_contracts(last: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """The contracts of one step on the same axes: solid where matched, else dashed and hollow."""
    dashes = _dashes(last)
    _draw(ax, [
        _Line(line, of[str(label)], dashes[str(contract)])
        for (label, contract), line in last.groupby(["label", "contract"], sort=False)
    ])  # fmt: skip


def _dashes(last: pd.DataFrame) -> dict[str, Any]:
    found = last.loc[~_is_matched(last), "contract"].unique()
    fixed = {contract: _DASHES[i % len(_DASHES)] for i, contract in enumerate(found)}
    return {contract: fixed.get(contract, "-") for contract in last["contract"].unique()}


def _draw(ax: Axes, drawn: list[_Line]) -> None:
    depths = {depth for line in drawn for depth in line.cells["depth"]}
    scale = scales.DepthScale(tuple(sorted(depths)))
    ax.axhline(0, color="0.75", lw=0.6, zorder=1)
    for line, share in zip(drawn, scales.shares(len(drawn)), strict=True):
        line.draw(ax, scale, share)
    scale.label(ax)


def _name_widths(ax: Axes, summary: pd.DataFrame) -> None:
    """Below each depth its width, where there is room."""
    widths = dict(zip(summary["depth"], summary["width"], strict=True))
    if len(widths) > _MOST_WIDTHS:
        return
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{x:.0f}\nw={widths[round(x)]}" if round(x) in widths else "")
    )


def _share(summary: pd.DataFrame) -> str:
    """What all depths of a contract share, in words."""
    target = summary["parameter_target"].iloc[0]
    width = summary["width"].iloc[0]
    return f"Same width: {width}" if pd.isna(target) else f"Same parameters: target P={target:,}"


def _difference(summary: pd.DataFrame) -> str:
    """The name of the axis: what is subtracted from what."""
    metric = str(summary["metric"].iloc[0]).replace("_", " ")
    labels, reference = summary["label"].unique(), summary["reference"].iloc[0]
    return f"{metric}: {labels[0] if len(labels) == 1 else 'rule'} − {reference}"


def _matching(shown: pd.DataFrame) -> str:
    error = 100 * (shown["parameter_count_error"] / shown["parameter_target"]).dropna().abs()
    if error.empty:
        return "All depths have the same width, not the same number of parameters."
    return f"The width w differs with depth: parameter counts lie within {error.max():.2g} % of P."


def _errors(summary: pd.DataFrame, mark: str = "bars") -> str:
    seeds = captions.seeds(summary["init_seeds"])
    if summary["init_seeds"].max() < 2:
        return f"Mean over {seeds}: no standard error."
    return f"Mean ± standard error ({mark}) over {seeds}, feedback seeds averaged within each."


def _growing(rows: pd.DataFrame, shown: pd.DataFrame) -> str:
    """The trend of the lines shown, where it has an interval and the lines are few."""
    found = trend(rows[rows["contract"].isin(shown["contract"])])
    found = found[found["low"].notna()].to_dict("records")
    if not 0 < len(found) <= _MOST_TRENDS:
        return ""
    several = shown["contract"].nunique() > 1
    words = [
        f"{line['label']}{' ' + line['contract'] if several else ''} "
        f"{line['slope']:+.2g} [{line['low']:+.2g}, {line['high']:+.2g}]"
        for line in found
    ]
    return f"Growth per doubling of depth (95 % t interval): {', '.join(words)}."


def _lost(df: pd.DataFrame, summary: pd.DataFrame) -> str:
    metric = str(summary["metric"].iloc[0])
    return captions.lost(counts(evaluated(df), CELL), captions.substituted(metric))


def _legend(
    shown: pd.DataFrame, compared: pd.DataFrame, of: Mapping[str, Look]
) -> dict[str, Artist]:
    reference, last = shown["reference"].iloc[0], shown["step"].max()
    rules = {f"{label} − {reference}": of[label].handle() for label in shown["label"].unique()}
    gray: dict[str, Any] = {"color": "0.35", "marker": "o"}
    marks: dict[str, Artist] = {f"step {last}": Line2D([], [], **gray)}
    if early := early_step(shown["step"]):
        marks[f"step {early}"] = Line2D([], [], ls=":", mfc="white", **gray)
    fixed = {key: dashes for key, dashes in _dashes(compared).items() if dashes != "-"}
    marks |= {key: Line2D([], [], ls=each, mfc="white", **gray) for key, each in fixed.items()}
    return rules | marks


def gap_over_training(
    df: pd.DataFrame, of: Mapping[str, Look], note: str = "", metric: str = "train_loss"
) -> Plot | None:
    """The gap at every recorded step, and as a part of the reference's progress: a line a depth.

    A panel a pair of rules and contract; None where nothing pairs.
    """
    rows = rows_of(df, metric_of(evaluated(df), metric))
    if rows.empty:
        return None
    summary = summarise(rows)
    shown = _shown(summary)
    panels = list(shown.groupby(["label", "contract"], sort=False))
    of_depth = _depth_looks(shown)
    fig, sections = sheet(len(panels), len(panels))
    names = {"gap": _difference(shown), "gap_fraction": f"gap / progress of {shown['reference'].iloc[0]}"}
    for axes, (quantity, name) in zip(sections, names.items(), strict=True):
        for ax, (_, panel) in zip(axes, panels, strict=True):
            draw_training(panel, ax, of_depth, quantity)
            ax.set_title(_panel_name(panel, shown) if quantity == "gap" else "")
        label_outer(axes, "step", name)
    sentences = [note, _matching(shown), _errors(shown, "bands"), _lost(df, summary)]
    finish(fig, captions.title(df), {key: each.handle() for key, each in of_depth.items()}, sentences)
    return Plot(fig, summary)


def draw_training(
    panel: pd.DataFrame, ax: Axes, of: Mapping[str, Look], quantity: str = "gap"
) -> None:
    """One pair under one contract over steps: a line a depth in the band of its standard error."""
    mean, sem = panel[f"{quantity}_mean"], panel[f"{quantity}_sem"]
    ax.axhline(0, color="0.75", lw=0.6, zorder=1)
    means = panel.assign(label=_depth_names(panel), mean=mean, low=mean - sem, high=mean + sem)
    lines.with_bands(ax, means, "step", of)
    scales.step_axis(ax)


def _panel_name(panel: pd.DataFrame, shown: pd.DataFrame) -> str:
    several = shown["label"].nunique() > 1
    pair = f"{panel['label'].iloc[0]} − {panel['reference'].iloc[0]}"
    share = _share(panel) if shown["contract"].nunique() > 1 or not several else ""
    return ", ".join(word for word in (pair if several else "", share) if word)


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


FIGURES: dict[str, Any] = {
    "gap_vs_depth": SimpleNamespace(SPLIT=GROUP, figure=gap_vs_depth),
    "gap_over_training": SimpleNamespace(SPLIT=GROUP, figure=gap_over_training),
}
"""The figures as `analysis.figures` takes them."""
