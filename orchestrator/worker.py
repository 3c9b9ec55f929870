"""From a pack of trials to tensors and back: trains a pack, gives rows of the trial table."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from orchestrator.cell import Cell
from orchestrator.checkpoints import Place, Shelf
from orchestrator.columns import noted, table_of, to_blob
from orchestrator.result_row import Row, completed, made_by, row_of
from orchestrator.trial import Trial, pack_from
from orchestrator.weights import COLUMN, as_npz, with_weights
from rules import catalog
from rules.checkpoint import Checkpoints
from rules.compiled import CompilerError
from rules.dataset import Data
from rules.memory import bytes_each, keep_freed, share
from rules.net import Params
from rules.pack_size import in_groups, roughly, suited
from rules.task import Task, task_of
from rules.testing import RuleBrokenError, check_form
from rules.train import Job, fit

WARY = 4
"""A network might take so many times what it takes roughly; where that fits, none is counted."""


@dataclass
class Worker:
    """What a process keeps from pack to pack: the data sets, as tensors on its device."""

    data: Mapping[str, Data]
    threads: int = 1
    gpus: float = 1.0  # how much of a GPU is its own, where it trains on one
    save_weights: bool = False  # send the evaluated networks' weights along with their rows
    replicas: int | None = None  # networks in a tensor; None: as suits the shape and the device
    place: Place | None = None  # for checkpoints of long packs; None: none are kept
    memory: int | None = None  # bytes that networks may fill; None: half of the worker's share
    tasks: dict[tuple[str, float, int, str, str], Task] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of a network, by cell

    def __post_init__(self) -> None:
        self.shelf = Shelf(self.place)
        torch.set_num_threads(self.threads)  # more than one changes the order of sums
        keep_freed()

    def train_pack(self, packed: Mapping[str, Any]) -> bytes:
        """Rows of a pack's trials, as an Arrow blob. Never raises: what fails is a row too."""
        pack = pack_from(packed)
        began = time.perf_counter()
        self.shelf.tidy()
        groups = in_groups(len(pack.trials), self.together(pack.trials))
        rows = [row for g in groups for row in self.rows(pack.trials[g.start : g.stop])]
        self.shelf.known.update(trial.id for trial in pack.trials)
        table = table_of(completed(rows, pack, time.perf_counter() - began))
        notes, self.shelf.notes = self.shelf.notes, []
        return to_blob(noted(with_weights(table, rows), notes))

    def together(self, trials: Sequence[Trial]) -> int:
        """How many of a cell's networks train as one tensor: as many as the study says.

        Else as many as train best on a CPU, or all on a GPU, if they fit into the memory, which is
        counted where it might not do.
        """
        cell = trials[0].cell
        shape = cell.dims, cell.training.batch_size, getattr(torch, cell.training.dtype).itemsize
        best = suited(*shape) if cell.device == "cpu" else len(trials)
        count = min(len(trials), self.replicas or best)
        room = self.memory or share(cell.device, self.threads, self.gpus) // 2
        if self.replicas or count * WARY * roughly(cell.dims, shape[-1]) <= room:
            return count
        if cell.content not in self.sizes:
            try:
                size = bytes_each(partial(_some, trials[0]), self.task(cell))
            except (Exception, SystemExit):  # it will be a row
                size = 1
            self.sizes[cell.content] = size
        return max(1, min(count, room // self.sizes[cell.content]))

    def preflight(self, packed: Mapping[str, Any]) -> str:
        """What is wrong with a tiny pack's rule, in one line; empty where nothing is."""
        trials = pack_from(packed).trials
        cell = trials[0].cell
        try:
            numbers = {name: value for name, value in trials[0].point if name != "lr"}
            rule = catalog.find(cell.rule.name)(**dict(cell.rule.options), **numbers)
            check_form(rule, cell.network, cell.training)
            fit(job_of(trials), self.task(cell))
        except (catalog.RuleError, RuleBrokenError, CompilerError) as error:
            return str(error)
        except (Exception, SystemExit) as error:  # a rule is a user's code
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        return ""

    def rows(self, trials: Sequence[Trial]) -> list[Row]:
        """Train trials together; where that raises, halve them until the guilty one stands alone.

        The results are the same in any pack, so halving changes none of them. It also serves a
        pack that is too large for the memory. Trials that go on from unlike checkpoints train
        apart.
        """
        parts = self.shelf.parts([trial.id for trial in trials], made_by(trials[0].cell))
        if len(parts) > 1:
            found: dict[int, Row] = {}
            for part in parts:
                found |= zip(part, self.rows([trials[place] for place in part]), strict=True)
            return [row for _, row in sorted(found.items())]
        try:
            with self.checkpoints(trials) as checkpoints:
                outcomes, learner = fit(job_of(trials), self.task(trials[0].cell), checkpoints)
            step = checkpoints.resumed if checkpoints else None
            rows = [row_of(outcome) | {"continued_step": step} for outcome in outcomes]
            if self.save_weights and not trials[0].tuning:
                for place, replica in enumerate(learner.replicas):
                    rows[replica][COLUMN] = _file(trials[replica], learner.params.keep([place]))
            return rows
        except (Exception, SystemExit):  # a rule is a user's code, and an error is a row
            error = traceback.format_exc()
        if len(trials) == 1:
            return [{"status": "failed", "error": error}]
        middle = len(trials) // 2
        return self.rows(trials[:middle]) + self.rows(trials[middle:])

    @contextmanager
    def checkpoints(self, trials: Sequence[Trial]) -> Iterator[Checkpoints | None]:
        """Those that these trials go on from and leave; what they tell is passed on at the end."""
        if self.shelf.folder is None:
            yield None
            return
        networks, made = [trial.id for trial in trials], made_by(trials[0].cell)
        start = self.shelf.found(networks, made).get(networks[0])
        path = self.shelf.path_of(self.shelf.folder, networks)
        checkpoints = Checkpoints(path, networks, made, self.shelf.seconds, start)
        try:
            yield checkpoints
        finally:
            if checkpoints.resumed:
                self.shelf.notes.append(
                    f"{len(networks)} networks go on from step {checkpoints.resumed}"
                )
            for note in checkpoints.notes:
                self.shelf.tell(note)

    def task(self, cell: Cell) -> Task:
        """The cell's data on its device, made once."""
        task, dtype = cell.task, cell.training.dtype
        key = (task.dataset, task.validation, task.split_seed, dtype, cell.device)
        if key not in self.tasks:
            data = self.data[task.dataset]
            device = torch.device(cell.device)
            self.tasks[key] = task_of(data, task.validation, task.split_seed, dtype, device)
        return self.tasks[key]


def _some(trial: Trial, count: int) -> Job:
    return job_of([trial] * count)


def job_of(trials: Sequence[Trial]) -> Job:
    """Trials of one cell as a job for the tensors' side.

    A searched option reaches the rule as a (replica, 1, 1) tensor; a fixed one as a number.
    """
    cell, points = trials[0].cell, [dict(trial.point) for trial in trials]
    dtype = getattr(torch, cell.training.dtype)
    options = dict(cell.rule.options)
    for name in points[0].keys() - {"lr"}:
        column = torch.tensor([point[name] for point in points], dtype=dtype, device=cell.device)
        options[name] = column.reshape(-1, 1, 1)
    rule = catalog.find(cell.rule.name)(**options)
    feedback = tuple(t.init_seed if t.feedback_seed is None else t.feedback_seed for t in trials)
    return Job(
        cell.network,
        cell.training,
        rule,
        tuple(t.init_seed for t in trials),
        feedback,
        tuple(point["lr"] for point in points),
        None if trials[0].tuning else cell.measure,
    )


def _file(trial: Trial, params: Params) -> bytes:
    weights, biases = ([t[0].cpu().numpy() for t in p] for p in (params.weights, params.biases))
    return as_npz(trial.id, weights, biases)
