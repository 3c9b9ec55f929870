"""What training gave as a row of the trial table, and where and by what it was made."""

from __future__ import annotations

import json
import platform
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any

import torch

from orchestrator.cell import Cell
from orchestrator.checkpoints import code
from orchestrator.trial import Pack
from rules.compiled import CompilerError, compiler
from rules.record import Outcome, Point

Row = dict[str, Any]

LAST = (
    "train_loss",
    "train_accuracy",
    "validation_loss",
    "validation_accuracy",
    "test_loss",
    "test_accuracy",
    "alignment",
    "update_cosine",
    "norm_ratio",
)
CURVES = ("train_loss", "validation_loss", "test_loss", "test_accuracy", "alignment")


def row_of(outcome: Outcome) -> Row:
    """The result columns of one network."""
    row: Row = {
        "status": "ok" if outcome.diverged_step is None else "diverged",
        "diverged_step": outcome.diverged_step,
        "chance_accuracy": outcome.chance_accuracy,
        "probe_accuracy_untrained": outcome.probe_accuracy_untrained,
        "probe_accuracy_input": outcome.probe_accuracy_input,
        "initial_loss": _first_loss(outcome.points),
        "curve_step": [point.step for point in outcome.points],
    }
    for name in CURVES:
        curve = [getattr(point, name) for point in outcome.points]
        row[f"curve_{name}"] = None if None in curve else curve
    if outcome.diverged_step is None:
        last = outcome.points[-1]
        row |= {name: getattr(last, name) for name in LAST}
        row |= {name: getattr(outcome, name) for name in ("probe_accuracy", "alignment_chance")}
        row |= _best(outcome.points)
    return row


def _first_loss(points: Sequence[Point]) -> float | None:
    if not points:
        return None
    chosen_by = points[0].validation_loss
    return points[0].train_loss if chosen_by is None else chosen_by


def _best(points: Sequence[Point]) -> Row:
    tested = [point for point in points if point.test_accuracy is not None]
    if not tested:
        return {}
    best = max(tested, key=lambda point: point.test_accuracy or 0.0)
    return {"best_test_accuracy": best.test_accuracy, "best_step": best.step}


def completed(rows: Sequence[Row], pack: Pack, seconds: float) -> list[Row]:
    """The rows with their coordinates and where they come from."""
    provenance = {
        "seconds": seconds / len(rows),
        "pack": pack.id,
        "pack_size": len(rows),
        "attempts": pack.attempts,
        "source": pack.cell.rule.source,
        "finished": time.time(),
    } | where(pack.cell.device, compiles=pack.cell.training.compile)
    return [
        trial.coordinates | row | provenance for trial, row in zip(pack.trials, rows, strict=True)
    ]


def made_by(cell: Cell) -> Row:
    """What would make a checkpoint of the cell here: another making may give other numbers."""
    here = where(cell.device, compiles=cell.training.compile)
    kept = {name: here[name] for name in ("device", "bitwise")}
    versions = {k: v for k, v in json.loads(here["versions"]).items() if k != "python"}
    return kept | versions | {"code": code(), "source": cell.rule.source}


@cache
def where(device: str, *, compiles: bool = False) -> Row:
    """This process's machine and versions, as columns; also its compiler's where it `compiles`."""
    exact = device == "cpu" and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "rulesweep": version("rulesweep"),
    }
    if compiles:
        with suppress(CompilerError):  # the rows say so themselves
            versions["compiler"] = compiler()
    return {
        "device": device if device == "cpu" else torch.cuda.get_device_name(),
        "host": socket.gethostname(),
        "bitwise": exact,
        "versions": json.dumps(versions),
    }
