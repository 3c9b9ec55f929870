"""A run folder: its one driver at a time, and the files that say what ran, where and how."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orchestrator.campaign import campaigns
from orchestrator.cell import short_hash
from orchestrator.grid import Grid
from orchestrator.lease import leased
from orchestrator.mirror import TEXTS, Mirror
from orchestrator.remote import is_uri
from orchestrator.spec import dump
from orchestrator.store import StoreError, durable
from rules import catalog
from rules.sources import citation

LIBRARIES = ("rulesweep", "torch", "ray", "optuna", "numpy", "pandas", "pyarrow", "scipy")


def study_id(grid: Grid) -> str:
    """A hash of all that decides which networks the study wants."""
    cells = [[e.cell.rule.label, e.cell.content, e.seeds] for e in grid.evaluations]
    spaces = sorted(
        {(e.cell.rule.label, e.cell.rule.space, e.cell.rule.fixed) for e in grid.evaluations}
    )
    return short_hash([grid.study.name, cells, spaces, grid.study.search.model_dump(mode="json")])


@contextmanager
def driven(
    run: str | Path, within: str = "", *, take_over: bool = False
) -> Iterator[tuple[Path, Mirror | None]]:
    """Be the one driver of a run: its folder, and what that mirrors where the run is at a URI.

    Args:
        run: a run folder, or the URI of one.
        within: the part of it that a shard drives, or nothing.
        take_over: take a run at a URI from the driver that holds it.

    Raises:
        StoreError: another driver holds the run, or it cannot be written.
    """
    if not str(run) or "\0" in str(run):
        raise StoreError(f"run folder {str(run)!r}: that is no name of a folder; give another")
    if not is_uri(run):
        if take_over:
            raise StoreError(
                f"--take-over: {run} is a folder, whose lock goes with its driver; "
                "only a run at a URI can be taken over"
            )
        with held(Path(run) / within):
            yield Path(run), None
        return
    mirror = Mirror(str(run), within)
    with (
        held(mirror.folder / within, str(run)),
        leased(mirror.remote, mirror.id, within, over=take_over) as lease,
    ):
        mirror.guard = lease.check
        mirror.pull()
        mirror.fetch(mirror.log)
        mirror.send()
        try:
            yield mirror.folder, mirror
        finally:
            _publish_log(mirror)


def _publish_log(mirror: Mirror) -> None:
    """A run's end, or what ended it, is not hidden by a storage that takes no log."""
    try:
        mirror.publish(mirror.log)
    except StoreError as error:
        logging.getLogger("rulesweep").warning("the log was not put into the storage: %s", error)


@contextmanager
def held(folder: Path, name: str = "") -> Iterator[None]:
    """Be the folder's one driver; the lock goes with the process, however that ends.

    `name` is what the user calls the folder, where that is not its path.

    Raises:
        StoreError: another driver holds the folder, or it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a+")
    except OSError as error:
        raise StoreError(
            f"run folder {folder} cannot be written: {error.strerror}; give another with --out"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise StoreError(
                f"run folder {name or folder} is in use by {holder}; wait for it, stop it, "
                "or give another with --out"
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        yield


def describe(
    folder: Path,
    grid: Grid,
    source: Path | None,
    paths: Sequence[str],
    mirror: Mirror | None = None,
) -> None:
    """Write down the study, as given and as resolved, and the environment it runs in."""
    if source is not None and source.is_file():
        write_text(folder / "study.given.yaml", source.read_text())
    write_text(folder / "study.yaml", dump(grid.study))
    cells = [{"label": e.cell.rule.label, **e.cell.as_dict()} for e in grid.evaluations]
    resolved = {
        "study_id": study_id(grid),
        "name": grid.study.name,
        "paths": list(paths),
        "campaigns": [[c.cells[0].rule.label, c.id] for c in campaigns(grid)],
        "shapes": [e.cell.place for e in grid.evaluations],
        "cells": cells,
        "sources": sources(grid),
    }
    write_text(folder / "resolved.json", _in_lines(resolved))
    write_text(folder / "environment.json", json.dumps(environment(), indent=1) + "\n")
    if mirror is not None:
        mirror.set_aside()
        mirror.publish(*TEXTS)


def _in_lines(content: Mapping[str, Any]) -> str:
    """JSON with a line for every entry of a list: a cell a line."""

    def told(value: Any) -> str:
        if not isinstance(value, list):
            return json.dumps(value)
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"

    return "{\n " + ",\n ".join(f"{json.dumps(k)}: {told(v)}" for k, v in content.items()) + "\n}\n"


def sources(grid: Grid) -> dict[str, list[dict[str, str]]]:
    """By label, where the rules come from: each source in one line, and as BibTeX."""
    names = {e.cell.rule.label: e.cell.rule.name for e in grid.evaluations}
    return {
        label: [{"citation": citation(e), "bibtex": e} for e in catalog.sources(name)]
        for label, name in names.items()
    }


def write_text(path: Path, text: str) -> None:
    """Replace a text file as a whole, where its content is new.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        if not path.is_file() or path.read_text() != text:
            durable(path, lambda file: file.write(text.encode()))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error


def environment() -> dict[str, Any]:
    """What a row's numbers may depend on: versions, machine, revision, command."""
    return {
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "git": revision(Path.cwd()),
        "command": sys.argv,
        "MKL_CBWR": os.environ.get("MKL_CBWR"),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def revision(folder: Path) -> str:
    """The git revision of a folder, with a + where its files have changed; empty outside git."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        head = git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if head and git("status", "--porcelain") else "")
    except OSError:  # no git on this machine
        return ""


def log_to(folder: Path) -> logging.Logger:
    """Send rulesweep's, Ray's and Optuna's own messages to run.log, and only there."""
    for name in ("rulesweep", "ray", "optuna"):
        handler = logging.FileHandler(folder / "run.log")  # one each: Ray sets its own format
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger(name)
        for old in [h for h in logger.handlers if isinstance(h, logging.FileHandler)]:
            logger.removeHandler(old)
            old.close()
        logger.addHandler(handler)
        logger.propagate = False
    logging.raiseExceptions = False  # a full disk is told once, by the table's writer
    logging.getLogger("rulesweep").setLevel(logging.INFO)
    return logging.getLogger("rulesweep")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
