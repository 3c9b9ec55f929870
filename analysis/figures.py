"""Every figure that a run's table allows, drawn and saved."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import (
    accuracy_vs_depth,
    captions,
    comparisons,
    depth_utility,
    gap_over_training,
    gap_vs_depth,
    learning_curves,
    lr_sensitivity,
    probes,
)
from analysis.drawn import replace_list
from analysis.figure import save
from analysis.gap_files import write_files
from analysis.study_file import declared
from analysis.style import FONT, looks, style, without_glyph
from analysis.trials import load_trials, widths
from orchestrator import store

_FIGURES = {
    "accuracy_vs_depth": accuracy_vs_depth,
    "depth_utility": depth_utility,
    "lr_sensitivity": lr_sensitivity,
    "learning_curves": learning_curves,
    "probes": probes,
    "comparisons": comparisons,
    "gap_vs_depth": gap_vs_depth,
    "gap_over_training": gap_over_training,
}


def draw_all(
    run: str | Path, out: str | Path | None = None, tell: Callable[[Path], None] = lambda path: None
) -> list[Path]:
    """Draw the run's figures into `out`, by default its folder `figures`; the paths written.

    The paths of a figure are told as soon as it is saved.

    A figure is drawn where the table has something for it. An incomplete table is drawn as far
    as it goes, and every caption says how much is missing. Figures that were drawn there before,
    and for which the table has nothing any more, are deleted.
    """
    run = store.opened(run)
    folder = run / "figures" if out is None else Path(out)
    written = draw_frame(load_trials(run), folder, declared(run), tell)
    replace_list(folder, written)
    return written


def draw_frame(
    df: pd.DataFrame,
    folder: Path,
    compare: Mapping[str, Any] | None = None,
    tell: Callable[[Path], None] = lambda path: None,
) -> list[Path]:
    """Draw the figures of a trial table that is already loaded; the paths written.

    `compare` is the study's block of that name: the comparisons, and Holm's family.
    """
    df = df.assign(widths=widths(df))
    of, note = looks(df["label"]), captions.pending(df)
    if lacking := without_glyph([*of, *df["dataset"].unique()]):
        sys.stderr.write(f"rulesweep: {FONT} has no {lacking}; figures show boxes there\n")
    written: list[Path] = []
    for name, module in _FIGURES.items():
        whole = {"family": module.comparisons(df, compare)} if module is comparisons else {}
        for suffix, part in split(df, module.SPLIT):
            with style():
                plot = module.figure(part, of, note, **whole)
                saved = save(plot.figure, folder / f"{name}{suffix}", plot.data) if plot else []
            written += saved
            for path in saved:
                tell(path)
    return [*written, *write_files(df, folder)]


def split(df: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The parts that each have a figure, with the suffix of its name: the values that vary."""
    swept = [name for name in by if len(df[name].unique()) > 1]
    for key, part in df.groupby(list(by)):
        values = dict(zip(by, key, strict=True))
        yield "".join(f"-{_word(name, values[name])}" for name in swept), part


def _word(name: str, value: object) -> str:
    if name == "residual":
        return "residual" if value else "plain"
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", str(value)).strip("-.")
    return f"width-{words}" if name == "widths" else words
