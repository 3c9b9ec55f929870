"""The trial table as its one writer sees it: what is answered, what was asked, and appending.

What readers see is in `results`, and can be had from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.columns import COLUMNS, SCHEMA, Column, named, table_of
from orchestrator.loan import Loan
from orchestrator.mirror import Mirror, opened
from orchestrator.part_files import (
    StoreError,
    durable,
    last_number,
    read_parts,
    shard_folders,
    write_part,
)
from orchestrator.results import SLOT, current, every_result, export, merged, newest, trials
from orchestrator.weights import put_down

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "Column",
    "Store",
    "StoreError",
    "current",
    "durable",
    "every_result",
    "export",
    "named",
    "opened",
    "shard_folders",
    "trials",
]

PARTS = 64
"""Parts in a folder above which a starting run merges them into one."""

ANSWER = (
    "status",
    "validation_loss",
    "validation_accuracy",
    "initial_loss",
    "chance_accuracy",
    "source",
)
"""What a run needs to know of a finished network: what chooses, and whose code trained it."""


class Store:
    """A run's table as its one writer sees it: what is answered, what was asked, and appending."""

    def __init__(
        self, run: Path, *, owner: bool = False, shard: str = "", mirror: Mirror | None = None
    ) -> None:
        """Read the run's table; the folder's one driver, its owner, also tidies it.

        A shard writes into a folder of its own, and knows what all others have written. Where the
        folder is the mirror of a run in a storage, rows are there before they count.
        """
        self.run, self.folder = run, run / "shards" / shard if shard else run
        self.mirror = mirror
        self._desk = run if mirror is None else mirror.unsent  # where files are written
        self._table = self._desk / "shards" / shard if shard else self._desk
        parts = read_parts(self.folder, owner=owner)
        others = (folder for folder in (run, *shard_folders(run)) if folder != self.folder)
        table = merged([*(part for other in others for part in read_parts(other)), *parts])
        self._next = 1 + last_number(self.folder)
        self.answers = self._answers(table)
        self.asked = _asked(table)
        self._planned = _plan_keys(table.filter(pc.equal(table["status"], "pending")))
        self._loan: Loan | None = None
        if owner and len(parts) > PARTS:
            self._compact(merged(parts), [path for path, _ in parts])

    def append(self, table: pa.Table) -> None:
        """Put rows on the disk; when this returns they are there to stay."""
        write_part(self._table, self._next, table)
        if self.mirror is not None:
            self.mirror.send()
        self._next += 1

    def plan(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write down what a study wants, but for what it is known to want already."""
        table = table_of(rows)
        keys = [
            (row["study_id"], row.get("trial"), *(row.get(name) for name in SLOT)) for row in rows
        ]
        fresh = [place for place, key in enumerate(keys) if key not in self._planned]
        if fresh:
            self.append(table.take(pa.array(fresh, pa.int64())))
            self._planned.update(keys)

    def add(self, results: pa.Table) -> None:
        """Write down what training gave, weights before their rows, then know it."""
        results = put_down(self._desk, results)
        self.append(results)
        self.answers |= self._answers(results)

    def forget_failed(self) -> None:
        """Take failed networks for missing: they train again, and their newest row counts."""
        self.answers = {i: a for i, a in self.answers.items() if a["status"] != "failed"}

    def lend(self, run: str | Path, *, weights: bool = False) -> None:
        """Let `borrow` take finished rows from another run's table, and `weights` with them.

        Raises:
            StoreError: no run folder.
        """
        self._loan = Loan(run, weights=weights)

    def borrow(self, ids: Iterable[str]) -> int:
        """Copy those of these trials' rows that another run has and this one lacks; how many."""
        if self._loan is None:
            return 0
        rows = self._loan.rows(i for i in ids if i not in self.answers)
        if rows.num_rows:
            self.add(rows)
        return int(rows.num_rows)

    def absorb(self, folders: Sequence[Path]) -> int:
        """Write the rows of shards into this table; the number of their results."""
        table = merged([part for folder in folders for part in read_parts(folder)])
        results = newest(table)
        rows = sorted({*results.values(), *_plan_rows(table)})
        if rows:
            self.append(table.take(pa.array(rows, pa.int64())))
        return len(results)

    @staticmethod
    def _answers(table: pa.Table) -> dict[str, dict[str, Any]]:
        rows = newest(table)
        part = table.select(ANSWER).take(pa.array(list(rows.values()), pa.int64())).to_pylist()
        return dict(zip(rows, part, strict=True))

    def _compact(self, table: pa.Table, old: list[Path]) -> None:
        rows = sorted({*newest(table).values(), *_plan_rows(table)})
        self.append(table.take(pa.array(rows, pa.int64())))
        for path in old:
            path.unlink() if self.mirror is None else self.mirror.drop(path)


def _plan_rows(table: pa.Table) -> list[int]:
    return [row for row, status in enumerate(table["status"].to_pylist()) if status == "pending"]


def _plan_keys(table: pa.Table) -> set[tuple[Any, ...]]:
    columns = (table[name].to_pylist() for name in ("study_id", "trial", *SLOT))
    return set(zip(*columns, strict=True))


def _asked(table: pa.Table) -> dict[str, dict[int, list[dict[str, float]]]]:
    """The points that each campaign asked in each round, in their order."""
    names = ("campaign", "round", "point", "hyperparameters")
    plan = table.take(pa.array(_plan_rows(table), pa.int64()))
    found: dict[str, dict[int, dict[int, dict[str, float]]]] = {}
    for campaign, round_, point, values in zip(*(plan[n].to_pylist() for n in names), strict=True):
        if point is not None and values is not None:
            found.setdefault(campaign, {}).setdefault(round_, {})[point] = json.loads(values)
    return {
        campaign: {round_: [points[i] for i in sorted(points)] for round_, points in rounds.items()}
        for campaign, rounds in found.items()
    }
