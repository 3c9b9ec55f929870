"""The second door to Ray: what a cluster is asked besides training packs."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from orchestrator import ray_settings  # noqa: F401 - they must stand before Ray is imported
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ANSWER = 120.0
"""Seconds that a node may take to answer: importing torch from a shared disk is slow."""

POLL = 1.0
"""Seconds between two questions about a job."""

PATIENCE = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between two tries where a server that has answered before is silent."""


class ClusterError(RuntimeError):
    """A cluster that cannot be asked, or that refuses; the message is one line for the user."""


@dataclass(frozen=True)
class Job:
    """A study that was submitted."""

    id: str
    study: str
    status: str  # PENDING | RUNNING | STOPPED | SUCCEEDED | FAILED
    message: str
    began: float | None  # seconds since 1970
    exit_code: int | None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


class JobServer:
    """The job server of a running cluster, at the address of its dashboard."""

    def __init__(self, address: str) -> None:
        """Raises ClusterError where nothing answers at `address`, or it refuses."""
        self.address = address
        if address.startswith("ray://") or "://" not in address:
            raise ClusterError(
                f"address {address}: should be that of the dashboard, as http://127.0.0.1:8265"
            )
        self._client = self._asked(lambda: _submission_client(address))

    def submit(
        self,
        job: str,
        entrypoint: str,
        folder: Path,
        environment: Mapping[str, str],
        metadata: Mapping[str, str],
    ) -> None:
        """Send a folder and start a command in a copy of it, on the head."""
        runtime = {"working_dir": str(folder), "env_vars": dict(environment)}
        self._asked(
            lambda: self._client.submit_job(
                entrypoint=entrypoint,
                submission_id=job,
                runtime_env=runtime,
                metadata=dict(metadata),
            )
        )

    def jobs(self) -> list[Job]:
        """All submitted studies, the newest first."""
        found = self._asked(self._client.list_jobs)
        ours = [_job(info) for info in found if (info.metadata or {}).get("rulesweep")]
        return sorted(ours, key=lambda job: job.began or 0, reverse=True)

    def job(self, job: str) -> Job:
        """One job.

        Raises:
            ClusterError: there is none of that id.
        """
        return _job(self._asked(lambda: self._client.get_job_info(job), job))

    def stop(self, job: str) -> None:
        """Ask a job to end; it may take a while."""
        self._asked(lambda: self._client.stop_job(job), job)

    def wait(self, job: str) -> Job:
        """The job, once it has ended."""
        while not (found := self.job(job)).ended:
            time.sleep(POLL)
        return found

    def tail(self, job: str, said: int, say: Callable[[str], None]) -> int:
        """Say a job's lines from the character `said` on until it ends or the connection breaks.

        Returns the number of characters said; whole lines only, but for the last of all.
        """
        log = _Log(said, say)

        async def read() -> None:
            async for text in self._client.tail_job_logs(job):
                log.take(text)

        try:
            asyncio.run(read())
        except (OSError, RuntimeError):  # the connection; the job goes on without it
            time.sleep(POLL)
            return log.said
        log.end()
        return log.said

    def _asked(self, ask: Callable[[], Any], job: str = "") -> Any:
        """Ask the server; tries again for a while where it does not answer."""
        patience = iter(PATIENCE if hasattr(self, "_client") else ())
        while True:
            try:
                return ask()
            except (ConnectionError, requests.exceptions.ConnectionError):
                if (pause := next(patience, None)) is None:
                    raise ClusterError(self._silence()) from None
                time.sleep(pause)
            except (RuntimeError, ValueError, ray.exceptions.RayError) as error:
                raise ClusterError(self._why(error, job)) from None

    def _silence(self) -> str:
        return (
            f"address {self.address}: nothing answers there; forward the head's port 8265, as "
            "by ray dashboard cluster.yaml or ssh -N -L 8265:127.0.0.1:8265 HEAD"
        )

    def _why(self, error: Exception, job: str) -> str:
        text = _line(str(error))
        if "ray[default]" in text:
            return "jobs need the extra `cluster`; pip install 'rulesweep[cluster]'"
        if "does not exist" in text and job:
            return f"no job {job} at {self.address}; rulesweep jobs lists them"
        if isinstance(error, ray.exceptions.AuthenticationError) or "401" in text or "403" in text:
            return (
                f"address {self.address}: refused without the cluster's token; put it into "
                "~/.ray/auth_token, or name its file in RAY_AUTH_TOKEN_PATH"
            )
        return f"address {self.address}: {text}"


