"""The only door to Parquet: files whole or not there, and the damaged ones named on reading."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from orchestrator.columns import COLUMNS, SCHEMA, TABLE_VERSION, Column

PARQUET: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,  # smaller and faster for parts of a few rows
    "write_statistics": False,
}


LARGEST = 8 * 2**30
"""Bytes that a part may hold uncompressed: a few kilobytes can be made to claim any number."""


class StoreError(RuntimeError):
    """A run folder that cannot be read or written; the message is one line for the user."""


def durable(path: Path, write: Callable[[Any], object]) -> None:
    """Write a file aside, flush it to the disk, and rename it: it is whole or not there."""
    writer = f"{socket.gethostname()}-{os.getpid()}"  # shards may write one file at once
    aside = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        with aside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # a full disk needs the room
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def write_part(folder: Path, number: int, table: pa.Table) -> Path:
    """Write a part of a run's table; when this returns it is there to stay.

    Its name ends in the hash of its bytes, so that a damaged part is known from a whole one.

    Raises:
        StoreError: no room, or no right to write.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **PARQUET)
    content = sink.getvalue()
    path = folder / "trials" / f"part-{number:08d}-{_digest(content)}.parquet"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable(path, lambda file: file.write(content))
    except OSError as error:
        raise StoreError(
            f"the table cannot be written to {path.parent}: {error.strerror}; "
            "mend that and run again: nothing is lost"
        ) from error
    return path


def read_parts(
    folder: Path, *, owner: bool = False, columns: Collection[str] = ()
) -> list[tuple[Path, pa.Table]]:
    """Every whole part of a table, oldest first, or some columns of it; a damaged one is named.

    The owner of the folder sets such parts aside, and what a kill left half written: they are
    moved to `damaged/` and never deleted, and their networks train again.

    Raises:
        StoreError: the owner meets a part that a newer rulesweep wrote.
    """
    read: dict[Path, pa.Table | None] = {}  # None: not to be read
    while True:
        paths = sorted((folder / "trials").glob("part-*.parquet"))
        read |= {path: _read(path, columns, owner=owner) for path in paths if path not in read}
        if all(map(os.path.lexists, paths)):  # none was merged into another meanwhile
            break
    for path in (folder / "trials").glob(".part-*.tmp") if owner else ():
        _set_aside(path)
    return [(path, table) for path in paths if (table := read[path]) is not None]


def _read(path: Path, columns: Collection[str], *, owner: bool) -> pa.Table | None:
    """A part, or nothing where it is damaged, or gone by now."""
    try:
        return _whole(path, columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        if not os.path.lexists(path):
            return None
        reason = str(error).partition("\n")[0]
        if owner and isinstance(error, NewerError):
            raise StoreError(f"{path}: {reason}; run the study with that one") from error
        end = f"it is set aside in {_set_aside(path)}" if owner else "it is left out"
        sys.stderr.write(f"rulesweep: {path} cannot be read, {end}: {reason}\n")
        return None


def shard_folders(run: Path) -> list[Path]:
    """The parts of a run folder in which shards write: each has a table of its own."""
    return sorted(path for path in (run / "shards").glob("*-of-*") if path.is_dir())


def read_run(run: Path, columns: Collection[str] = ()) -> list[tuple[Path, pa.Table]]:
    """The parts of a run's table and of its shards' tables, for readers."""
    folders = (run, *shard_folders(run))
    return [part for folder in folders for part in read_parts(folder, columns=columns)]


class NewerError(ValueError):
    """A part of a later version of the table."""


def _set_aside(path: Path) -> Path:
    """Move a part to the run's folder of damaged parts, under a name of its own."""
    folder = path.parents[1] / "damaged"
    folder.mkdir(exist_ok=True)
    taken = sum(name.name.startswith(path.name) for name in folder.iterdir())
    return path.rename(folder / (path.name + (f".{taken}" if taken else "")))


def _digest(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def is_whole(path: Path, content: bytes | None = None) -> bool:
    """Whether a part's bytes are those that were written, as far as its name tells."""
    written = _written(path)
    return not written or written == _digest(path.read_bytes() if content is None else content)


def _written(path: Path) -> str:
    """The hash of the bytes that were written, as a part's name tells; older parts do not."""
    return path.stem.removeprefix("part-").partition("-")[2]


def _whole(path: Path, columns: Collection[str]) -> pa.Table:
    content = path.read_bytes()
    if not is_whole(path, content):
        raise ValueError("its bytes are not those that were written")
    file = pq.ParquetFile(pa.BufferReader(content))
    groups = (file.metadata.row_group(i) for i in range(file.num_row_groups))
    if sum(group.total_byte_size for group in groups) > LARGEST:
        raise ValueError(f"it would fill more than {LARGEST // 2**30} GiB of memory")
    _refuse_other_version(file.schema_arrow)
    there = {*file.schema_arrow.names}
    if not {"trial", "status"} <= there:
        raise ValueError("it has no columns `trial` and `status`")
    wanted = [column for column in COLUMNS if column.name in columns or not columns]
    names = [c.name for c in wanted if c.name in there] if _written(path) else None
    table = file.read(names, use_threads=False)  # whole, where only reading shows damage
    schema = pa.schema([SCHEMA.field(column.name) for column in wanted], SCHEMA.metadata)
    if table.schema.equals(schema):
        return table
    return pa.table([_column(table, column) for column in wanted], schema=schema)


def _refuse_other_version(schema: pa.Schema) -> None:
    version = (schema.metadata or {}).get(b"rulesweep.table", b"none").decode()
    if version != str(TABLE_VERSION):
        newer = version.isdigit() and int(version) > TABLE_VERSION
        kind = NewerError if newer else ValueError
        raise kind(f"table version {version}, this rulesweep reads {TABLE_VERSION}")


def _column(table: pa.Table, column: Column) -> pa.ChunkedArray | pa.Array:
    """A column of a part; one that this part's rulesweep did not have yet is its default."""
    if column.name in table.column_names:
        return table[column.name].cast(column.dtype)
    return pa.repeat(pa.scalar(column.default, column.dtype), table.num_rows)


def last_number(folder: Path) -> int:
    """The highest number of a part, readable or not: no part is ever written over."""
    names = (path.stem.split("-")[1] for path in (folder / "trials").glob("part-*.parquet"))
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
