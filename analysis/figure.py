"""The parts of a figure that all of them share: panels, legend, caption, and the saved files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from pathlib import Path
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D

from analysis.style import COLUMN_INCHES, Look, style

FORMATS = ("png", "pdf", "svg")

_WIDE_INCHES, _PANEL_INCHES, _LINE_INCHES = 1.9, 1.2, 0.13
_CAPTION_CHARACTERS, _LABEL_CHARACTERS = 70, 40
_LINE_CHARACTERS, _HANDLE_CHARACTERS = 62, 6
_MANY, _CROWDED = 10, 1.35
_UNDATED = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


@dataclass(frozen=True)
class Plot:
    """A drawn figure and the numbers in it."""

    figure: Figure
    data: pd.DataFrame


def save(fig: Figure, path_stem: str | Path, data: pd.DataFrame) -> list[Path]:
    """Write the figure as png, pdf and svg and its numbers as csv; the figure is emptied.

    `path_stem` is the path without a suffix. Every file is written aside and then renamed, so
    that a reader never meets half of one. Equal figures give equal files.
    """
    stem = Path(path_stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    with style():
        fig.draw_without_rendering()
        fig.set_layout_engine("none")  # laid out once, not twice a format
        drawn = [_save_as(fig, stem, kind) for kind in FORMATS]
    fig.clear()
    aside = _aside(stem, "csv")
    data.to_csv(aside, index=False)
    return [*drawn, aside.replace(_file(stem, "csv"))]


def _save_as(fig: Figure, stem: Path, kind: str) -> Path:
    aside = _aside(stem, kind)
    fig.savefig(aside, format=kind, dpi=200, metadata=_UNDATED[kind])
    return aside.replace(_file(stem, kind))


def _file(stem: Path, kind: str) -> Path:
    return stem.with_name(f"{stem.name}.{kind}")


def _aside(stem: Path, kind: str) -> Path:
    return stem.with_name(f".{stem.name}.{kind}.part")


def sheet(*counts: int) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure of one column's width, with a section of panels for each count.

    A section of one panel spans the figure; more stand in rows of two or three, with one y axis.
    A panel that spans it is high, and so is a row that is all there is.
    """
    columns = max(_columns(count) for count in counts)
    rows = [ceil(count / columns) for count in counts]
    heights = [
        _WIDE_INCHES if count == 1 or sum(rows) == 1 else _PANEL_INCHES
        for count, many in zip(counts, rows, strict=True)
        for _ in range(many)
    ]
    fig = Figure(figsize=(COLUMN_INCHES, sum(heights)), layout="constrained")
    places = fig.add_gridspec(len(heights), columns, height_ratios=heights)
    firsts = [0, *accumulate(rows)]
    return fig, [_section(fig, places, *pair) for pair in zip(firsts, counts, strict=False)]


def _columns(count: int) -> int:
    return 2 if count == 4 else min(count, 3)


def _section(fig: Figure, places: GridSpec, first: int, count: int) -> list[Axes]:
    columns = places.ncols
    slots = [places[first + i // columns, i % columns] for i in range(count)]
    if count == 1:
        return [fig.add_subplot(places[first, :])]
    axes: list[Axes] = []
    for i, slot in enumerate(slots):
        axes.append(fig.add_subplot(slot, sharey=axes[0] if axes else None))
        axes[i].tick_params(labelleft=i % columns == 0)
    return axes


def label_outer(axes: Sequence[Axes], xlabel: str, ylabel: str) -> None:
    """Name the axes of a section once: x under the lowest panels, y beside the leftmost."""
    spec = axes[0].get_subplotspec()
    columns = spec.get_gridspec().ncols if spec else 1
    for i, ax in enumerate(axes):
        ax.set_xlabel(xlabel if i + columns >= len(axes) else "")
        ax.set_ylabel(ylabel if i % columns == 0 or len(axes) == 1 else "")


def finish(fig: Figure, title: str, legend: Mapping[str, Artist], sentences: Iterable[str]) -> None:
    """Put the title and the legend above the panels and the caption below them.

    Room is added for them, so that the panels keep their size; they grow where they are crowded.
    """
    caption = fill(" ".join(filter(None, sentences)), _CAPTION_CHARACTERS)
    columns = _legend_columns(legend)
    lines = 1 + ceil(len(legend) / columns) + caption.count("\n") + 1
    room = _CROWDED if len(legend) > _MANY else 1
    fig.set_figheight(fig.get_figheight() * room + _LINE_INCHES * lines)
    fig.supxlabel(caption, x=0.01, ha="left", fontsize=6)
    names = [""] * len(legend)  # a label that begins with _ must be written later to be shown
    drawn = fig.legend(
        list(legend.values()), names, title=title, loc="outside upper center", ncols=columns
    )
    for text, label in zip(drawn.get_texts(), legend, strict=True):
        text.set_text(_short(label))


def _legend_columns(legend: Iterable[str]) -> int:
    """As many columns as fit; Matplotlib fills them one after the other."""
    widths = [len(_short(label)) + _HANDLE_CHARACTERS for label in legend]
    for columns in range(len(widths), 1, -1):
        if sum(max(column) for column in np.array_split(widths, columns)) <= _LINE_CHARACTERS:
            return columns
    return 1


def _short(label: str) -> str:
    return label if len(label) <= _LABEL_CHARACTERS else f"{label[: _LABEL_CHARACTERS - 1]}…"


def rule_handles(looks: Mapping[str, Look], labels: Iterable[str]) -> dict[str, Line2D]:
    """The legend's entries for the rules among `labels`, in the order of `looks`."""
    present = set(labels)
    return {label: look.handle() for label, look in looks.items() if label in present}