class _Log:
    """A log that is told from its start again after each break: says only what is new."""

    def __init__(self, skip: int, say: Callable[[str], None]) -> None:
        self._skip, self._say, self._rest, self.said = skip, say, "", 0

    def take(self, text: str) -> None:
        old = min(self._skip, len(text))
        self._skip -= old
        *lines, self._rest = (self._rest + text[old:]).split("\n")
        for line in lines:
            self._say(line)
            self.said += len(line) + 1

    def end(self) -> None:
        if self._rest:
            self._say(self._rest)
            self.said += len(self._rest)


def _submission_client(address: str) -> Any:
    from ray.job_submission import JobSubmissionClient

    for name in ("ray", "ray.dashboard.modules.job.sdk", "ray.dashboard.modules.dashboard_sdk"):
        logging.getLogger(name).setLevel(logging.ERROR)  # the last two have levels of their own
    return JobSubmissionClient(address)


def _job(info: Any) -> Job:
    began = info.start_time / 1000 if info.start_time else None
    study = (info.metadata or {}).get("study", "")
    status, message = getattr(info.status, "value", str(info.status)), _line(info.message or "")
    return Job(info.submission_id, study, status, message, began, info.driver_exit_code)


def probe(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """What every live node of the joined cluster says of itself; this machine's node is the first.

    Each node's own Python runs `orchestrator/probe.py`, sent as text: a node without rulesweep,
    or with another version of it, answers too. `skew` is the seconds by which its clock is ahead.
    """
    text = (Path(__file__).parent / "probe.py").read_text()
    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    here = ray.get_runtime_context().get_node_id()
    nodes.sort(key=lambda node: (node["NodeID"] != here, node["NodeManagerAddress"]))
    asked = [(node, _ask_node(node["NodeID"], text, arguments)) for node in nodes]
    return [_facts(node, answer) for node, answer in asked]


def _ask_node(node: str, text: str, arguments: Sequence[str]) -> tuple[Any, Any]:
    """Start the probe and a look at the clock on a node."""

    def run(text: str, arguments: list[str]) -> str:
        import os
        import subprocess
        import sys

        shown = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
        done = subprocess.run(
            [sys.executable, "-c", text, *arguments],
            capture_output=True,
            text=True,
            env=shown,
            timeout=100,
            check=False,
        )
        return done.stdout if done.returncode == 0 else done.stderr[-200:]

    def clock() -> float:
        import time

        return time.time()

    where = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": where}
    started = ray.remote(run).options(**options).remote(text, list(arguments))
    return started, ray.remote(clock).options(**options)


def _facts(node: Mapping[str, Any], asked: tuple[Any, Any]) -> dict[str, Any]:
    answer, clock = asked
    facts: dict[str, Any] = {
        "name": node["NodeManagerHostname"],
        "address": node["NodeManagerAddress"],
        "ray_cpus": node["Resources"].get("CPU", 0.0),
        "ray_gpus": node["Resources"].get("GPU", 0.0),
    }
    try:
        text = ray.get(answer, timeout=ANSWER)
        facts |= json.loads(text) if text.startswith("{") else {"error": _line(text)}
        facts["skew"] = _skew(clock)
    except ray.exceptions.RayError as error:
        facts["error"] = _line(str(error)) or type(error).__name__
    return facts


def _skew(clock: Any) -> float:
    """The seconds by which a node's clock is ahead, from the quickest of three looks at it."""
    looks = []
    for _ in range(3):
        sent = time.time()
        theirs = ray.get(clock.remote(), timeout=ANSWER)
        back = time.time()
        looks.append((back - sent, theirs - (sent + back) / 2))
    return float(min(looks)[1])


def refusal(tree: dict[str, Any]) -> str | None:
    """What `ray up` would refuse a cluster's file for, as one line; None where it would not.

    Offline: no provider's library is needed. The two functions are private to Ray, which is
    pinned; they take the right shape of everything for granted, so that on a file of another
    shape they raise whatever they stumble over.
    """
    from jsonschema import ValidationError
    from ray.autoscaler._private.util import prepare_config, validate_config

    logging.getLogger("ray").setLevel(logging.ERROR)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            validate_config(prepare_config(copy.deepcopy(tree)))
    except ValidationError as error:
        place = ".".join(map(str, error.absolute_path)) or "file"
        return f"{place}: `ray up` refuses it: {_line(error.message)}"
    except NotImplementedError as error:
        return f"provider.type: `ray up` refuses it: {_line(str(error))}"
    except Exception as error:  # see above
        return f"file: `ray up` refuses it: {_line(str(error)) or type(error).__name__}"
    return None


def _line(text: str) -> str:
    return " ".join(text.split())[:160]
