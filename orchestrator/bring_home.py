"""Bringing a run home: from the URI of a storage, or by ssh from another machine's disk."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath

from orchestrator.folder import held
from orchestrator.remote import is_uri
from orchestrator.store import StoreError, current, opened
from orchestrator.yaml_file import shown

REMOTE = re.compile(r"(?P<host>[A-Za-z0-9_][\w.-]*(@[A-Za-z0-9_][\w.-]*)?):(?P<path>[^:]+)")
LEFT_THERE = (".lock", ".id", "unsent", "*.tmp")


def fetch(run: str, out: Path | None = None) -> Path:
    """Copy a run from a URI or HOST:FOLDER into `out`, by default `runs/<its name>`; the folder.

    Again as often as you like: only what is new is copied. A run under way may be fetched; it
    then is as far as it was.

    Raises:
        StoreError: it cannot be copied, it is no run, or the folder here is in use.
    """
    folder = out if out is not None else Path("runs") / _name(run)
    if is_uri(run):
        mirror = opened(run)
        with held(folder):
            left = shutil.ignore_patterns(*LEFT_THERE)
            shutil.copytree(mirror, folder, ignore=left, dirs_exist_ok=True)
        return folder
    with held(folder):
        _copy(run, folder)
    current(folder)
    return folder


def _name(run: str) -> str:
    """The name of a run elsewhere: the last part of its path."""
    found = re.match(r"[^?]*", run) if is_uri(run) else REMOTE.fullmatch(run)
    name = PurePosixPath(found[0].partition(":")[2]).name if found else ""
    if not name:
        example = "as s3://bucket/runs/depth or head:rulesweep-runs/depth"
        raise StoreError(f"run {shown(run)}: should be a URI or HOST:FOLDER, {example}")
    return name


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
