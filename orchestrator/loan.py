"""What another run lends to a study: its finished rows, and the weights that it kept."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.mirror import Mirror
from orchestrator.part_files import StoreError
from orchestrator.remote import is_uri
from orchestrator.results import every_result, newest
from orchestrator.weights import COLUMN, path_of, with_weights


class Loan:
    """A run, in a folder or at a URI, that a study takes from what it wants and lacks."""

    def __init__(self, run: str | Path, *, weights: bool = False) -> None:
        """Read the run's table; `weights` go with the rows where the run has them.

        Raises:
            StoreError: no run folder.
        """
        table = every_result(run)
        self._table = table.filter(pc.not_equal(table["status"], "failed"))
        self._places = newest(self._table)
        self._mirror = Mirror(str(run)) if weights and is_uri(run) else None
        self._folder = self._mirror.folder if self._mirror else Path(run)
        self._kept = self._names() if weights else set()

    def _names(self) -> set[str]:
        """The files that the run has of weights, as paths in its folder."""
        if self._mirror is not None:
            return {name for name in self._mirror.remote.entries() if name.startswith("weights/")}
        return {f"weights/{path.name}" for path in (self._folder / "weights").glob("*.npz")}

    def rows(self, ids: Iterable[str]) -> pa.Table:
        """The finished rows of these trials, with their weights as a worker sends them."""
        places = [self._places[i] for i in ids if i in self._places]
        found = self._table.take(pa.array(places, pa.int64()))
        files = [{COLUMN: self._file(trial)} for trial in found["trial"].to_pylist()]
        return with_weights(found, files)

    def _file(self, trial: str) -> bytes | None:
        """The bytes of a network's weights; whoever loads them sees whether they are whole."""
        path = path_of(Path(), trial)
        if path.as_posix() not in self._kept:
            return None
        if self._mirror is not None:
            self._mirror.fetch(path.as_posix())
        try:
            return (self._folder / path).read_bytes()
        except FileNotFoundError:  # gone since
            return None
        except OSError as error:
            raise StoreError(f"{self._folder / path} cannot be read: {error.strerror}") from None
