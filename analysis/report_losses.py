"""The networks that a report has to tell of: those that diverged, and those that failed."""

from functools import partial

import pandas as pd

from analysis.outcomes import counts
from analysis.report_tables import (
    Cell,
    Row,
    Table,
    headings,
    in_order,
    named,
    over_depth,
    swept_in,
    with_widths,
)
from analysis.report_words import counted
from analysis.trials import CELL, GROUP


def divergences(df: pd.DataFrame) -> Table:
    """How many networks of each cell diverged, of how many."""
    frame = counts(df, CELL)
    for phase in ("tune", "evaluate"):
        found = counts(df[df["phase"].eq(phase)], CELL)[[*CELL, "networks", "diverged"]]
        frame = frame.merge(found, on=CELL, how="left", suffixes=("", f"_{phase}"))
    frame = in_order(with_widths(frame.fillna(0), df), df)
    columns, rows = over_depth(frame, {
        "{label}, tuning": partial(_share, "tune"),
        "{label}, evaluation": partial(_share, "evaluate"),
    })  # fmt: skip
    caption = f"{counted(int(frame['diverged'].sum()), 'network')} diverged"
    return Table("lost", caption, "Where a cell is empty, none did.", columns, rows)


def _share(phase: str, row: Row) -> Cell:
    diverged, networks = (int(row[f"{name}_{phase}"]) for name in ("diverged", "networks"))
    return Cell(f"{diverged} of {networks}" if diverged else "")


def failures(df: pd.DataFrame) -> Table:
    """The networks whose rule raised an error, by cell and the error's last line."""
    failed = df[df["status"].eq("failed")]
    lines = [str(text).strip().splitlines() or [""] for text in failed["error"].fillna("")]
    keys = [*CELL, "phase", "message"]
    found = failed.assign(message=[line[-1] for line in lines]).groupby(keys, sort=False).size()
    frame = found.reset_index(name="networks")
    names = [*swept_in(frame, [*GROUP, "width"]), "label", "depth", "phase", "networks", "message"]
    rows = [
        [Cell(named(name, row[name]), scope="row" if name == "label" else "") for name in names]
        for row in frame.to_dict("records")
    ]
    return Table("lost", f"{counted(len(failed), 'network')} failed", "", headings(names), rows)
