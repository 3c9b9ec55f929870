"""A trial run of every rule before a study starts: a few networks, two steps, on a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.sweep import Pump
from orchestrator.trial import Pack, trial_of

STEPS = 2
SEEDS = (10**9, 10**9 + 1)  # seeds of no study
LR = 1e-4


class PreflightError(RuntimeError):
    """A rule that cannot train anywhere; the message has a line for each such rule."""


def packs(pump: Pump) -> dict[str, Pack]:
    """For every rule with networks to train, by label, a tiny pack of its cheapest cell."""
    found: dict[str, Pack] = {}
    cells = sorted((e.cell for e in pump.grid.evaluations), key=lambda cell: cell.cost)
    for cell in cells:
        label = cell.rule.label
        if label in found or not pump.missing_of(label):
            continue
        short = replace(cell.training, steps=STEPS, record=())
        point = {name: low for name, low, _ in cell.rule.space} | dict(cell.rule.fixed)
        tiny = replace(cell, training=short)
        seeds = [(seed, seed) for seed in SEEDS]
        found[label] = Pack(
            tuple(trial_of(tiny, s, point | {"lr": LR}, tuning=True) for s in seeds)
        )
    return found


def refuse(problems: Mapping[str, str]) -> None:
    """Stop where a rule has a problem.

    Raises:
        PreflightError: there is one.
    """
    lines = [f"rule {label}: {problem}" for label, problem in problems.items() if problem]
    if lines:
        end = "nothing was trained; mend it, or try it with rules.testing.check_rule"
        raise PreflightError("\n".join([*lines, end]))
