"""The trial table: what a study wants and what training gave; one writer, any reader.

A part holds rows of two sorts. A *plan* row (status pending) says that a study wants a network,
and why; it is written before the network trains. A *result* row says what training it gave. Rows
of one network share its trial id; of several results the newest counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.columns import COLUMNS, SCHEMA, Column, named, table_of
from orchestrator.mirror import Mirror, opened
from orchestrator.part_files import (
    StoreError,
    durable,
    last_number,
    read_parts,
    read_run,
    shard_folders,
    write_part,
    write_table,
)
from orchestrator.row_order import in_order
from orchestrator.weights import put_down

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "Column",
    "Store",
    "StoreError",
    "durable",
    "named",
    "opened",
    "shard_folders",
    "trials",
]

PARTS = 64
"""Parts in a folder above which a starting run merges them into one."""

LARGEST = 256 * 2**20
"""Bytes of a run's description that are read; a study of ten thousand cells has about 20 MB."""

SLOT = (
    "phase",
    "campaign",
    "round",
    "point",
    "label",
    "dataset",
    "depth",
    "width",
    "activation",
    "residual",
    "init_seed",
    "feedback_seed",
)
"""What a plan row is for; one planned before its rate was known gives way to one with a rate."""

ANSWER = (
    "status",
    "validation_loss",
    "validation_accuracy",
    "initial_loss",
    "chance_accuracy",
    "source",
)
"""What a run needs to know of a finished network: what chooses, and whose code trained it."""


def _merged(parts: Sequence[tuple[Path, pa.Table]]) -> pa.Table:
    tables = [table for _, table in parts]
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def newest(table: pa.Table) -> dict[str, int]:
    """The row of the newest result of every trial id."""
    ids, statuses = table["trial"].to_pylist(), table["status"].to_pylist()
    return {
        i: row
        for row, (i, status) in enumerate(zip(ids, statuses, strict=True))
        if status != "pending"
    }


def planned(table: pa.Table, study_id: str) -> list[int]:
    """The plan rows of a study, one a slot, in the order of planning.

    A row planned before its rate was known gives way to the row that names the trial.
    """
    wanted = [
        row
        for row, (status, study) in enumerate(
            zip(table["status"].to_pylist(), table["study_id"].to_pylist(), strict=True)
        )
        if status == "pending" and study == study_id
    ]
    slots = zip(*(table[name].to_pylist() for name in SLOT), strict=True)
    keys, trials_of, chosen = list(slots), table["trial"].to_pylist(), {}
    for row in wanted:
        if keys[row] not in chosen or trials_of[row] is not None:
            chosen[keys[row]] = row
    return list(chosen.values())


def trials(run: str | Path) -> pa.Table:
    """The trial table of a run, in a folder or at a URI: a row a network of its current study.

    Networks that are planned but not trained have status pending and null results. Neither
    torch nor the study's code is needed.

    Raises:
        StoreError: no run folder.
    """
    folder = opened(run)
    table, content = _merged(read_run(folder)), current(folder)
    rows = in_order(planned(table, str(content["study_id"])), table, content)
    results = newest(table)
    ids = table["trial"].to_pylist()
    found = pa.array([results.get(ids[row]) for row in rows], pa.int64())
    plan, result = table.take(pa.array(rows, pa.int64())), table.take(found)
    columns = {name: plan[name] for name in named("coordinate", "plan")}
    columns |= {name: result[name] for name in named("result", "provenance")}
    columns["status"] = columns["status"].fill_null("pending")
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def every_result(run: str | Path) -> pa.Table:
    """The newest result of every trial in the folder, whatever study wanted it."""
    folder = opened(run)
    current(folder)
    table = _merged(read_run(folder))
    return table.take(pa.array(list(newest(table).values()), pa.int64()))


def current(run: Path) -> dict[str, Any]:
    """What `resolved.json` says of the folder's current study.

    Raises:
        StoreError: the folder holds no run, or that file is damaged.
    """
    path = run / "resolved.json"
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError("it is too large")
        content = json.loads(path.read_text())
        content["study_id"]
    except FileNotFoundError:
        raise StoreError(f"{run} is no run folder: there is no {path.name} in it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} cannot be read: {error}; run the study again") from None
    return dict(content)


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
        table = _merged([*(part for other in others for part in read_parts(other)), *parts])
        self._next = 1 + last_number(self.folder)
        self.answers = self._answers(table)
        self.asked = _asked(table)
        self._planned = _plan_keys(table.filter(pc.equal(table["status"], "pending")))
        self._lent, self._lent_rows = SCHEMA.empty_table(), dict[str, int]()
        if owner and len(parts) > PARTS:
            self._compact(_merged(parts), [path for path, _ in parts])

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

    def lend(self, run: str | Path) -> None:
        """Let `borrow` take finished rows from another run's table.

        Raises:
            StoreError: no run folder.
        """
        table = every_result(run)
        self._lent = table.filter(pc.not_equal(table["status"], "failed"))
        self._lent_rows = newest(self._lent)

    def borrow(self, ids: Iterable[str]) -> int:
        """Copy those of these trials' rows that another run has and this one lacks; how many."""
        rows = [self._lent_rows[i] for i in ids if i in self._lent_rows and i not in self.answers]
        if rows:
            self.add(self._lent.take(pa.array(rows, pa.int64())))
        return len(rows)

    def absorb(self, folders: Sequence[Path]) -> int:
        """Write the rows of shards into this table; the number of their results."""
        table = _merged([part for folder in folders for part in read_parts(folder)])
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


def export(run: str | Path, path: Path, format: str, *, everything: bool = False) -> int:
    """Write a run's table to one `csv` or `parquet` file; returns the number of rows.

    With `everything` also results that the current study does not want.
    """
    table = every_result(run) if everything else trials(run)
    write_table(table, path, format)
    return int(table.num_rows)
