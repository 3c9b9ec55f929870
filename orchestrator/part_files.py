"""The only door to Parquet: files whole or not there, and the damaged ones named on reading."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from orchestrator.columns import SCHEMA, TABLE_VERSION

PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,  # smaller and faster for parts of a few rows
    "write_statistics": False,
}


class StoreError(RuntimeError):
    """A run folder that cannot be read or written; the message is one line for the user."""


def durable(path: Path, write: Callable[[Any], object]) -> None:
    """Write a file aside, flush it to the disk, and rename it: it is whole or not there."""
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def write_part(folder: Path, number: int, table: pa.Table) -> None:
    """Write a part of a run's table; when this returns it is there to stay.

    Raises:
        StoreError: no room, or no right to write.
    """
    path = folder / "trials" / f"part-{number:08d}.parquet"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable(path, lambda file: pq.write_table(table, file, **PARQUET))
    except OSError as error:
        raise StoreError(
            f"the table cannot be written to {path.parent}: {error.strerror}; "
            "mend that and run again: nothing is lost"
        ) from error


def read_parts(folder: Path) -> list[tuple[Path, pa.Table]]:
    """Every readable part of a table, oldest first; an unreadable one is named and skipped."""
    parts = []
    for path in sorted((folder / "trials").glob("part-*.parquet")):
        try:
            parts.append((path, _checked(pq.ParquetFile(path).read(use_threads=False))))
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            sys.stderr.write(f"rulesweep: {path} is left out, it cannot be read: {reason}\n")
    return parts


def _checked(table: pa.Table) -> pa.Table:
    version = (table.schema.metadata or {}).get(b"rulesweep.table", b"none").decode()
    if version != str(TABLE_VERSION):
        raise ValueError(f"table version {version}, this rulesweep reads {TABLE_VERSION}")
    if table.schema.equals(SCHEMA):
        return table
    if not {"trial", "status"} <= set(table.column_names):
        raise ValueError("it has no columns `trial` and `status`")
    columns = {field.name: _column(table, field) for field in SCHEMA}
    return pa.table(columns, schema=SCHEMA)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """A column of a part; one that this part's rulesweep did not have yet is null."""
    if field.name in table.column_names:
        return table[field.name].cast(field.type)
    return pa.nulls(table.num_rows, field.type)


def last_number(folder: Path) -> int:
    """The highest number of a part, readable or not: no part is ever written over."""
    names = (path.stem.removeprefix("part-") for path in (folder / "trials").glob("part-*.parquet"))
    return max((int(name) for name in names if name.isdigit()), default=0)


def write_table(table: pa.Table, path: Path, format: str) -> None:
    """Write a table as one `csv` or `parquet` file; in CSV, lists are JSON.

    Raises:
        StoreError: it cannot be written there.
    """
    if format == "csv":
        names, columns = table.column_names, table.columns
        flat = [_as_text(c) if pa.types.is_list(c.type) else c for c in columns]
        table = pa.table(flat, names=names)
    write = pq.write_table if format == "parquet" else pacsv.write_csv
    try:
        durable(path, lambda file: write(table, file))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    texts = [None if value is None else json.dumps(value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())
