"""What a run's table says to its readers: its rows, what is planned, and the newest results.

A part holds rows of two sorts. A *plan* row (status pending) says that a study wants a network,
and why; it is written before the network trains. A *result* row says what training it gave. Rows
of one network share its trial id; of several results the newest counts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.columns import SCHEMA, named
from orchestrator.mirror import opened
from orchestrator.part_files import StoreError, read_run, write_table
from orchestrator.row_order import in_order

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


def merged(parts: Sequence[tuple[Path, pa.Table]]) -> pa.Table:
    """The rows of these parts as one table."""
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
    own = pc.equal(table["study_id"], study_id)
    wanted = pc.indices_nonzero(pc.and_(own, pc.equal(table["status"], "pending")))
    plans = table.select(("trial", *SLOT)).take(wanted)
    slots = zip(*(plans[name].to_pylist() for name in SLOT), strict=True)
    chosen: dict[tuple[Any, ...], int] = {}
    for row, trial, slot in zip(wanted.to_pylist(), plans["trial"].to_pylist(), slots, strict=True):
        if slot not in chosen or trial is not None:
            chosen[slot] = row
    return list(chosen.values())


def trials(run: str | Path, columns: Sequence[str] = ()) -> pa.Table:
    """The trial table of a run, in a folder or at a URI: a row a network of its current study.

    Networks that are planned but not trained have status pending and null results. Neither
    torch nor the study's code is needed. With `columns` only these are read, which is faster.

    Raises:
        StoreError: no run folder.
    """
    folder, names = opened(run), columns or SCHEMA.names
    needed = {"trial", "status", "study_id", *SLOT, *names}
    table, content = merged(read_run(folder, needed)), current(folder)
    rows = in_order(planned(table, str(content["study_id"])), table, content)
    plan, results = table.take(pa.array(rows, pa.int64())), newest(table)
    found = pa.array([results.get(trial) for trial in plan["trial"].to_pylist()], pa.int64())
    result, why = table.take(found), named("coordinate", "plan")
    values = {name: (plan if name in why else result)[name] for name in names}
    if "status" in values:
        values["status"] = values["status"].fill_null("pending")
    return pa.table(values, schema=pa.schema(map(SCHEMA.field, names), SCHEMA.metadata))


def every_result(run: str | Path, columns: Sequence[str] = ()) -> pa.Table:
    """The newest result of every trial in the folder, whatever study wanted it.

    With `columns` these and the trials' ids and statuses only.
    """
    folder = opened(run)
    current(folder)
    table = merged(read_run(folder, {"trial", "status", *columns} if columns else ()))
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
        content = dict(json.loads(path.read_text()))
        content["study_id"]
        for name in ("campaigns", "shapes", "cells", "paths"):
            entries = content.get(name, [])
            kinds = {type(entry) for entry in entries} if isinstance(entries, list) else {None}
            if not kinds <= {list, dict, str}:
                raise ValueError(f"{name} is no list of entries")
    except FileNotFoundError:
        raise StoreError(f"{run} is no run folder: there is no {path.name} in it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} cannot be read: {error}; run the study again") from None
    return dict(content)


def export(run: str | Path, path: Path, format: str, *, everything: bool = False) -> int:
    """Write a run's table to one `csv` or `parquet` file; returns the number of rows.

    With `everything` also results that the current study does not want.
    """
    table = every_result(run) if everything else trials(run)
    write_table(table, path, format)
    return int(table.num_rows)
