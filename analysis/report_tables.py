"""Tables of a page: cells with intervals and flags, a column a depth, rows under one heading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.report_words import decimals
from analysis.trials import CELL, GROUP, widths

Row = Mapping[Any, Any]

PANEL = [*GROUP, "widths", "contract"]
"""What leads a row, where the study sweeps it."""

_HEADINGS = {"widths": "width", "residual": "network", "label": "rule", "message": "error"}


@dataclass(frozen=True)
class Cell:
    """What a cell says: a number, its interval, and flags.

    A `scope` makes it a heading, of `span` rows; `under` says that it belongs to the row above.
    """

    text: str
    detail: str = ""
    flags: tuple[str, ...] = ()
    scope: str = ""
    span: int = 1
    under: bool = False


@dataclass(frozen=True)
class Table:
    """A table with its caption; `kind` is the analysis it belongs to."""

    kind: str
    caption: str
    note: str
    columns: list[str]
    rows: list[list[Cell]]


def interval(row: Row, mean: str = "mean", low: str = "low", high: str = "high") -> Cell:
    """A mean and its interval; an empty cell where there is none."""
    if pd.isna(row[mean]):
        return Cell("")
    center, *ends = decimals(row[mean], row[low], row[high])
    return Cell(center, f"[{', '.join(ends)}]" if pd.notna(row[low]) else "")


@dataclass(frozen=True)
class Line:
    """A rule's numbers over depth, before they have their place in a table."""

    place: tuple[str, ...]
    heading: str
    under: bool
    cells: dict[int, Cell]


def over_depth(
    frame: pd.DataFrame, lines: Mapping[str, Callable[[Row], Cell]]
) -> tuple[list[str], list[list[Cell]]]:
    """Columns and rows of a table with a column a depth, and for each rule a row a line.

    `lines` maps the format of a line's heading, in which `{label}` and other columns may stand,
    to what makes its cells. A line without a word is left out. Where every width has depths of
    its own, depths are rows and lines columns, so that few cells are empty.
    """
    swept = swept_in(frame)
    found: list[Line] = []
    for _, rule in frame.groupby([*swept, "label"], sort=False):
        found += _lines_of(rule, swept, lines)
    depths = sorted({depth for line in found for depth in line.cells})
    if 2 * sum(len(line.cells) for line in found) < len(depths) * len(found):
        return _a_row_a_depth(found, swept)
    columns = [*headings(swept), "rule", *(f"depth {depth}" for depth in depths)]
    return columns, [_wide(line, depths) for line in found]


def _lines_of(
    rule: pd.DataFrame, swept: Sequence[str], lines: Mapping[str, Callable[[Row], Cell]]
) -> Iterator[Line]:
    """The lines of one rule that say anything."""
    first = {str(name): value for name, value in rule.iloc[0].items()}
    place = tuple(named(name, first[name]) for name in swept)
    under = False
    for heading, make in lines.items():
        cells = {int(row["depth"]): make(row) for row in rule.to_dict("records")}
        if any(cell.text or cell.flags for cell in cells.values()):
            yield Line(place, heading.format(**first), under, cells)
            under = True


def _wide(line: Line, depths: Sequence[int]) -> list[Cell]:
    heads = [Cell(text, scope="row") for text in line.place]
    heads.append(Cell(line.heading, scope="row", under=line.under))
    return [*heads, *(line.cells.get(depth, Cell("")) for depth in depths)]


def _a_row_a_depth(
    found: Sequence[Line], swept: Sequence[str]
) -> tuple[list[str], list[list[Cell]]]:
    cells = {
        (line.place, depth, line.heading): cell
        for line in found
        for depth, cell in line.cells.items()
    }
    names = list(dict.fromkeys(line.heading for line in found))
    rows = [
        [
            *(Cell(text, scope="row") for text in (*place, str(depth))),
            *(cells.get((place, depth, name), Cell("")) for name in names),
        ]
        for place, depth in dict.fromkeys(key[:2] for key in cells)
    ]
    return [*headings(swept), "depth", *names], rows


def grouped(
    frame: pd.DataFrame, by: Sequence[str], make: Callable[[Row], list[Cell]]
) -> Iterator[list[Cell]]:
    """The frame's rows, under one heading for those that agree in `by`.

    The last two of `by` are a rule and its reference, which make one heading.
    """
    for key, part in frame.groupby(list(by), sort=False):
        *lead, label, reference = key
        texts = [named(name, value) for name, value in zip(by, lead, strict=False)]
        span, scope = len(part), "row" if len(part) == 1 else "rowgroup"
        group = [Cell(t, scope=scope, span=span) for t in [*texts, f"{label} − {reference}"]]
        for i, row in enumerate(part.to_dict("records")):
            yield [*([] if i else group), *make(row)]


def with_widths(frame: pd.DataFrame, df: pd.DataFrame) -> pd.DataFrame:
    """The frame, a row a cell of the trial table `df`, with the lines over depth of its cells."""
    lines = df.assign(widths=widths(df)).groupby(CELL)["widths"].first().reset_index()
    return frame.merge(lines, on=CELL, how="left")


def in_order(frame: pd.DataFrame, df: pd.DataFrame) -> pd.DataFrame:
    """The frame with widths ascending and rules in the order of the study."""
    rank = {label: i for i, label in enumerate(df["label"].unique())}
    line = pd.to_numeric(frame["widths"], errors="coerce")  # 64 before 128, unlike their texts
    ranked = frame.assign(line=line, rank=frame["label"].map(rank))
    return ranked.sort_values([*GROUP, "line", "rank", "depth"])


def swept_in(frame: pd.DataFrame, names: Sequence[str] = PANEL) -> list[str]:
    """Those of the columns that the frame has and that vary in it."""
    return [name for name in names if name in frame and len(frame[name].unique()) > 1]


def headings(names: Sequence[str]) -> list[str]:
    """Columns of a frame as headings."""
    return [_HEADINGS.get(name, name.replace("_", " ")) for name in names]


def named(name: str, value: Any) -> str:
    """A coordinate's value as it is read."""
    if name == "residual":
        return "residual" if value else "plain"
    return str(value).replace("_", " ") if name == "metric" else str(value)
