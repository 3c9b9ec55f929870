"""How many networks travel to a worker together."""

from __future__ import annotations

from math import ceil

from orchestrator.cell import Cell
from rules.pack_size import suited

WORK = 4e10
"""Floating-point operations of a pack: some seconds of a core.

Beside them the milliseconds that a pack costs to schedule are nothing.
"""

MOST = 1024


def most(cell: Cell, given: int | str) -> int:
    """Networks in a pack of the cell's at most, where the study says so many, or `auto`.

    A pack is enough work, or as many networks as train best together; a worker that can train
    fewer at once takes them in groups. More would make a lost pack dear, and the end uneven.
    """
    if isinstance(given, int):
        return given
    if cell.device != "cpu":
        return MOST  # only the worker sees what its device holds
    itemsize = 8 if cell.training.dtype == "float64" else 4
    at_once = suited(cell.dims, cell.training.batch_size, itemsize)
    return min(MOST, max(at_once, ceil(WORK / max(1.0, cell.cost))))
