"""The trial table as its one writer sees it: what is answered, what was asked, and appending.

What readers see is in `results`, and can be had from here.
"""

from __future__ import annotations

import json
from collections import defaultdict
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
"""Small parts in a folder, above which its driver merges them into one."""

SMALL = 4096
"""Rows of a part, below which it is small: readers need as long to open it as to read it."""

ANSWER = (
    "status",
    "validation_loss",
    "validation_accuracy",
    "initial_loss",
    "chance_accuracy",
    "source",
)
"""What a run needs to know of a finished network: what chooses, and whose code trained it."""

PLAN = ("trial", *SLOT)
"""What a plan row says that a study wants: a network, and what for."""

READ = ("hyperparameters", "study_id", *PLAN, *ANSWER)
"""The columns that a run needs of what is in the table."""


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
        parts = read_parts(self.folder, owner=owner, columns=READ)
        others = [folder for folder in (run, *shard_folders(run)) if folder != self.folder]
        read = [part for other in others for part in read_parts(other, columns=READ)]
        table = merged([*read, *parts])
        self._next = 1 + last_number(self.folder)
        self.answers = self._answers(table)
        plans = table.filter(pc.equal(table["status"], "pending"))
        self.asked, self.planned = _asked(plans), _planned(plans)
        self._loan: Loan | None = None
        self._small: list[tuple[Path, pa.Table]] = []  # written since, to be merged
        if owner and sum(part.num_rows < SMALL for _, part in parts) > PARTS:
            self._merge(read_parts(self.folder))  # all, for the newest of a trial's rows counts

    def append(self, table: pa.Table) -> None:
        """Put rows on the disk; when this returns they are there to stay."""
        name = write_part(self._table, self._next, table).name
        if self.mirror is not None:
            self.mirror.send()
        self._next += 1
        if table.num_rows < SMALL:
            self._small.append((self.folder / "trials" / name, table))
        if len(self._small) > PARTS:
            self._merge(self._small)

    def plan(self, study_id: str, rows: Mapping[tuple[Any, ...], Mapping[str, Any]]) -> None:
        """Write down what a study wants: rows by their values of `PLAN`."""
        self.append(table_of([*rows.values()]))
        self.planned[study_id].update(rows)

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

    def _merge(self, parts: Sequence[tuple[Path, pa.Table]]) -> None:
        """Put the rows of parts into one of their own, and then delete them."""
        table = merged(parts)
        rows = sorted({*newest(table).values(), *_plan_rows(table)})
        self._small = []
        self.append(table.take(pa.array(rows, pa.int64())))
        if self.mirror is not None:
            self.mirror.drop(*(path for path, _ in parts))
        else:
            for path, _ in parts:
                path.unlink(missing_ok=True)


def _plan_rows(table: pa.Table) -> list[int]:
    return [row for row, status in enumerate(table["status"].to_pylist()) if status == "pending"]


def _planned(plans: pa.Table) -> defaultdict[str, set[tuple[Any, ...]]]:
    """By study, the values of `PLAN` in its plan rows."""
    found: defaultdict[str, set[tuple[Any, ...]]] = defaultdict(set)
    for study_id in plans["study_id"].unique().to_pylist():
        own = plans.filter(pc.equal(plans["study_id"], study_id))
        found[study_id] = set(zip(*(own[name].to_pylist() for name in PLAN), strict=True))
    return found


def _asked(plans: pa.Table) -> dict[str, dict[int, list[dict[str, float]]]]:
    """The points that each campaign asked in each round, in their order."""
    told = plans.filter(pc.and_(plans["point"].is_valid(), plans["hyperparameters"].is_valid()))
    points = told.group_by(["campaign", "round", "point"], use_threads=False)
    each = points.aggregate([("hyperparameters", "last")])
    found: dict[str, dict[int, dict[int, dict[str, float]]]] = {}
    for campaign, round_, point, values in zip(*(c.to_pylist() for c in each), strict=True):
        found.setdefault(campaign, {}).setdefault(round_, {})[point] = json.loads(values)
    return {
        campaign: {round_: [points[i] for i in sorted(points)] for round_, points in rounds.items()}
        for campaign, rounds in found.items()
    }
