"""Trial tables as a small study would leave them, made without training anything."""

import json
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from analysis.trials import frame_of
from orchestrator import store

Rows = list[dict[str, Any]]

RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
STEPS = [0, 100, 200, 400, 800]
FEEDBACK_FREE = ("bp", "shallow")


def table_of(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=store.SCHEMA)


def quality(label: str, depth: int) -> float:
    """A fraction of bp's alignment that decays with depth, as random feedback's does."""
    known = {"bp": 1.0, "sdil": 0.93, "fa": 0.85, "dfa": 0.8, "shallow": 0.0}
    return float(known.get(label, 0.75) ** (depth / 2))


def plan_row(label: str, depth: int, width: int, **more: Any) -> dict[str, Any]:
    return {
        "study": "small", "study_id": "s1", "campaign": f"{label}-{depth}-{width}",
        "label": label, "rule": label, "options": "{}", "dataset": "mnist1d", "depth": depth,
        "width": width, "activation": "tanh", "residual": False, "bias": True,
        "lr_low": RATES[0], "lr_high": RATES[-1], "choose": "validation_loss",
        "parameter_count": 40 * width + width * width * (depth - 1), "steps": STEPS[-1],
        "batch_size": 100, "momentum": 0.9, "weight_decay": 0.0, "loss": "cross-entropy",
        "dtype": "float32", "status": "pending",
    } | more  # fmt: skip


def trained(row: dict[str, Any]) -> dict[str, Any]:
    """The row with made-up results: a function of its coordinates, seeds included."""
    depth, seed, feedback = row["depth"], row["init_seed"], row["feedback_seed"] or 0
    rng = np.random.default_rng([seed, feedback, depth, sum(row["label"].encode())])
    good = quality(row["label"], depth) * np.exp(-0.15 * np.log(row["lr"] / 0.03) ** 2)
    shared = np.random.default_rng(seed).normal(0, 0.012)
    accuracy = 0.3 + 0.6 * good + shared + rng.normal(0, 0.006)
    layers = [
        1.0 if row["rule"] == "bp" else quality(row["label"], 2 * (depth - l) - 1)
        for l in range(depth)
    ]
    alignment = [float(np.clip(a + rng.normal(0, 0.01), -1, 1)) for a in layers]
    progress = [1 - float(np.exp(-step / 150)) for step in STEPS]
    loss = 2.3 * (1 - good) + 0.3 + shared
    losses = [2.4 + (loss - 2.4) * part for part in progress]
    accuracies = [0.1 + (accuracy - 0.1) * part for part in progress]
    return row | {
        "status": "ok", "initial_loss": 2.4, "chance_accuracy": 0.1, "train_loss": loss - 0.05,
        "train_accuracy": accuracy + 0.02, "validation_loss": loss, "validation_accuracy": accuracy,
        "test_loss": loss + 0.02, "test_accuracy": accuracy, "best_test_accuracy": accuracy,
        "best_step": STEPS[-1], "alignment": alignment, "update_cosine": alignment,
        "norm_ratio": [1.0] * depth, "curve_step": STEPS, "curve_train_loss": losses,
        "curve_validation_loss": losses, "curve_test_loss": losses,
        "curve_test_accuracy": accuracies,
        "curve_alignment": [[a * part for a in alignment] for part in progress],
        "seconds": 1.0, "pack": "p", "pack_size": 8, "attempts": 1, "device": "cpu",
    }  # fmt: skip


