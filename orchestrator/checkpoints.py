"""Where the checkpoints of long packs lie: in the run folder where it can be reached, or else near.

The driver opens the folder and clears it as rows come in; workers look there for what earlier ones
left of the networks that they are given, however those were packed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import rules
from orchestrator.cell import short_hash
from orchestrator.part_files import StoreError
from rules.sealed import head_of

SECONDS = 60.0
"""Training time between two checkpoints, unless RULESWEEP_STATE_SECONDS says otherwise."""

STALE = 7 * 24 * 3600.0
"""Age in seconds at which a checkpoint that nobody went on with is removed."""

HALF = 3600.0
"""Age in seconds at which one counts as left half written."""

SUFFIX = ".checkpoint"


@dataclass(frozen=True)
class Place:
    """What a driver tells its workers of its checkpoints."""

    folder: str  # in the run folder, absolute
    token: str  # what is written in a file there: who reads it reaches the folder
    seconds: float  # of training between two checkpoints


def seconds_from(environment: Mapping[str, str]) -> float:
    """The time between two checkpoints.

    Raises:
        StoreError: RULESWEEP_STATE_SECONDS is no number of at least 0.
    """
    given = environment.get("RULESWEEP_STATE_SECONDS", str(SECONDS))
    with suppress(ValueError):
        if float(given) >= 0:
            return float(given)
    raise StoreError(f"RULESWEEP_STATE_SECONDS is {given!r}; it should be seconds, as 60")


def folder_of(run: Path) -> Path:
    """The checkpoints' place in a run folder."""
    return run / "checkpoints"


def opened(run: Path, seconds: float) -> Place:
    """Make the place for checkpoints in a run folder, and throw away what is stale there."""
    folder, token = folder_of(run.resolve()), secrets.token_hex(8)
    try:
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(token)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror}; mend that and run again"
        ) from error
    tidy(folder)
    return Place(str(folder), token, seconds)


def closed(run: Path) -> None:
    """Remove the place: its run is done."""
    shutil.rmtree(folder_of(run), ignore_errors=True)


def clear(folder: Path, answered: Container[str]) -> None:
    """Remove the checkpoints all of whose networks are answered."""
    for path, head in heads(folder):
        if all(network in answered for network in head["networks"]):
            path.unlink(missing_ok=True)


def heads(
    folder: Path, told: Callable[[str], None] = lambda line: None
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The checkpoints of a folder, and what they say they hold.

    `told` hears of those that cannot say it.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            yield path, _checked(head_of(path))
        except FileNotFoundError:  # removed, or replaced, just now
            continue
        except (OSError, ValueError) as error:
            told(f"checkpoint {path} is not used: {error}")


def _checked(head: dict[str, Any]) -> dict[str, Any]:
    networks, made = head.get("networks"), head.get("made")
    if not (
        isinstance(networks, list)
        and all(isinstance(network, str) for network in networks)
        and isinstance(head.get("step"), int)
        and isinstance(made, dict)
    ):
        raise ValueError("its first line is none of ours")
    return head


def tidy(folder: Path) -> None:
    """Remove what is stale, and what a kill left half written."""
    for pattern, age in ((f"*{SUFFIX}", STALE), (f".*{SUFFIX}.*.tmp", HALF)):
        for path in folder.rglob(pattern):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > age:
                    path.unlink()


class Shelf:
    """A worker's view: the checkpoints that it may go on with, and where it puts its own."""

    def __init__(self, place: Place | None) -> None:
        self.notes: list[str] = []  # for the driver's log
        self.known: set[str] = set()  # networks whose rows this worker has sent
        self._told: set[str] = set()
        self.seconds = place.seconds if place else SECONDS
        shared = reached(place) if place else None
        self._near = near(place) if place and not shared else None
        self.folder = shared or self._near  # None: no checkpoints are kept
        if self._near:
            tidy(self._near.parent)
        elif place and not shared:
            self.tell("no checkpoints are kept: neither the run folder nor a private one is there")

    def tell(self, line: str) -> None:
        """Leave a line for the driver's log, once."""
        if line not in self._told:
            self._told.add(line)
            self.notes.append(line)

    def path_of(self, folder: Path, networks: Sequence[str]) -> Path:
        """Where these networks' checkpoint goes."""
        return folder / f"{short_hash(list(networks))}{SUFFIX}"

    def found(self, networks: Iterable[str], made: Mapping[str, Any]) -> dict[str, Path]:
        """The checkpoint of every network that has one: the one that is furthest."""
        wanted, furthest = set(networks), dict[str, tuple[int, Path]]()
        for path, head in heads(self.folder, self.tell) if self.folder else ():
            held = wanted.intersection(head["networks"])
            if held and (unlike := _unlike(made, head["made"])):
                self.tell(f"checkpoint {path} is not used: it was made with {unlike}")
                continue
            for network in held:
                if head["step"] > furthest.get(network, (0, path))[0]:
                    furthest[network] = head["step"], path
        return {network: path for network, (_, path) in furthest.items()}

    def parts(self, networks: Sequence[str], made: Mapping[str, Any]) -> list[list[int]]:
        """The places of networks that go on from one checkpoint, or that begin, together."""
        found, parts = self.found(networks, made), dict[Path | None, list[int]]()
        for place, network in enumerate(networks):
            parts.setdefault(found.get(network), []).append(place)
        return list(parts.values())

    def tidy(self) -> None:
        """The worker is given more, so the driver has what it sent; near by nobody else tidies."""
        if self._near:
            clear(self._near, self.known)


@cache
def code() -> str:
    """A hash of all that trains but for a user's rule: checkpoints of other code are not used."""
    files = sorted(Path(rules.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _unlike(made: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What another maker of checkpoints had otherwise; empty where nothing."""
    names = [name for name in made if other.get(name) != made[name]]
    return ", ".join(f"{name} {other.get(name)} (here {made[name]})" for name in names)


def reached(place: Place) -> Path | None:
    """The driver's folder, where this process can reach and write to it."""
    folder = Path(place.folder)
    with suppress(OSError, ValueError):
        if (folder / "token").read_text() == place.token and os.access(folder, os.W_OK):
            return folder
    return None


def near(place: Place) -> Path | None:
    """A folder on this machine's own disk that only this user can read, for this run."""
    mine = Path(tempfile.gettempdir()) / f"rulesweep-{os.getuid()}"
    folder = mine / short_hash(place.folder)
    with suppress(OSError):
        mine.mkdir(mode=0o700, exist_ok=True)
        found = mine.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
        if private and found.st_uid == os.getuid():
            folder.mkdir(mode=0o700, exist_ok=True)
            return folder
    return None
