"""How far rules stay behind a reference at each depth: at matched widths and at fixed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from analysis import captions, scales
from analysis.figure import Plot, finish, label_outer, sheet
from analysis.matched_gap import (
    MATCHED,
    at_horizon,
    early_step,
    gap_rows,
    pairs,
    summarise,
    trend,
)
from analysis.outcomes import counts, evaluated, metric_of
from analysis.style import Look
from analysis.trials import CELL, GROUP

SPLIT = GROUP
"""The columns whose values each have a figure of their own."""

_DASHES = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
_MOST_WIDTHS = 10  # that fit below the depths of a figure's width
_MOST_TRENDS = 4


def rows_of(df: pd.DataFrame, metric: str = "train_loss") -> pd.DataFrame:
    """The rows of every label's gap to the study's reference, one pair after the other."""
    found = [gap_rows(df, pair, metric) for pair in pairs(df)]
    kept = [rows for rows in found if len(rows)]
    return pd.concat(kept, ignore_index=True) if kept else gap_rows(df.head(0))


def figure(
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
    shown, last = shown_of(summary), at_horizon(summary)
    compared = last if len(shown) < len(summary) else last.head(0)
    contracts = shown["contract"].unique()
    fig, [axes, *below] = sheet(len(contracts), *([1] if len(compared) else []))
    for ax, contract in zip(axes, contracts, strict=True):
        draw_steps(shown[shown["contract"].eq(contract)], ax, of, 1 / min(len(axes), 3))
        ax.set_title(share_of(shown[shown["contract"].eq(contract)]))
    label_outer(axes, "depth" if len(axes) > 1 else scales.DEPTH, difference(summary, len(axes)))
    for [ax] in below:
        draw_contracts(compared, ax, of)
        ax.set_title(f"Matched and fixed width, step {compared['step'].max()}")
        ax.set_ylabel(difference(summary))
    sentences = [
        note,
        matching(shown),
        errors(summary),
        _growing(rows, shown),
        lost_of(df, summary),
    ]
    finish(fig, captions.title(df), _legend(shown, compared, of), sentences)
    return Plot(fig, summary)


def shown_of(summary: pd.DataFrame) -> pd.DataFrame:
    """The matched lines, or all where none is."""
    matched = summary[is_matched(summary)]
    return matched if len(matched) else summary


def is_matched(rows: pd.DataFrame) -> pd.Series:
    """Whether the contract of each row is the same number of parameters."""
    return rows["contract"].str.startswith(MATCHED)


@dataclass(frozen=True)
class Line:
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


def draw_steps(summary: pd.DataFrame, ax: Axes, of: Mapping[str, Look], share: float = 1.0) -> None:
    """One contract over depth: solid at the horizon, dotted and hollow at the early step.

    Matched widths stand below the depths where a panel of this share of a column has the room.
    """
    early = early_step(summary["step"])
    marks = [(summary["step"].max(), "-"), *([(early, ":")] if early else [])]
    draw_lines(ax, [
        Line(summary[summary["label"].eq(label) & summary["step"].eq(step)], of[label], dashes)
        for label in summary["label"].unique() for step, dashes in marks
    ])  # fmt: skip
    if _have_room(summary["depth"].unique().tolist(), share):
        _name_widths(ax, summary)


def draw_contracts(last: pd.DataFrame, ax: Axes, of: Mapping[str, Look]) -> None:
    """The contracts of one step on the same axes: solid where matched, else dashed and hollow."""
    dashes = _dashes(last)
    draw_lines(ax, [
        Line(line, of[str(label)], dashes[str(contract)])
        for (label, contract), line in last.groupby(["label", "contract"], sort=False)
    ])  # fmt: skip


def _dashes(last: pd.DataFrame) -> dict[str, Any]:
    found = last.loc[~is_matched(last), "contract"].unique()
    fixed = {contract: _DASHES[i % len(_DASHES)] for i, contract in enumerate(found)}
    return {contract: fixed.get(contract, "-") for contract in last["contract"].unique()}


def draw_lines(ax: Axes, drawn: list[Line]) -> None:
    """The lines side by side over depth, above or below a line at no gap."""
    depths = {depth for line in drawn for depth in line.cells["depth"]}
    scale = scales.DepthScale(tuple(sorted(depths)))
    ax.axhline(0, color="0.75", lw=0.6, zorder=1)
    for line, share in zip(drawn, scales.shares(len(drawn)), strict=True):
        line.draw(ax, scale, share)
    scale.label(ax)


def _name_widths(ax: Axes, summary: pd.DataFrame) -> None:
    if summary["parameter_target"].isna().all():
        return
    widths = dict(zip(summary["depth"], summary["width"], strict=True))
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{x:.0f}\nw={widths[round(x)]}" if round(x) in widths else "")
    )


def _have_room(depths: list[int], share: float) -> bool:
    """Whether the widths can be written side by side in a panel of this share of a column."""
    scale = scales.DepthScale(tuple(depths))
    places = np.log2(depths) if scale.is_log else np.asarray(depths, dtype=float)
    nearest = np.diff(np.sort(places)).min(initial=np.inf)
    return bool(nearest >= np.ptp(places) / (_MOST_WIDTHS * share))


def share_of(summary: pd.DataFrame) -> str:
    """What all depths of a contract share, in words."""
    target = summary["parameter_target"].iloc[0]
    width = summary["width"].iloc[0]
    return f"Same width: {width}" if pd.isna(target) else f"Same parameters: target P={target:,}"


def difference(summary: pd.DataFrame, panels: int = 1) -> str:
    """The name of the axis: what is subtracted from what; in short beside small panels."""
    metric = str(summary["metric"].iloc[0]).replace("_", " ")
    if panels > 1:
        return f"gap, {metric}"
    labels, reference = summary["label"].unique(), summary["reference"].iloc[0]
    return f"{metric}: {labels[0] if len(labels) == 1 else 'rule'} − {reference}"


def matching(shown: pd.DataFrame) -> str:
    """How well the contract holds."""
    error = 100 * (shown["parameter_count_error"] / shown["parameter_target"]).dropna().abs()
    if error.empty:
        return "All depths have the same width, not the same number of parameters."
    sizes = shown.drop_duplicates(["contract", "depth"]).sort_values("depth")
    lines = sizes.groupby("contract", sort=False)["width"].agg(lambda w: " ".join(map(str, w)))
    return (
        f"Widths {'; '.join(lines)}, the shallowest first: parameter counts within "
        f"{error.max():.2g} % of P."
    )


def errors(summary: pd.DataFrame, mark: str = "bars") -> str:
    """What the lines are, and their marks; one init seed has no standard error."""
    seeds = captions.seeds(summary["init_seeds"])
    if summary["init_seeds"].max() < 2:
        return f"Mean over {seeds}: no standard error."
    nested = summary["rows"].gt(summary["init_seeds"]).any()
    within = ", feedback seeds averaged within each" if nested else ""
    return f"Mean ± standard error ({mark}) over {seeds}{within}."


def _growing(rows: pd.DataFrame, shown: pd.DataFrame) -> str:
    """The trend of every line, or of those shown, where it has an interval and they are few."""
    found = trend(rows).dropna(subset="low")
    if len(found) > _MOST_TRENDS:
        found = found[found["contract"].isin(shown["contract"])]
    if not 0 < len(found) <= _MOST_TRENDS:
        return ""
    largest = float(np.abs(found[["slope", "low", "high"]].to_numpy(dtype=float)).max())
    digits = int(np.clip(1 - np.floor(np.log10(largest)), 0, 6)) if largest > 1e-6 else 0
    several = len(found["contract"].unique()) > 1
    ends = ("slope", "low", "high")
    words = []
    for line in found.to_dict("records"):
        slope, low, high = (f"{line[end]:+.{digits}f}".replace("-", "−") for end in ends)
        which = " " + line["contract"] if several else ""
        words.append(f"{line['label']}{which} {slope} [{low}, {high}]")
    return f"Slope per doubling of depth (95 % t interval): {', '.join(words)}."


def lost_of(df: pd.DataFrame, summary: pd.DataFrame) -> str:
    """What became of the networks, and what the lost ones count as."""
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