def diverged(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a network whose loss left its bounds early."""
    lost = [
        "train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "test_loss",
        "test_accuracy", "best_test_accuracy", "best_step", "alignment", "update_cosine",
        "norm_ratio", "curve_step", "curve_train_loss", "curve_validation_loss",
        "curve_test_loss", "curve_test_accuracy", "curve_alignment",
    ]  # fmt: skip
    return row | dict.fromkeys(lost) | {"status": "diverged", "diverged_step": 17}


def failed(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a network whose rule raised."""
    return diverged(row) | {
        "status": "failed", "error": "Traceback", "diverged_step": None, "initial_loss": None,
        "chance_accuracy": None,
    }  # fmt: skip


def probed(row: dict[str, Any]) -> dict[str, Any]:
    """The row with made-up probes and chance alignment, if it is a finished evaluation."""
    if (row["phase"], row["status"]) != ("evaluate", "ok"):
        return row
    depth, seed = row["depth"], row["init_seed"]
    fresh = np.random.default_rng([seed, depth])  # untrained networks do not know their rule
    rng = np.random.default_rng([seed, depth, sum(row["label"].encode())])
    before = [0.6 * 0.93**l + fresh.normal(0, 0.01) for l in range(1, depth + 1)]
    gains = quality(row["label"], depth) * 0.3 * np.linspace(0.5, 1, depth)
    after = [b + gain + rng.normal(0, 0.01) for b, gain in zip(before, gains, strict=True)]
    return row | {
        "probe_accuracy": [float(value) for value in after],
        "probe_accuracy_untrained": [float(value) for value in before],
        "probe_accuracy_input": 0.62,
        "alignment_chance": [0.03 + 0.05 * l / depth for l in range(1, depth + 1)],
    }


def pending(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a planned network; that of an evaluation has no rate yet."""
    plan = plan_row(row["label"], row["depth"], row["width"])
    kept = {name: row[name] for name in (*plan, "phase", "init_seed", "feedback_seed")}
    return kept | {"status": "pending"}


def study_rows(
    labels: Iterable[str] = ("bp", "fa", "dfa", "sdil"),
    depths: Iterable[int] = (1, 2, 4, 6, 8, 10),
    seeds: int = 5,
    widths: Callable[[int], Iterable[int]] = lambda depth: (64,),
    **more: Any,
) -> Rows:
    """A finished study: three tuning seeds at each rate, then the evaluation at the best."""
    rows: Rows = []
    for label, depth in product(labels, depths):
        for width in widths(depth):
            rows += _cell(plan_row(label, depth, width, **more), seeds)
    return [row | {"trial": f"t{i}"} for i, row in enumerate(rows)]


def _cell(plan: dict[str, Any], seeds: int) -> Rows:
    chosen = 1e-2
    tuning = [
        plan | {"phase": "tune", "round": 0, "point": i, "init_seed": 1_000_000 + seed, "lr": lr}
        for (i, lr), seed in product(enumerate(RATES), range(3))
    ]
    final = [plan | {"phase": "evaluate", "init_seed": s, "lr": chosen} for s in range(seeds)]
    rows = []
    for row in tuning + final:
        feedback = None if row["rule"] in FEEDBACK_FREE else row["init_seed"]
        known = {"feedback_seed": feedback, "hyperparameters": json.dumps({"lr": row["lr"]})}
        done = trained(row | known)
        rows.append(diverged(done) if row["lr"] >= 1 and row["depth"] > 3 else done)
    return rows


class Change:
    """What can befall a network, and the rows after it has befallen some of them."""

    diverged = staticmethod(diverged)
    failed = staticmethod(failed)
    pending = staticmethod(pending)

    @staticmethod
    def to(rows: Rows, change: Callable[[dict[str, Any]], dict[str, Any]], **where: Any) -> Rows:
        """The rows, with `change` made to those that have all the values `where`."""
        return [
            change(row) if all(row[name] == value for name, value in where.items()) else row
            for row in rows
        ]


@pytest.fixture
def change() -> type[Change]:
    return Change


@pytest.fixture
def make_rows() -> Callable[..., Rows]:
    return study_rows


@pytest.fixture(name="probed")
def probed_row() -> Callable[[dict[str, Any]], dict[str, Any]]:
    return probed


@pytest.fixture(name="table_of")
def table_of_rows() -> Callable[..., pa.Table]:
    return table_of


@pytest.fixture(scope="session")
def frame() -> Callable[[Rows], pd.DataFrame]:
    return lambda rows: frame_of(table_of(rows))


@pytest.fixture(scope="session")
def study(frame: Callable[[Rows], pd.DataFrame]) -> pd.DataFrame:
    """Four rules, six depths, five seeds, all trained."""
    return frame(study_rows())
