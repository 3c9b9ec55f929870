"""The local mirror of a run in a storage: everything reads it, and its driver writes through it.

The URI holds the truth. What a driver writes goes to the mirror's folder `unsent`, then into the
storage, then to its place in the mirror; so what lies in the mirror's `trials` is in the storage,
or was, and rows that no put brought there are sent by the next run from this machine.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from orchestrator.part_files import StoreError, is_whole
from orchestrator.remote import Entry, Remote, is_uri

TEXTS = ("study.given.yaml", "study.yaml", "environment.json", "resolved.json")
"""The files beside the table that say what ran; the last makes a folder a run."""

MANY = 200
"""Files to copy, above which a person is told."""

ROUNDS = 5
"""Looks at a storage whose objects vanish while they are copied: a driver merges the parts."""

AT_ONCE = 8
"""Requests under way at a time, where order does not matter."""


class Mirror:
    """A run at a URI and its local folder."""

    def __init__(self, uri: str, within: str = "") -> None:
        """Find the storage; a shard writes `within` a part of the run, and has its own `unsent`.

        Raises:
            StoreError: there is none at the URI, or the cache cannot be written.
        """
        self.remote = Remote(uri)
        self.folder = _folder(self.remote.uri)
        self._part = self.folder / within
        self.log = PurePosixPath(within, "run.log").as_posix()
        self.unsent = self.folder / "unsent" / (PurePosixPath(within).name or "run")
        self.unsent.mkdir(parents=True, exist_ok=True)
        self.guard: Callable[[], None] = lambda: None  # a driver's look at its lease

    @property
    def id(self) -> str:
        """A name that no other mirror has, on whatever machine."""
        path = self.folder / ".id"
        if not path.exists():
            _place(path, secrets.token_hex(8).encode())
        return path.read_text()

    def pull(self) -> Path:
        """Copy what readers need and the mirror lacks, drop parts that are gone; the folder.

        Raises:
            StoreError: the storage does not answer.
        """
        parts = self.folder.rglob("trials/part-*.parquet")
        before = {path for path in parts if self.folder / "unsent" not in path.parents}
        for _ in range(ROUNDS):
            entries = {name: e for name, e in self.remote.entries().items() if _is_read(name)}
            lacking = [name for name, entry in entries.items() if self._lacks(name, entry)]
            if len(lacking) > MANY:
                sys.stderr.write(f"rulesweep: copying {len(lacking)} files of {self.remote.uri}\n")
            if all(_at_once(self.fetch, lacking)):
                break
        for path in before - {self.folder / name for name in entries}:
            path.unlink(missing_ok=True)
        return self.folder

    def fetch(self, name: str) -> bool:
        """Copy one object into the mirror; whether there is such a one."""
        content = None if ".." in PurePosixPath(name).parts else self.remote.read(name)
        if content is not None:
            _place(self.folder / name, content)
        return content is not None

    def send(self) -> None:
        """Put what was written to `unsent` into the storage, then to its place in the mirror.

        Raises:
            StoreError: the storage does not take it, or another driver has taken the run over.
        """
        waiting = [p for p in self.unsent.rglob("*") if p.is_file() and not p.name.startswith(".")]
        for path in sorted(waiting, key=lambda p: (p.parent.name == "trials", p)):  # rows last
            name = path.relative_to(self.unsent)
            self.put(path, name.as_posix())
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            path.replace(self.folder / name)

    def put(self, path: Path, name: str) -> None:
        """Put a file into the storage under a name; one PUT, so it is whole or not there.

        Raises:
            StoreError: the storage does not take it, or another driver has taken the run over.
        """
        self.guard()
        self.remote.write(name, path.read_bytes())

    def publish(self, *names: str) -> None:
        """Put files, or all in a folder, of the mirror into the storage, if they are there."""
        below = [self.folder / name for name in names]
        files = [p for top in below for p in ([top] if top.is_file() else sorted(top.rglob("*")))]
        named = [(path, self._name(path)) for path in files if path.is_file()]
        _at_once(lambda pair: self.put(*pair), named)

    def drop(self, *paths: Path) -> None:
        """Delete files of the mirror, in the storage first."""
        self.guard()
        _at_once(lambda path: self.remote.delete(self._name(path)), paths)
        for path in paths:
            path.unlink(missing_ok=True)

    def clear(self, name: str) -> None:
        """Delete a folder of the mirror and what it mirrors; what it does not have stays."""
        self.drop(*(path for path in (self.folder / name).rglob("*") if path.is_file()))
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def set_aside(self) -> None:
        """Do in the storage what was done in the mirror: damaged parts go to `damaged`."""
        for path in self._part.glob("damaged/part-*.parquet"):
            there = self._part / "trials" / path.name
            if self.remote.modified(self._name(there)) is not None:
                self.put(path, self._name(path))
                self.drop(there)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _lacks(self, name: str, entry: Entry) -> bool:
        """Whether a file is not in the mirror, or not as it was written; texts may have changed."""
        path = self.folder / name
        if path.suffix != ".parquet" or not path.is_file() or path.stat().st_size != entry.size:
            return True
        return not is_whole(path)


def opened(run: str | Path, *more: str) -> Path:
    """The folder to read a run from: the run folder, or the mirror of a URI brought up to date.

    `more` names files that a mirror does not hold by itself; they are copied if they are there.

    Raises:
        StoreError: no storage at the URI, or no run.
    """
    if not is_uri(run):
        return Path(run)
    mirror = Mirror(str(run))
    folder = mirror.pull()
    for name in more:
        mirror.fetch(name)
    if not (folder / TEXTS[-1]).exists():
        raise StoreError(f"{run} is no run folder: there is no {TEXTS[-1]} in it")
    return folder


def _is_read(name: str) -> bool:
    """Whether readers need an object: part of a table, the run's or a shard's, or one of TEXTS."""
    path = PurePosixPath(name)
    if path.parent.name == "trials":
        return path.match("part-*.parquet")
    return name in TEXTS


def _at_once(call: Callable[..., object], arguments: Iterable[object]) -> list[object]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(call, arguments))


def _place(path: Path, content: bytes) -> None:
    """Write a file of the mirror, whole or not there, beside others who do the same."""
    if path.is_file() and path.read_bytes() == content:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix=".pulled-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(aside).replace(path)
    except OSError as error:
        raise _no_cache(path, error) from error


def _folder(uri: str) -> Path:
    """The mirror's folder in the user's cache, made; nobody else may read it."""
    import pooch

    root = os.environ.get("RULESWEEP_CACHE") or pooch.os_cache("rulesweep")
    key = hashlib.sha256(uri.encode()).hexdigest()[:12]
    folder = Path(root).expanduser() / "mirrors" / f"{PurePosixPath(uri.split('?')[0]).name}-{key}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _no_cache(folder, error) from error
    return folder


def _no_cache(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror}; choose another folder for copies of runs "
        "in storages with RULESWEEP_CACHE"
    )
