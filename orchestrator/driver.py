"""Running a study: expand it, ask the table, train what is missing, inline or through Ray."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Protocol

from orchestrator import checkpoints
from orchestrator.checkpoints import Place
from orchestrator.folder import describe, driven, log_to, revision, study_id
from orchestrator.grid import Grid, expand
from orchestrator.mirror import Mirror
from orchestrator.preflight import packs, refuse
from orchestrator.remote import is_uri, joined
from orchestrator.shards import Shard, share
from orchestrator.spec import Study
from orchestrator.store import Store, StoreError
from orchestrator.sweep import NO_LIMITS, Finished, Limits, Pump, run_inline
from orchestrator.timing import Left, left_of
from orchestrator.trial import Pack
from orchestrator.user_code import own_modules, stage

TO_DO = "%s: %d networks in the table, %d to train"


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


def default_place(study: Study) -> str | Path:
    """Where a study's table goes unless told otherwise: in RULESWEEP_RUNS, or else in `runs`."""
    runs = os.environ.get("RULESWEEP_RUNS") or "runs"
    return joined(runs, study.name) if is_uri(runs) else Path(runs) / study.name


def run(  # noqa: PLR0913 - all but the study have defaults, and go by name
    study: Study,
    out: str | Path | None = None,
    *,
    address: str = "local",
    inline: bool = False,
    workers: int | None = None,
    data_dir: Path | None = None,
    source: Path | None = None,
    reporter: Reporter | None = None,
    keep_changed: bool = False,
    retry_failed: bool = False,
    reuse: str | Path | None = None,
    limits: Limits = NO_LIMITS,
    preflight: bool = True,
    shard: Shard | None = None,
    take_over: bool = False,
) -> Result:
    """Train every network of the study that its run folder's table lacks.

    Args:
        study: what to run.
        out: the run folder, or a URI as s3://bucket/runs/depth; `runs/<name>` by default.
        address: a Ray cluster, `auto` or HOST:PORT; `local` starts one on this machine.
        inline: train in this process, without Ray.
        workers: packs trained at once; by default what the machine or cluster holds.
        data_dir: where data sets lie.
        source: the study's file: rules and data sets are looked for beside it too.
        reporter: who is told how it goes.
        shard: train only this share of the study, into its own part of the folder.
        keep_changed: accept rows of a user's rule whose file has changed since they were trained.
        retry_failed: train networks again whose rows say `failed`.
        reuse: another run, whose finished rows this study takes where it wants them.
        limits: when to stop though networks are missing.
        preflight: first try every rule on a worker, with two networks and two steps.
        take_over: take a run at a URI from the driver that holds it.

    Raises:
        StudyError, RuleError, DataError: the study cannot run; nothing was written.
        StoreError: the folder, or the storage of the URI, is in use or cannot be written.
        PreflightError: a rule that cannot be trained anywhere; nothing was trained.
        ScheduleError: no such cluster, or none that can hold a worker.
    """
    checkpoints.seconds_from(os.environ)  # so that a mistake there is told at once
    paths = importable(source)
    grid = expand(study, data_dir)
    place = out if out is not None else default_place(study)
    within = f"shards/{shard.name}" if shard else ""
    with interruptible(), driven(place, within, take_over=take_over) as (folder, mirror):
        log = log_to(folder / within)
        store = _table(folder, grid, shard, mirror)
        _prepare(store, reuse, retry_failed=retry_failed)
        mine = share(grid, shard) if shard else grid
        pump = Pump(mine, store, study_id(grid), revision(Path.cwd()), limits)
        if not keep_changed:
            _refuse_changed(pump, folder)
        describe(folder, grid, source, paths, mirror)
        pump.write_plans()
        log.info(TO_DO, study.name, sum(pump.counts.values()), pump.missing)
        tries = packs(pump) if preflight else {}
        here = partial(_train_here, pump, tries)
        there = partial(_train_on_ray, pump, tries, address, workers, paths)
        train = here if inline else there
        left, telling = left_of(pump), _Telling(pump, reporter or Silent(), log)
        interrupted = telling.through(train)
        log.info("interrupted" if interrupted else "finished")
    result = _result(folder, pump, interrupted=interrupted, uri=str(place) if mirror else "")
    return replace(result, seconds=telling.seconds, workers=pump.workers, left=left)


def _table(folder: Path, grid: Grid, shard: Shard | None, mirror: Mirror | None) -> Store:
    """The table to write to; a shard's readers are to see the whole study from the start."""
    store = Store(folder, owner=True, shard=shard.name if shard else "", mirror=mirror)
    if shard:
        Pump(grid, store, study_id(grid)).write_plans()
    return store


def _prepare(store: Store, reuse: str | Path | None, *, retry_failed: bool) -> None:
    if retry_failed:
        store.forget_failed()
    if reuse is not None:
        store.lend(reuse)


def _refuse_changed(pump: Pump, folder: Path) -> None:
    for rule, rows in pump.changed.items():
        raise StoreError(
            f"rule {rule}: {rows} rows in {folder} were trained by another version of its file; "
            "raise its `revision` to train them anew, or accept them with --keep-changed"
        )


def _train_here(pump: Pump, tries: Mapping[str, Pack]) -> None:
    from orchestrator.worker import Worker  # torch takes seconds to import

    worker = Worker(pump.grid.data, **_told(pump))
    refuse({label: worker.preflight(pack.as_dict()) for label, pack in tries.items()})
    run_inline(pump, worker.train_pack)


def settings(study: Study, place: Place | None = None) -> dict[str, Any]:
    """What a study says to its workers, and where their checkpoints go."""
    given = study.resources.replicas
    return {
        "threads": study.resources.cpus,
        "save_weights": study.measure.save_weights,
        "replicas": None if given == "auto" else given,
        "place": place,
    }


def _told(pump: Pump) -> dict[str, Any]:
    seconds = checkpoints.seconds_from(os.environ)
    return settings(pump.grid.study, checkpoints.opened(pump.store.folder, seconds))


def _train_on_ray(
    pump: Pump,
    tries: Mapping[str, Pack],
    address: str,
    workers: int | None,
    paths: Sequence[str],
) -> None:
    from orchestrator import schedule  # Ray takes seconds to import

    study = pump.grid.study
    resources, joined = study.resources, address != "local"
    with TemporaryDirectory(prefix="rulesweep-") as folder:  # Ray copies it on joining
        modules = stage(own_modules(study, paths), Path(folder)) if joined else []
        schedule.start(address, workers and workers * resources.cpus, modules)
    try:
        room = schedule.Room(resources.cpus, resources.gpus, workers, joined=joined)
        with interruptible():  # Ray has put a handler of its own over ours
            schedule.run(pump, paths, room, tries, _told(pump))
    finally:
        schedule.stop()


class _Telling:
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


def _result(folder: Path, pump: Pump, *, interrupted: bool, uri: str) -> Result:
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


def importable(source: Path | None) -> list[str]:
    """Let rules and data sets be found in the current folder and beside the study's file.

    At the end of the path, so that nothing there can stand in front of an installed package.
    """
    paths = [str(Path.cwd())] + ([str(source.resolve().parent)] if source else [])
    sys.path.extend(path for path in paths if path not in sys.path)
    return paths


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
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
