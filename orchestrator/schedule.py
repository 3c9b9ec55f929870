"""The door to Ray Tune: one Tuner, one Searcher that works the pump, one Trainable."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import PickleBuffer
from typing import Any

from orchestrator import ray_settings  # noqa: F401 - they must stand before Ray is imported
import ray
from ray import tune
from ray.tune.search import Searcher

from orchestrator.sweep import Pump
from orchestrator.trial import Pack


class ScheduleError(RuntimeError):
    """A cluster that cannot run the study; the message is one line for the user."""


def start(address: str, cpus: int | None = None) -> None:
    """Start Ray on this machine (`local`), or join a running cluster (`auto`, HOST:PORT).

    Raises:
        ScheduleError: no cluster there, or one that refuses.
    """
    if address.startswith("ray://"):
        raise ScheduleError(
            f"address {address}: ray:// would move the scheduler into a remote process, away from "
            "the table; run on a node of the cluster with --address auto"
        )
    local: dict[str, Any] = {}
    if address == "local":
        local = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": 200 * 2**20}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ScheduleError(f"address {address}: no Ray cluster can be joined: {reason}") from error
    logging.getLogger("ray.tune").setLevel(logging.ERROR)


def stop() -> None:
    """Leave the cluster; one that `start` started ends."""
    ray.shutdown()


def slots(cpus: int, gpus: float) -> int:
    """How many packs the cluster can train at once.

    Raises:
        ScheduleError: no node can hold one.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    fits = [_fits(node, cpus, gpus) for node in nodes]
    if not sum(fits):
        most = ", ".join(f"{n.get('CPU', 0):g} cpus and {n.get('GPU', 0):g} gpus" for n in nodes)
        raise ScheduleError(
            f"resources: no node has {cpus} cpus and {gpus:g} gpus for a worker; "
            f"the nodes have {most}"
        )
    return sum(fits)


def _fits(node: Mapping[str, float], cpus: int, gpus: float) -> int:
    by_cpu = node.get("CPU", 0) // cpus
    return int(min(by_cpu, node.get("GPU", 0) // gpus) if gpus else by_cpu)


class PumpSearcher(Searcher):
    """Gives Tune the next pack, and gives the pump its rows."""

    def __init__(self, pump: Pump) -> None:
        super().__init__()
        self._pump = pump
        self._flying: dict[str, Pack] = {}
        self.error: BaseException | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune pickles its searcher, and ours is never restored."""
        return {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return not config

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        pack = self._pump.take() if self.error is None else None
        if pack is None:
            return None if self._flying else Searcher.FINISHED
        self._flying[trial_id] = pack
        return {"pack": pack.as_dict()}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        pack = self._flying.pop(trial_id, None)
        if pack is None:
            return
        try:
            # Tune keeps every result to the end of the run, so the rows are taken out of it.
            self._pump.give(pack, None if error or not result else result["rows"].pop())
        except Exception as failure:  # raised again after Tune has let go of its workers
            self.error = failure

    def save(self, checkpoint_path: str) -> None:
        """Write nothing: the trial table is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing was saved."""


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
        # Outside the pickle the rows lie in shared memory, where the driver reads them uncopied.
        return {"done": True, "rows": [PickleBuffer(self.worker.train_pack(self.config["pack"]))]}


def run(pump: Pump, folder: Path, paths: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Train all that the pump has, on the Ray that was started; returns when it is done or stopped.

    `paths` are folders in which workers find the user's own rules, `settings` those of a Worker.
    """
    resources, searcher = pump.grid.study.resources, PumpSearcher(pump)
    trainable = tune.with_parameters(
        PackTrial, data=pump.grid.data, settings=dict(settings), paths=list(paths)
    )
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": resources.cpus, "gpu": resources.gpus}),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=-1,
            max_concurrent_trials=pump.workers,
            reuse_actors=True,
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=tune.RunConfig(
            storage_path=str(folder.resolve()),
            name="ray",
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=0),  # the pump retries, halving the pack
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    try:
        tuner.fit()
    finally:
        shutil.rmtree(folder / "ray", ignore_errors=True)  # Tune's own notes, which nobody reads
    if searcher.error is not None:
        raise searcher.error
