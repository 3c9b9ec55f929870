"""Files of data: where they may lie, whether they are what they should be, how to get them."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rules.dataset import Array, DataError

SYSTEM = Path("/usr/share/datasets")  # Debian's packages dataset-*
TIMEOUT = (5.0, 60.0)  # seconds: to connect, and between two chunks
ROUNDS = 2  # times that each source is tried
PAUSE = 1.0  # seconds between two rounds


@dataclass(frozen=True)
class RawFile:
    """A file as its authors published it. The digest is of its bytes uncompressed."""

    name: str  # of the uncompressed file
    digest: str  # "sha256:..." or "md5:..."
    unpack: bool = True  # False: gzipped bytes are the file itself, as for a .tar.gz

    def read(self, path: Path) -> bytes:
        """The uncompressed bytes of the copy at `path`, gzipped or not, verified.

        Raises:
            DataError: if it cannot be read, is truncated, or is another file.
        """
        try:
            content = path.read_bytes()
            if self.unpack and content[:2] == b"\x1f\x8b":  # a .gz may have lost its compression
                content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise self._refuse(path, f"found a file that cannot be read ({error})") from error
        if (found := self._digest(content)) != self.digest:
            raise self._refuse(path, f"found {found}")
        return content

    def _digest(self, content: bytes) -> str:
        algorithm = self.digest.partition(":")[0]
        return f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"

    def _refuse(self, path: Path, found: str) -> DataError:
        return DataError(
            f"{path} is corrupt, or the file of another data set: expected {self.digest} of the "
            f"{'uncompressed ' if self.unpack else ''}{self.name}, {found}; "
            f"delete (or move) {path} and fetch it again"
        )


def cache_folder() -> Path:
    """Where downloads and generated data are kept: RULESWEEP_CACHE, else the user's cache."""
    if chosen := os.environ.get("RULESWEEP_CACHE"):
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("rulesweep"))


def data_roots(data_dir: Path | None) -> list[Path]:
    """The folders to search, in order: the one given, RULESWEEP_DATA, the system's, the cache."""
    given = [data_dir, os.environ.get("RULESWEEP_DATA")]
    return [*(Path(root).expanduser() for root in given if root), SYSTEM, cache_folder()]


def locate(file: RawFile, folders: Iterable[Path]) -> Path | None:
    """The first copy of a file in these folders, gzipped or not; None where there is none."""
    candidates = (folder / name for folder in folders for name in (file.name, f"{file.name}.gz"))
    return next((path for path in candidates if path.is_file()), None)


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A path to write to, renamed to `path` at the end: no reader ever sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        aside.chmod(0o644)  # mkstemp's 0600 would shut a shared folder's other users out
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def cached_arrays(key: str, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """What `make` returns, kept in the cache as `key`.npz with its sha256 beside it.

    Made afresh where the cache holds nothing, or something else than was written; where the
    cache cannot be written, the arrays are returned all the same.
    """
    path = cache_folder() / f"{key}.npz"
    if (stored := _stored(path)) is not None:
        return stored
    arrays = make()
    with suppress(OSError):
        _store(path, arrays)
    return arrays


def _stored(path: Path) -> dict[str, Array] | None:
    try:
        content = path.read_bytes()
        expected = _beside(path).read_bytes()
    except OSError:
        return None
    if expected != _checksum(path, content):
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _store(path: Path, arrays: dict[str, Array]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    with written_aside(path) as aside:
        aside.write_bytes(buffer.getvalue())
    with written_aside(_beside(path)) as aside:
        aside.write_bytes(_checksum(path, buffer.getvalue()))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _checksum(path: Path, content: bytes) -> bytes:
    """A line as sha256sum writes and checks them."""
    return f"{hashlib.sha256(content).hexdigest()}  {path.name}\n".encode()


def download(file: RawFile, urls: Iterable[str], path: Path) -> None:
    """Download a file to `path` from the first source that has it, verified before it is there.

    Raises:
        DataError: if no source gave the file, with what the last one said.
    """
    urls = tuple(urls)
    failure: Exception | str = "no source is known"
    for attempt in range(ROUNDS):
        time.sleep(PAUSE if attempt else 0)
        for url in urls:
            try:
                return _download_once(file, url, path)
            except DataError:
                failure = f"{url} gave another file than expected"
            except OSError as error:  # what requests raises is one, too
                failure = error
    raise DataError(f"{file.name} could not be downloaded to {path.parent}: {failure}")


def _download_once(file: RawFile, url: str, path: Path) -> None:
    import pooch

    get = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None,
        chunk_size=1 << 16,
        timeout=TIMEOUT,
        hooks={"response": _close_unless_ok},
    )
    with written_aside(path) as aside:
        get(url, str(aside), None)
        file.read(aside)


def _close_unless_ok(response: Any, *_: object, **__: object) -> None:
    """A refused response is never read, and pooch would leave its socket open."""
    if not response.ok:
        response.close()
