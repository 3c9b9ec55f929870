"""Studies as jobs of a cluster: what is sent, what runs there, and following it."""

from __future__ import annotations

import secrets
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.cluster import ClusterError, Job, JobServer
from orchestrator.driver import importable
from orchestrator.spec import load_study
from orchestrator.user_code import own_modules, stage

STOPPING = {
    "RAY_JOB_STOP_SIGNAL": "SIGTERM",  # the driver then writes what it has, and ends
    "RAY_JOB_STOP_WAIT_TIME_S": "120",
}
RUNS = "${RULESWEEP_RUNS:-$HOME/rulesweep-runs}"
"""Where a job's results go unless told otherwise: as the cluster says, else the head's disk."""


def submit(server: JobServer, study: Path, overrides: Sequence[str], words: Sequence[str]) -> str:
    """Send a study with the code of its own rules to a cluster, and start it there; the job's id.

    Args:
        server: the cluster's job server.
        study: the study's file; it and its rules must be in order here.
        overrides: such as `grid.seeds=3`.
        words: more options of `rulesweep run`.

    Raises:
        StudyError, RuleError: the study cannot run; nothing was sent.
        ClusterError: the cluster refuses.
    """
    loaded = load_study(study, overrides)
    modules = own_modules(loaded, importable(study))
    job = f"{loaded.name}-{secrets.token_hex(3)}"
    sets = [word for override in overrides for word in ("--set", override)]
    command = ["rulesweep", "run", study.name, "--address", "auto", *sets, *words]
    with tempfile.TemporaryDirectory(prefix="rulesweep-") as folder:
        shutil.copy(study, Path(folder) / study.name)
        stage(modules, Path(folder))
        server.submit(
            job,
            f'export RULESWEEP_RUNS="{RUNS}"; exec {shlex.join(command)}',
            Path(folder),
            STOPPING,
            {"rulesweep": "1", "study": loaded.name},
        )
    return job


def follow(server: JobServer, job: str, say: Callable[[str], None]) -> int:
    """Print a job's lines as they come, until it ends; its exit code.

    The connection may break and come back: no line is said twice.

    Raises:
        ClusterError: no such job, or the cluster is gone for good.
    """
    said = 0
    while True:
        said += server.tail(job, said, say)
        found = server.job(job)
        if found.ended:
            return _ending(found, say)


def _ending(job: Job, say: Callable[[str], None]) -> int:
    if job.status == "SUCCEEDED":
        return 0
    say(f"job {job.id} {job.status.lower()}: {job.message}")
    if job.exit_code == 127:
        say("its nodes have no command rulesweep; install it there: see docs/clusters.md")
    return job.exit_code or 1


def stop(server: JobServer, job: str) -> Job:
    """End a job as ^C would, with everything written that was trained; how it ended.

    Raises:
        ClusterError: no such job.
    """
    if not server.job(job).ended:
        server.stop(job)
    return server.wait(job)


__all__ = ["ClusterError", "Job", "JobServer", "follow", "stop", "submit"]
