"""Bringing a run home from another machine's disk, by ssh."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath

from orchestrator.folder import held
from orchestrator.store import StoreError, current
from orchestrator.yaml_file import shown

REMOTE = re.compile(r"(?P<host>[A-Za-z0-9_][\w.-]*(@[A-Za-z0-9_][\w.-]*)?):(?P<path>[^:]+)")
LEFT_THERE = (".lock", "ray", "*.tmp")


def fetch(run: str, out: Path | None = None) -> Path:
    """Copy a run from HOST:FOLDER into `out`, by default `runs/<its name>`; the folder.

    Again as often as you like: only what is new is copied. A run under way may be fetched; it
    then is as far as it was.

    Raises:
        StoreError: it cannot be copied, it is no run, or the folder here is in use.
    """
    found = REMOTE.fullmatch(run)
    if found is None:
        raise StoreError(f"run {shown(run)}: should be HOST:FOLDER, as head:rulesweep-runs/depth")
    folder = out if out is not None else Path("runs") / PurePosixPath(found["path"]).name
    with held(folder):
        _copy(run, folder)
    current(folder)
    return folder


def _copy(run: str, folder: Path) -> None:
    left = [f"--exclude={name}" for name in LEFT_THERE]
    words = ["rsync", "--archive", *left, "--", f"{run.rstrip('/')}/", f"{folder}/"]
    try:
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError:
        raise StoreError("fetch needs rsync, here and there; install it") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"rsync ends with {done.returncode}"]
        raise StoreError(f"run {run} cannot be copied: {lines[0]}")
