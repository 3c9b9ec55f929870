"""Files whose first line says what they hold, and whose last bytes prove that they are whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HEAD = 2**24
"""Bytes of a first line at most."""


class Sealing:
    """A file for writing that adds up what is written to it."""

    def __init__(self, file: Any) -> None:
        self._file, self.sum = file, hashlib.sha256()

    def write(self, content: Any) -> int:
        """Write bytes."""
        self.sum.update(content)
        return int(self._file.write(content))

    def flush(self) -> None:
        """Nothing is held back here."""


def write(path: Path, head: Mapping[str, Any], body: Callable[[Any], object]) -> None:
    """Write a file aside and rename it: `head` as a line of JSON, then what `body` writes.

    It is not forced to the disk: one that a power cut left half written is known by its seal.

    Raises:
        OSError: no room, or no right to write.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            sealing = Sealing(file)
            sealing.write(json.dumps(head).encode() + b"\n")
            body(sealing)
            file.write(sealing.sum.digest())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)  # a full disk needs the room
        raise


def head_of(path: Path) -> dict[str, Any]:
    """What the first line says; whether the rest is whole is not looked at.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file.
    """
    with path.open("rb") as file:
        return _head(file.readline(HEAD))


def body_of(path: Path) -> tuple[dict[str, Any], bytes]:
    """The first line and all that follows it, the seal taken off.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file, or it is damaged.
    """
    content = path.read_bytes()
    sealed, seal = content[:-32], content[-32:]
    if hashlib.sha256(sealed).digest() != seal:
        raise ValueError("it is damaged")
    line, _, body = sealed.partition(b"\n")
    return _head(line), body


def _head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict):
        raise ValueError("its first line is none of ours")
    return head
