"""What was drawn into a folder, so that files which a smaller study no longer has go away."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from orchestrator import store

LIST = ".drawn.json"
"""Of a folder of figures: every file that was drawn there, with the hash of its bytes."""


def replace_list(folder: Path, written: Iterable[Path]) -> list[Path]:
    """Note the files just drawn, and delete those drawn before and not now; the paths deleted.

    A file that was not drawn here, or that somebody has changed since, stays.
    """
    if not folder.is_dir():
        return []
    now = {path.name: _digest(path) for path in written}
    before = {folder / name: digest for name, digest in _listed(folder).items() if name not in now}
    gone = [path for path, digest in before.items() if path.is_file() and _digest(path) == digest]
    for path in gone:
        path.unlink()
    text = json.dumps(now, indent=1, sort_keys=True) + "\n"
    store.durable(folder / LIST, lambda file: file.write(text.encode()))
    return gone


def _listed(folder: Path) -> dict[str, str]:
    """The files of the list by name; none where there is no list, or none that can be read."""
    try:
        found = dict(json.loads((folder / LIST).read_text()))
    except (OSError, ValueError, TypeError):
        return {}
    return {name: digest for name, digest in found.items() if name == Path(name).name}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
