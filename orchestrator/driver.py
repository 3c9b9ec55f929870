"""Running a study: expand it, ask the table, train what is missing, inline or through Ray."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator import checkpoints
from orchestrator.checkpoints import Place
from orchestrator.folder import describe, driven, log_to, revision, study_id
from orchestrator.grid import Grid, expand
from orchestrator.mirror import Mirror
from orchestrator.preflight import packs, refuse
from orchestrator.remote import is_uri, joined
from orchestrator.shards import Shard, share
from orchestrator.spec import Study, StudyError
from orchestrator.store import Store, StoreError
from orchestrator.sweep import NO_LIMITS, Limits, Pump, run_inline
from orchestrator.telling import Reporter, Result, Silent, Telling, interruptible, result_of
from orchestrator.timing import left_of
from orchestrator.trial import Pack
from orchestrator.user_code import own_modules, stage

TO_DO = "%s: %d networks in the table, %d to train"


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
        reuse: another run, whose finished rows this study takes where it wants them, and their
            weights where it keeps its own.
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
        _prepare(store, grid.study, reuse, retry_failed=retry_failed)
        mine = share(grid, shard) if shard else grid
        pump = Pump(mine, store, study_id(grid), revision(Path.cwd()), limits)
        if not keep_changed:
            _refuse_changed(pump, folder)
        describe(folder, grid, source, paths, mirror)
        pump.plans.write()
        log.info(TO_DO, study.name, sum(pump.counts.values()), pump.missing)
        tries = packs(pump) if preflight else {}
        here = partial(_train_here, pump, tries)
        there = partial(_train_on_ray, pump, tries, address, workers, paths)
        train = here if inline else there
        left, telling = left_of(pump), Telling(pump, reporter or Silent(), log)
        interrupted = telling.through(train)
        log.info("interrupted" if interrupted else "finished")
    result = result_of(folder, pump, interrupted=interrupted, uri=str(place) if mirror else "")
    return replace(result, seconds=telling.seconds, workers=pump.workers, left=left)


def _table(folder: Path, grid: Grid, shard: Shard | None, mirror: Mirror | None) -> Store:
    """The table to write to; a shard's readers are to see the whole study from the start."""
    store = Store(folder, owner=True, shard=shard.name if shard else "", mirror=mirror)
    if shard:
        Pump(grid, store, study_id(grid)).plans.write()
    return store


def _prepare(store: Store, study: Study, reuse: str | Path | None, *, retry_failed: bool) -> None:
    if retry_failed:
        store.forget_failed()
    if reuse is not None:
        store.lend(reuse, weights=study.measure.save_weights)


def _refuse_changed(pump: Pump, folder: Path) -> None:
    for rule, rows in pump.changed.items():
        raise StoreError(
            f"rule {rule}: {rows} rows in {folder} were trained by another version of its file; "
            "raise its `revision` to train them anew, or accept them with --keep-changed"
        )


def _train_here(pump: Pump, tries: Mapping[str, Pack]) -> None:
    import torch  # takes seconds

    from orchestrator.worker import Worker

    if pump.grid.study.resources.gpus and not torch.cuda.is_available():
        raise StudyError(["resources.gpus: this machine has no GPU that torch can use; say gpus=0"])
    worker = Worker(pump.grid.data, **_told(pump))
    refuse({label: worker.preflight(pack.as_dict()) for label, pack in tries.items()})
    run_inline(pump, worker.train_pack)


def settings(study: Study, place: Place | None = None) -> dict[str, Any]:
    """What a study says to its workers, and where their checkpoints go."""
    return {
        "threads": study.resources.cpus,
        "save_weights": study.measure.save_weights,
        "replicas": study.resources.together,
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
        room = schedule.room(resources.cpus, resources.gpus, workers, joined=joined)
        with interruptible():  # Ray has put a handler of its own over ours
            schedule.run(pump, paths, room, tries, _told(pump) | {"gpus": room.gpus})
    finally:
        schedule.stop()


def importable(source: Path | None) -> list[str]:
    """Let rules and data sets be found in the current folder and beside the study's file.

    At the end of the path, so that nothing there can stand in front of an installed package.
    """
    paths = [str(Path.cwd())] + ([str(source.resolve().parent)] if source else [])
    sys.path.extend(path for path in paths if path not in sys.path)
    return paths
