"""The door to Ray Tune: one Tuner, one Searcher that works the pump, one Trainable."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import PickleBuffer
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from orchestrator import ray_settings  # noqa: F401 - they must stand before Ray is imported
import ray
from ray import tune
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.nodes import Room, ScheduleError
from orchestrator.preflight import refuse
from orchestrator.sweep import KILLS, Pump
from orchestrator.trial import Pack

PATIENCE = 30
"""Seconds that a pack waits for the worker that is starting for it while others fall free."""


def start(address: str, cpus: int | None = None, modules: Sequence[Path] = ()) -> None:
    """Start Ray on this machine (`local`), or join a running cluster (`auto`, HOST:PORT).

    `modules` are files and folders of a user's code, which the cluster's workers get; in a job
    they have it already.

    Raises:
        ScheduleError: no cluster there, or one that refuses.
    """
    if address.startswith("ray://"):
        raise ScheduleError(
            f"address {address}: ray:// would move the scheduler into a remote process, away from "
            "the table; run on a node of the cluster with --address auto"
        )
    host, _, port = address.rpartition(":")
    named = re.fullmatch(r"[\w.-]+|\[[\da-fA-F:.]+\]", host) and re.fullmatch("[0-9]{1,5}", port)
    if address not in ("local", "auto") and not (named and 0 < int(port) < 2**16):
        raise ScheduleError(f"address {address!r}: should be local, auto or HOST:PORT")
    local: dict[str, Any] = {}
    if address == "local":
        local = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": 200 * 2**20}
    elif modules and "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:
        local = {"runtime_env": {"py_modules": [str(module) for module in modules]}}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        if isinstance(error, ray.exceptions.AuthenticationError):
            raise ScheduleError(
                f"address {address}: refused without the cluster's token; put it into "
                "~/.ray/auth_token, or name its file in RAY_AUTH_TOKEN_PATH"
            ) from error
        raise ScheduleError(
            f"address {address}: no Ray cluster can be joined: {reason}; does one run there, "
            "and is its token the one in ~/.ray/auth_token?"
        ) from error
    logging.getLogger("ray.tune").setLevel(logging.ERROR)


def stop() -> None:
    """Leave the cluster; one that `start` started ends."""
    ray.shutdown()


def room(cpus: int, gpus: float | str, most: int | None, *, joined: bool) -> Room:
    """The room that the cluster's nodes have for workers; see `Room`."""
    return Room(_alive, cpus, gpus, most, joined=joined)


def _alive() -> dict[str, dict[str, float]]:
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["NodeID"]: node["Resources"] for node in nodes if node["Alive"]}


DIED = "the worker that tried it died"


class PumpSearcher(Searcher):
    """Gives Tune the next pack, and gives the pump its rows."""

    def __init__(self, pump: Pump, tries: Mapping[str, Pack], room: Room) -> None:
        super().__init__()
        self._pump, self._room = pump, room
        self._tries = [dict(list(tries.items())[i :: pump.workers]) for i in range(pump.workers)]
        self._trying: dict[str, dict[str, Pack]] = {}
        self._deaths: Counter[str] = Counter()  # workers lost while they tried a rule
        self._problems: dict[str, str] = {}
        self._flying: dict[str, tuple[Pack, frozenset[str]]] = {}  # and the nodes it may be on
        self.error: BaseException | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune pickles its searcher, and ours is never restored."""
        return {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return not config

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        while self._tries:
            if tries := self._tries.pop():
                self._trying[trial_id] = tries
                return {"try": {label: pack.as_dict() for label, pack in tries.items()}}
        if self._trying:
            return None
        pack = self._next() if self.error is None else None
        if pack is None:
            return None if self._flying else Searcher.FINISHED
        self._flying[trial_id] = pack, self._room.nodes()
        return {"pack": pack.as_dict()}

    def _next(self) -> Pack | None:
        self._pump.workers = self._room()
        return self._pump.take() if len(self._flying) < self._pump.workers else None

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        try:
            if tries := self._trying.pop(trial_id, None):
                self._tried(tries, None if error or not result else result["problems"])
            elif flown := self._flying.pop(trial_id, None):
                self._landed(*flown, None if error else result)
        except Exception as failure:  # raised again after Tune has let go of its workers
            self.error = failure

    def _landed(self, pack: Pack, nodes: frozenset[str], result: dict[str, Any] | None) -> None:
        if result:
            # Tune keeps every result to the end of the run, so the rows are taken out of it.
            self._pump.give(pack, result["rows"].pop())
        elif self._room.lost_any(nodes):
            self._pump.put_back(pack)
        else:
            self._pump.give(pack, None)

    def _tried(self, tries: Mapping[str, Pack], problems: Sequence[str] | None) -> None:
        """Note what a worker found; where one was lost, try its rules again, one by one."""
        if problems is None:
            self._deaths.update(list(tries))
            again = [label for label in tries if self._deaths[label] < KILLS]
            self._tries += [{label: tries[label]} for label in again]
            tries = {label: pack for label, pack in tries.items() if label not in again}
        if not tries:
            return
        found = problems or [DIED] * len(tries)
        self._problems |= zip(tries, found, strict=True)
        if self._tries or self._trying:
            return
        if set(self._problems.values()) == {DIED}:
            raise ScheduleError(
                "no worker lived through the trial run of a rule, see run.log: the rule ends its "
                "process, or the cluster was started without token authentication (then join it "
                "with RAY_AUTH_MODE=disabled in the environment)"
            )
        refuse(self._problems)

    def save(self, checkpoint_path: str) -> None:
        """Write nothing: the trial table is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing was saved."""


class InTurn(FIFOScheduler):
    """Starts packs in the order in which they came, as Tune does of its own accord.

    Tune looks for the first through all that it ever ran: 4 ms a pack after 8,000 packs.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._waiting: deque[Any] = deque()

    def on_trial_add(self, tune_controller: TuneController, trial: Any) -> None:
        self._waiting.append(trial)

    def choose_trial_to_run(self, tune_controller: TuneController) -> Any:
        while self._waiting and self._waiting[0].status != Trial.PENDING:
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None


