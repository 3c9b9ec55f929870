"""Checkpoints: a training under way as one file, from which it goes on, bit for bit.

A checkpoint holds what a learner's next step depends on and what its recorder has seen, network
by network. What is a function of the job (rule, seeds, rates) is left out, so that other jobs may
go on with it: those that train some of its networks, in any order.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rules.learner import Learner
from rules.net import Params
from rules.record import Point, Recorder
from rules.sealed import body_of, write

DERIVED = ("replicas", "rule", "streams", "init_seeds", "lr")
"""What of a learner follows from its job."""

KEPT = tuple(f.name for f in fields(Learner) if f.name not in DERIVED)

SHARE = 20
"""Time between two checkpoints, at least, over the time that writing one takes."""


@dataclass
class Checkpoints:
    """The checkpoints of one job: where they go, how often, and the one that it goes on from."""

    path: Path
    networks: Sequence[str]  # names of the job's networks, one a replica
    made: Mapping[str, Any]  # what makes them, for those who look for one to start from
    seconds: float  # between two; 0: one after every step
    start: Path | None = None
    resumed: int | None = None  # the step it went on from
    notes: list[str] = field(default_factory=list)  # what went wrong, a line each
    due: float = 0.0

    def resume(self, learner: Learner, recorder: Recorder) -> Learner:
        """The learner to go on with: that of the checkpoint, or `learner`, before its first step.

        What the recorder had seen by then is put into `recorder`.
        """
        self.due = time.monotonic() + self.seconds
        if self.start is None:
            return learner
        try:
            head, body = body_of(self.start)
            places = [head["networks"].index(name) for name in self.networks]
            device = learner.lr.device
            content = torch.load(io.BytesIO(body), map_location=device, weights_only=True)
            found = resumed(learner, content, places)
            restore(recorder, content, places)
        except Exception as error:  # whatever a damaged or a stranger's file makes its reader raise
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self.notes.append(f"checkpoint {self.start} is not used: {reason}")
            return learner
        self.resumed = found.step
        return found

    def stepped(self, learner: Learner, recorder: Recorder) -> None:
        """After every step: put down a checkpoint when one is due."""
        if time.monotonic() < self.due:
            return
        began = time.monotonic()
        try:
            self.save(learner, recorder)
        except OSError as error:
            self.notes.append(f"no checkpoint can be written to {self.path}: {error.strerror}")
            self.due = float("inf")
            return
        now = time.monotonic()
        self.due = now + max(self.seconds, SHARE * (now - began)) if self.seconds else now

    def save(self, learner: Learner, recorder: Recorder) -> None:
        """Write the checkpoint of this moment in the place of the one before.

        Raises:
            OSError: no room, or no right to write.
        """
        head = {"networks": list(self.networks), "step": learner.step, "made": dict(self.made)}
        content = {
            "replicas": learner.replicas,
            "learner": {name: plain(getattr(learner, name)) for name in KEPT},
            "points": [[asdict(point) for point in points] for points in recorder.points],
            "diverged": recorder.diverged,
            "untrained": recorder.untrained,
        }
        write(self.path, head, lambda file: torch.save(content, file))


def resumed(learner: Learner, content: Mapping[str, Any], places: Sequence[int]) -> Learner:
    """`learner`, fresh from its job, where the checkpoint's networks of these places stood.

    Raises:
        ValueError, KeyError, TypeError: the checkpoint is none of such networks.
    """
    rows = {replica: row for row, replica in enumerate(content["replicas"])}
    living = [new for new, old in enumerate(places) if old in rows]
    part = learner.part(living)
    chosen = [rows[places[new]] for new in living]
    values = {
        name: like(getattr(part, name), picked(content["learner"][name], chosen), name)
        for name in KEPT
    }
    return replace(part, **values)


def restore(recorder: Recorder, content: Mapping[str, Any], places: Sequence[int]) -> None:
    """Let a recorder have seen what the checkpoint's had seen of the networks of these places."""
    points = [[Point(**point) for point in content["points"][old]] for old in places]
    seen = [
        {new: content[name][old] for new, old in enumerate(places) if old in content[name]}
        for name in ("diverged", "untrained")
    ]
    recorder.points = points
    recorder.diverged, recorder.untrained = seen


def plain(value: Any) -> Any:
    """Tensors in tuples and dicts of them, as they are saved."""
    if isinstance(value, Params):
        return {"weights": value.weights, "biases": value.biases}
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def picked(value: Any, rows: list[int]) -> Any:
    """The same for these replicas only."""
    if isinstance(value, Tensor):
        return value if rows == list(range(len(value))) else value[rows]
    if isinstance(value, dict):
        return {name: picked(part, rows) for name, part in value.items()}
    return tuple(picked(part, rows) for part in value) if isinstance(value, tuple) else value


def like(fresh: Any, value: Any, name: str) -> Any:
    """The plain `value` as what `fresh` is; a rule's state may have changed its shape.

    Raises:
        ValueError, KeyError, TypeError: it cannot be that.
    """
    if isinstance(fresh, Params):
        weights, biases = (like(getattr(fresh, n), value[n], name) for n in ("weights", "biases"))
        return Params(weights, biases)
    if isinstance(fresh, tuple):
        return tuple(like(f, v, name) for f, v in zip(fresh, value, strict=True))
    if type(fresh) is not type(value) or (
        isinstance(fresh, Tensor) and (fresh.shape, fresh.dtype) != (value.shape, value.dtype)
    ):
        raise ValueError(f"it holds other networks' {name}")
    return value
