"""Starting a side of a comparison: a process of its own, whose output goes to a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.sizes import Sizes

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",  # nobody else on this machine can reach the Ray that is started
}
ROOT = Path(__file__).parent.parent


class SideError(RuntimeError):
    """A side that failed; the message ends with the last lines of its output."""


def launch(module: str, sizes: Sizes, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE`, which is to write its answer into the folder."""
    folder.mkdir(parents=True)
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(asdict(sizes)), str(folder), *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=os.environ | ENVIRONMENT,
        )


def answer_of(process: subprocess.Popen[bytes], folder: Path) -> dict[str, Any]:
    """Wait for a side; what it answered.

    Raises:
        SideError: it ended with an exit code other than 0, or without an answer.
    """
    code, file = process.wait(), folder / "answer.json"
    if code or not file.is_file():
        lines = (folder / "output.txt").read_text(errors="replace").splitlines()[-15:]
        raise SideError("\n".join([f"exit code {code}; the end of its output:", *lines]))
    return dict(json.loads(file.read_text()))


def arguments() -> tuple[Sizes, Path, list[str]]:
    """What `launch` gave to this process."""
    sizes, folder, *words = sys.argv[1:]
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(sizes).items()
    }
    return Sizes(**given), Path(folder), words


def answer(folder: Path, **values: Any) -> None:
    """Hand values back to the process that launched this one."""
    (folder / "answer.json").write_text(json.dumps(values))