class PackTrial(tune.Trainable):
    """Trains one pack in one step, and then is used again for the next."""

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """Once a process: `shared` holds the data sets, from Ray's object store, and settings."""
        from orchestrator.worker import Worker  # torch, which the driver can do without

        sys.path.extend(path for path in shared["paths"] if path not in sys.path)
        self.worker = Worker(shared["data"], **shared["settings"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True

    def step(self) -> dict[str, Any]:
        if "try" in self.config:
            problems = [self.worker.preflight(pack) for pack in self.config["try"].values()]
            return {"done": True, "problems": problems}
        # Outside the pickle the rows lie in shared memory, where the driver reads them uncopied.
        return {"done": True, "rows": [PickleBuffer(self.worker.train_pack(self.config["pack"]))]}


@contextmanager
def lasting_workers() -> Iterator[None]:
    """Let workers come up and stay up; Tune alone stops them in two ways that cost seconds each.

    It gives a pack whose worker is starting the next worker that falls free, and stops the one
    that starts: where packs are shorter than a start, only one worker would ever come up. So such
    a pack waits, for a while: the cluster may have no room for another worker after all. And Tune
    stops a worker that falls free while no pack waits for one, which our next round would need.
    """
    controllers: Any = TuneController
    reuse, waiting, seen = controllers._maybe_reuse_cached_actor, dict[str, float](), set[int]()

    def patiently(controller: Any, trial: Any) -> bool:
        if id(controller) not in seen:
            seen.add(id(controller))
            controller._actor_cache.increase_max(trial.placement_group_factory, by=10**6)
        if trial in controller._trial_to_actor:
            since = waiting.setdefault(trial.trial_id, monotonic())
            if monotonic() - since < PATIENCE:
                return False
        return bool(reuse(controller, trial))

    controllers._maybe_reuse_cached_actor = patiently
    try:
        yield
    finally:
        controllers._maybe_reuse_cached_actor = reuse


def run(
    pump: Pump,
    paths: Sequence[str],
    room: Room,
    tries: Mapping[str, Pack],
    settings: Mapping[str, Any],
) -> None:
    """Train all that the pump has, on the Ray that was started; returns when it is done or stopped.

    Args:
        pump: what is to be trained.
        paths: folders in which workers find the user's own rules.
        room: how many packs may be out at once.
        tries: tiny packs by rule, to be tried on workers before anything else.
        settings: those of a Worker.

    Raises:
        PreflightError: a rule that cannot be trained.
    """
    pump.workers = room()
    searcher = PumpSearcher(pump, tries, room)
    trainable = tune.with_parameters(
        PackTrial, data=pump.grid.data, settings=dict(settings), paths=list(paths)
    )
    with TemporaryDirectory(prefix="rulesweep-") as notes:  # Tune's own, which nobody reads
        tuner = tune.Tuner(
            tune.with_resources(trainable, {"cpu": room.cpus, "gpu": room.gpus}),
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                scheduler=InTurn(),
                num_samples=-1,
                max_concurrent_trials=10**6,  # the searcher keeps to the cluster's room itself
                reuse_actors=True,
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(
                storage_path=notes,
                name="tune",
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=0),  # the pump halves and retries
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        )
        with lasting_workers():
            tuner.fit()
    if searcher.error is not None:
        raise searcher.error
