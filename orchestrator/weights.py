"""Trained weights in a run folder: one npz file a network, whole or not there."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from orchestrator.part_files import StoreError, durable

Arrays = list[NDArray[Any]]

COLUMN = "weights"
"""Where a worker's rows carry the files; no column of the table."""

HEADER = 1024
"""Bytes of an array's name, shape and dtype in a file, at most."""


def as_npz(trial: str, weights: Arrays, biases: Arrays) -> bytes:
    """One network as a file: W1.. (fan_in, fan_out), b1.. (1, fan_out), and its trial id."""
    arrays: dict[str, Any] = {f"W{l}": array for l, array in enumerate(weights, start=1)}
    arrays |= {f"b{l}": array for l, array in enumerate(biases, start=1)}
    file = io.BytesIO()
    np.savez(file, trial=np.array(trial), **arrays)
    return file.getvalue()


def with_weights(table: pa.Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A worker's table, with the files of those rows that have one under `weights`."""
    files = [row.get(COLUMN) for row in rows]
    if not any(files):
        return table
    return table.append_column(COLUMN, pa.array(files, pa.large_binary()))


def put_down(folder: Path, table: pa.Table) -> pa.Table:
    """Write the files that a worker's table carries; the table without them.

    Raises:
        StoreError: no room, or no right to write.
    """
    if COLUMN not in table.column_names:
        return table
    try:
        (folder / "weights").mkdir(exist_ok=True)
        for trial, file in zip(table["trial"].to_pylist(), table[COLUMN], strict=True):
            if file.is_valid:
                durable(path_of(folder, trial), partial(_write, file.as_buffer()))
    except OSError as error:
        raise StoreError(
            f"weights cannot be written to {folder / 'weights'}: {error.strerror}; "
            "mend that and run again: nothing is lost"
        ) from error
    return table.drop_columns(COLUMN)


def _write(content: pa.Buffer, file: Any) -> None:
    file.write(content)


def path_of(folder: Path, trial: str) -> Path:
    """Where the weights of a trial lie."""
    return folder / "weights" / f"{trial}.npz"


def read(
    folder: Path, trial: str, wanted: Mapping[str, tuple[int, int]], dtype: str
) -> dict[str, NDArray[Any]] | None:
    """A trial's arrays of these names and shapes.

    None where there is no such file, or where it is none of this network: that is said in a line.
    """
    path = path_of(folder, trial)
    try:
        return _loaded(path, trial, wanted, np.dtype(dtype))
    except FileNotFoundError:
        reason = "it is not there"
    except Exception as error:  # whatever a damaged or a stranger's file makes its reader raise
        reason = str(error).partition("\n")[0] or type(error).__name__
    sys.stderr.write(f"rulesweep: {path} is not used, {reason}; the network is trained again\n")
    return None


def _loaded(
    path: Path, trial: str, wanted: Mapping[str, tuple[int, int]], dtype: np.dtype[Any]
) -> dict[str, NDArray[Any]]:
    """The arrays, or an error that says what is wrong with the file."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no npz file")
    with np.load(path, allow_pickle=False) as found:
        members = [*wanted, "trial"]
        size = sum(member.file_size for member in found.zip.infolist())
        most = sum(a * b * dtype.itemsize for a, b in wanted.values()) + HEADER * len(members)
        if sorted(found.files) != sorted(members) or size > most:
            raise ValueError("it holds other arrays")
        if str(found["trial"]) != trial:
            raise ValueError("it is another network's")
        arrays = {name: found[name] for name in wanted}
    for name, array in arrays.items():
        if array.shape != wanted[name] or array.dtype != dtype:
            told = f"{array.dtype} {array.shape}, not {dtype} {wanted[name]}"
            raise ValueError(f"{name} is {told}")
    return arrays
