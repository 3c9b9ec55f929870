"""A study at matched parameter counts as files: its networks, summaries, figure and settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figure import finish, sheet
from analysis.gap_vs_depth import Line, difference, draw_lines, errors, is_matched, rows_of
from analysis.matched_gap import LINE, at_horizon, early_step, summarise
from analysis.outcomes import evaluated, metric_of
from analysis.stats import PLACE
from analysis.style import looks, style
from analysis.trials import GROUP


def write_files(df: pd.DataFrame, folder: str | Path, metric: str = "train_loss") -> list[Path]:
    """The files of a study at matched parameter counts; none where no width was matched.

    `parameter_matched_rows.csv` has a row a network, `..._metrics.csv` one a depth and recorded
    step, `..._summary.csv` one a depth; `..._gap_by_depth.png` draws that and `summary.json` has it
    with the settings. A study of several pairs, data sets or targets has a set of files for each,
    whose names end in what varies.
    """
    rows = rows_of(df, metric_of(evaluated(df), metric))
    matched = rows[is_matched(rows)] if len(rows) else rows
    swept = [name for name in LINE if len(matched[name].unique()) > 1]
    written: list[Path] = []
    for key, line in matched.groupby(LINE, sort=False):
        values = dict(zip(LINE, key, strict=True))
        suffix = "".join(f"-{_word(name, values[name])}" for name in swept)
        written += _write_line(line, df, Path(folder), suffix)
    return written


def _word(name: str, value: object) -> str:
    if name == "residual":
        return "residual" if value else "plain"
    return re.sub(r"[^A-Za-z0-9_.]+", "-", str(value)).strip("-.")


def _write_line(line: pd.DataFrame, df: pd.DataFrame, folder: Path, suffix: str) -> list[Path]:
    metrics = summarise(line)
    last = at_horizon(metrics)
    columns = ["depth", "width", "parameter_count", "parameter_count_error", "rows"]
    table = last[[*columns, "gap_mean", "gap_sem"]]
    table = table.rename(columns={"gap_mean": "empirical_gap_mean", "gap_sem": "empirical_gap_sem"})
    tables = {"rows": _networks(line), "metrics": metrics, "summary": table}
    paths = [
        _write(folder / f"parameter_matched_{name}{suffix}.csv", partial(each.to_csv, index=False))
        for name, each in tables.items()
    ]
    picture = folder / f"parameter_matched_gap_by_depth{suffix}.png"
    with style():
        fig = gap_by_depth(last)
        save_as = partial(fig.savefig, format="png", dpi=200)
        paths.append(_write(picture, save_as))
    text = json.dumps(_payload(line, df, table), indent=2) + "\n"
    return [*paths, _write(folder / f"summary{suffix}.json", lambda path: path.write_text(text))]


def _write(path: Path, write: Callable[[Path], object]) -> Path:
    """Write aside, then rename, so that a reader never meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    write(aside)
    return aside.replace(path)


def _networks(line: pd.DataFrame) -> pd.DataFrame:
    """One row a network and its partner: their values and gap at the horizon, and the early gap."""
    keys = ["depth", "width", "parameter_count", "init_seed", "feedback_seed"]
    last, early = at_horizon(line), early_step(line["step"])
    ends = ["step", "value", "reference_value", "gap", "gap_fraction", "lost", "reference_lost"]
    found = last[["label", "reference", "metric", *keys, *ends]]
    found = found.rename(columns={"step": "horizon", "gap": "empirical_gap"})
    before = line[line["step"].eq(-1 if early is None else early)][[*keys, "step", "gap"]]
    before = before.rename(columns={"step": "early_step", "gap": "early_gap"})
    return found.merge(before, on=keys, how="left")


def gap_by_depth(last: pd.DataFrame) -> Figure:
    """The gap at the horizon over depth with standard errors, each point with its width."""
    fig, [[ax]] = sheet(1)
    draw_lines(ax, [Line(last, looks(last["label"])[last["label"].iloc[0]])])
    tops = last["gap_mean"] + last["gap_sem"].fillna(0)
    for depth, width, top in zip(last["depth"], last["width"], tops, strict=True):
        place: dict[str, Any] = {
            "xy": (depth, top),
            "xytext": (0, 4),
            "textcoords": "offset points",
        }
        ax.annotate(f"w={width}", ha="center", fontsize=6, **place)
    ax.margins(y=0.12)
    ax.set_ylabel(difference(last))
    ax.set_title(f"step {last['step'].iloc[0]}")
    title = f"Parameter-matched depth control (target P={last['parameter_target'].iloc[0]})"
    finish(fig, title, {}, [errors(last)])
    return fig


def _payload(line: pd.DataFrame, df: pd.DataFrame, table: pd.DataFrame) -> dict[str, Any]:
    last = at_horizon(line)
    known = table.astype(object).where(table.notna(), None)
    return {
        "config": _config(line, df),
        "target_parameter_count": int(last["parameter_target"].iloc[0]),
        "widths": {str(row["depth"]): row["width"] for row in known.to_dict("records")},
        "rows": len(last),
        "summary": known.to_dict("records"),
    }


def _config(line: pd.DataFrame, df: pd.DataFrame) -> dict[str, Any]:
    """The settings of the line: equal ones once, rates by rule and depth where they differ."""
    pair = [line["label"].iloc[0], line["reference"].iloc[0]]
    cells = line[[*PLACE]].drop_duplicates()
    networks = df[df["phase"].eq("evaluate") & df["label"].isin(pair)].merge(cells, on=PLACE)
    same = ["bias", "batch_size", "momentum", "weight_decay", "optimizer", "schedule", "warmup"]
    same += ["loss", "dtype"]
    first = line.iloc[0]
    return {
        "pair": pair,
        **{name: _plain(first[name]) for name in ("metric", *GROUP)},
        "depths": sorted(map(int, line["depth"].unique())),
        "init_seeds": line["init_seed"].nunique(),
        "feedback_seeds": line["feedback_seed"].nunique(),
        "lr": {label: _rates(networks[networks["label"].eq(label)]) for label in pair},
        "options": {
            label: json.loads(networks.loc[networks["label"].eq(label), "options"].iloc[0])
            for label in pair
        },
        "horizon": int(line["step"].max()),
        "early_step": early_step(line["step"]),
        **{name: _plain(networks[name].iloc[0]) for name in same},
    }


def _rates(networks: pd.DataFrame) -> float | dict[str, float]:
    rates = networks.dropna(subset="lr").groupby("depth")["lr"].first()
    one = float(rates.iloc[0])
    return one if rates.eq(one).all() else {str(depth): float(lr) for depth, lr in rates.items()}


def _plain(value: Any) -> Any:
    """The value as JSON takes it."""
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
