"""Tables of a page: cells with intervals and flags, a column a depth, rows under one heading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.report_words import decimals
from analysis.trials import GROUP

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


def over_depth(
    frame: pd.DataFrame, lines: Mapping[str, Callable[[Row], Cell]], lead: Sequence[str] = ()
) -> tuple[list[str], list[list[Cell]]]:
    """Columns and rows of a table with a column a depth, and for each rule a row a line.

    `lines` maps the format of a line's heading, in which `{label}` and other columns may stand,
    to what makes its cells. A line without a word is left out.
    """
    swept = swept_in(frame)
    depths = sorted(frame["depth"].unique())
    rows = []
    for _, rule in frame.groupby([*swept, "label"], sort=False):
        found: dict[int, Row] = {row["depth"]: row for row in rule.to_dict("records")}
        first = {str(name): value for name, value in rule.iloc[0].items()}
        heads = [Cell(named(name, first[name]), scope="row") for name in swept]
        extra = [Cell(str(first[name])) for name in lead]
        for i, (heading, make) in enumerate(lines.items()):
            cells = [make(found[depth]) if depth in found else Cell("") for depth in depths]
            head = Cell(heading.format(**first), scope="row", under=i > 0)
            if any(cell.text or cell.flags for cell in cells):
                rows.append([*heads, head, *extra, *cells])
    columns = [*headings(swept), "rule", *headings(lead)]
    return [*columns, *(f"depth {depth}" for depth in depths)], rows


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
