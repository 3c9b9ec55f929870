"""Training rows of a table again, alone and in this process, and comparing what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.campaign import campaigns
from orchestrator.columns import from_blob, named
from orchestrator.driver import importable
from orchestrator.grid import Grid, expand
from orchestrator.spec import load_study
from orchestrator.store import Store, StoreError, current, opened, trials
from orchestrator.trial import Pack, Trial
from orchestrator.weights import path_of, read

if TYPE_CHECKING:
    from rules.net import Net, Params
    from rules.task import Task

CLOSE = 1e-3
"""Relative difference of two numbers up to which unlike machines count as agreeing."""


@dataclass(frozen=True)
class Verdict:
    """How one row compares with its network trained again."""

    trial: str
    label: str
    depth: int
    verdict: str  # exact | close | different
    column: str = ""  # of the largest difference
    difference: float = 0.0  # relative
    device: str = "cpu"


def verify(
    run: str | Path, sample: int = 5, trial: str | None = None, data_dir: Path | None = None
) -> list[Verdict]:
    """Train rows of a run again, each alone, and compare them with the table.

    Args:
        run: a run folder, or the URI of one.
        sample: how many rows, spread evenly over the table.
        trial: the id of one row instead.
        data_dir: where data sets lie.

    Raises:
        StoreError: no such run, or no such trial in it.
    """
    from orchestrator.worker import Worker

    folder = opened(run)
    rows = {r["trial"]: r for r in trials(folder).to_pylist() if r["status"] != "pending"}
    if trial and trial not in rows:
        raise StoreError(f"{run} has no finished trial {trial}; ids are in the column `trial`")
    grid = _grid(folder, data_dir)
    known = _trials(grid, Store(folder))
    chosen = [trial] if trial else _spread(list(rows), sample)
    again = {key: _found(key, known) for key in chosen}  # all of them, before any trains
    worker = Worker(grid.data, grid.study.resources.cpus)
    verdicts = []
    for key, found in again.items():
        blob = worker.train_pack(Pack((found,)).as_dict())
        verdicts.append(_compare(rows[key], from_blob(blob).to_pylist()[0]))
    return verdicts


def load_network(
    run: str | Path, trial: str, data_dir: Path | None = None
) -> tuple[Net, Params, Task]:
    """The trained network of a row: its architecture, its parameters, its data.

    The parameters are those that the run saved (`measure.save_weights`); where it saved none, or
    where their file is damaged, the network is trained again, exactly.

    The parameters have one replica; `net.hidden(params, x)` gives the hidden layers' outputs for
    x of shape (1, examples, inputs), and `task.test.batch(1)` such an x with its targets.

    Raises:
        StoreError: no such run, no such trial in it, or a network that diverged.
    """
    from orchestrator.worker import Worker
    from rules.net import Net

    folder = opened(run, path_of(Path(), trial).as_posix())
    grid = _grid(folder, data_dir)
    store = Store(folder)
    found = _found(trial, _trials(grid, store))
    if store.answers.get(trial, {}).get("status") == "diverged":
        raise StoreError(f"the network of trial {trial} diverged: there are no weights to load")
    task = Worker(grid.data, grid.study.resources.cpus).task(found.cell)
    wanted = grid.study.measure.save_weights and not found.tuning
    params = _saved(folder, found, said=wanted) or _trained(found, task)
    network, loss = found.cell.network, found.cell.training.loss
    return Net(network.activation, network.residual, loss), params, task


def _saved(folder: Path, trial: Trial, *, said: bool) -> Params | None:
    """The parameters that the run kept; where that is `said` to be so, their lack is told."""
    import torch

    from rules.net import Params

    if not (said or path_of(folder, trial.id).exists()):
        return None
    sizes = list(pairwise(trial.cell.dims.sizes))
    shapes = {f"W{l}": pair for l, pair in enumerate(sizes, start=1)}
    if trial.cell.dims.bias:
        shapes |= {f"b{l}": (1, width) for l, (_, width) in enumerate(sizes, start=1)}
    arrays = read(folder, trial.id, shapes, trial.cell.training.dtype)
    if arrays is None:
        return None
    device = torch.device(trial.cell.device)
    tensors = [torch.from_numpy(array)[None].to(device) for array in arrays.values()]
    return Params(tuple(tensors[: len(sizes)]), tuple(tensors[len(sizes) :]))


def _trained(trial: Trial, task: Task) -> Params:
    from orchestrator.worker import job_of
    from rules.train import fit

    _, learner = fit(job_of([trial]), task)
    if not learner.replicas:
        raise StoreError(f"the network of trial {trial.id} diverged: there are no weights to load")
    return learner.params


def _grid(folder: Path, data_dir: Path | None) -> Grid:
    """The folder's current study, its rules looked up where its run looked them up."""
    for path in [folder, *map(Path, current(folder).get("paths", []))]:
        importable(path / "study.yaml")
    return expand(load_study(folder / "study.yaml"), data_dir)


def _found(trial: str, known: Mapping[str, Trial]) -> Trial:
    if trial not in known:
        raise StoreError(
            f"trial {trial} is none that the study's rules and data sets of today can make; "
            "ids are in the column `trial`"
        )
    return known[trial]


def _spread(ids: Sequence[str], sample: int) -> list[str]:
    stride = max(1, len(ids) // sample)
    return list(ids[::stride][:sample])


def _trials(grid: Grid, store: Store) -> dict[str, Trial]:
    """The trials of a finished or half-finished run, found by replaying it from its table."""
    found: dict[str, Trial] = {}
    for campaign in campaigns(grid):
        steps = campaign.run(store.asked.get(campaign.id, {}))
        answers = None
        while True:
            try:
                wanted = next(steps) if answers is None else steps.send(answers)
            except StopIteration:
                break
            found |= {w.trial.id: w.trial for w in wanted}
            if any(w.trial.id not in store.answers for w in wanted):
                break
            answers = [store.answers[w.trial.id] for w in wanted]
    return found


def _compare(row: dict[str, Any], again: dict[str, Any]) -> Verdict:
    worst, column = 0.0, ""
    for name in named("result"):
        difference = _difference(row[name], again[name])
        if difference > worst:
            worst, column = difference, name
    verdict = "exact" if worst == 0 else "close" if worst <= CLOSE else "different"
    return Verdict(row["trial"], row["label"], row["depth"], verdict, column, worst, row["device"])


def _difference(a: Any, b: Any) -> float:
    """The largest relative difference of two cells of the table; inf where they cannot compare."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return max((_difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    if isinstance(a, float) and isinstance(b, float):
        if a == b or (isnan(a) and isnan(b)):
            return 0.0
        return abs(a - b) / max(abs(a), abs(b))
    return 0.0 if a == b else float("inf")
