"""How a run goes on and how it ended: who is told, what is logged, signals that end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from orchestrator import checkpoints
from orchestrator.sweep import Finished, Pump
from orchestrator.timing import Left


class Reporter(Protocol):
    """Who is told how a run goes on."""

    def began(self, pump: Pump) -> None:
        """Before anything trains: the table has been asked."""

    def packed(self, finished: Finished) -> None:
        """A pack came back and is on the disk."""

    def ended(self) -> None:
        """Nothing more will come."""


class Silent:
    """A reporter that reports nothing."""

    def began(self, pump: Pump) -> None: ...

    def packed(self, finished: Finished) -> None: ...

    def ended(self) -> None: ...


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    folder: Path
    wanted: int  # networks of the study
    known: int  # of these in the table before
    trained: int  # of these trained now
    diverged: int
    failed: int
    stopped: tuple[str, ...]  # labels of rules that failed at every point of a campaign
    interrupted: bool
    reused: int = 0  # networks whose rows came from another run
    closed: str = ""  # the limit that ended it: failures, time, or empty
    seconds: float = 0.0  # from the first pack's start to the last one's end
    workers: int = 1
    left: Left | None = None  # what was to be trained
    uri: str = ""  # of a run in a storage; `folder` is then its mirror

    @property
    def name(self) -> str:
        """What the user calls the run: its URI, or its folder."""
        return self.uri or str(self.folder)

    @property
    def exit_code(self) -> int:
        """0: all done; 1: some networks failed; 130: stopped before the end, run again to go on."""
        stopped = self.interrupted and self.closed != "failures"
        return 130 if stopped else int(bool(self.failed))


class Telling:
    """Passes what happens to the log and to the reporter."""

    def __init__(self, pump: Pump, reporter: Reporter, log: Any) -> None:
        self.pump, self.reporter, self.log = pump, reporter, log
        self.first, self.last = inf, 0.0  # when packs were under way

    @property
    def seconds(self) -> float:
        """From the first pack's start to the last one's end; 0 where none came back."""
        return max(0.0, self.last - self.first)

    def through(self, train: Callable[[], None]) -> bool:
        """Train what is missing, if anything is; whether that was interrupted."""
        interrupted = not self.pump.finished and self._interrupted(train)
        if self.pump.finished:
            checkpoints.closed(self.pump.store.folder)
        return interrupted

    def _interrupted(self, train: Callable[[], None]) -> bool:
        self.pump.observe = self.finished
        self.reporter.began(self.pump)
        try:
            train()
        except KeyboardInterrupt:
            return True
        finally:
            self.reporter.ended()
        return not self.pump.finished

    def finished(self, finished: Finished) -> None:
        cell, self.last = finished.pack.cell, monotonic()
        self.first = min(self.first, self.last - finished.seconds)
        self.log.info(
            "%s %s %s: %d networks in %.2f s",
            cell.rule.label,
            finished.phase,
            cell.axes,
            len(finished.statuses),
            finished.seconds,
        )
        for note in finished.notes:
            self.log.info("%s %s: %s", cell.rule.label, cell.axes, note)
        for error in finished.errors:
            self.log.error("%s %s: %s", cell.rule.label, cell.axes, error)
        store = self.pump.store
        checkpoints.clear(checkpoints.folder_of(store.folder), store.answers)
        self.reporter.packed(finished)


def result_of(folder: Path, pump: Pump, *, interrupted: bool, uri: str) -> Result:
    """How a pump's run ended."""

    def counted(status: str) -> int:
        return sum(n for (_, _, s), n in pump.counts.items() if s == status)

    return Result(
        folder,
        sum(pump.totals.values()),
        sum(pump.counts.values()) - pump.trained - pump.borrowed,
        pump.trained,
        counted("diverged"),
        counted("failed"),
        tuple(pump.stopped),
        interrupted,
        pump.borrowed,
        pump.closed if interrupted else "",
        uri=uri,
    )


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end a run as ^C does: with everything written that was trained."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, interrupt)}
    if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as in a shell's background job
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    ours = {signal.SIGINT, signal.SIGTERM}
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, ours)  # blocked where Ray starts jobs
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
