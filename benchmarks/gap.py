"""The matched gap's networks, packed and one after the other: the same arithmetic in torch."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.numbers import Number, number
from benchmarks.shares import clocked
from benchmarks.sizes import Sizes
from orchestrator.campaign import Wanted, campaigns
from orchestrator.grid import expand
from orchestrator.spec import load_study
from orchestrator.trial import Trial
from orchestrator.worker import Worker, job_of

STUDY = Path(__file__).parent.parent / "examples" / "matched_gap.yaml"


def measure(sizes: Sizes) -> list[Number]:
    """Seconds of training both ways, in turns, and their ratio; one thread."""
    grid = expand(load_study(STUDY, ["measure.alignment=false"]))
    worker = Worker(grid.data)
    packs = [_trials(next(campaign.run({}))) for campaign in campaigns(grid)]
    matched = [pack for pack in packs if pack]
    turns = [(_seconds(matched, worker), _seconds(_alone(matched), worker))
             for _ in range(sizes.samples)]  # fmt: skip
    count = sum(map(len, matched))
    return [
        number(f"{count} networks, packed", (packed for packed, _ in turns), "s", at_most=20),
        number(f"{count} networks, one after the other", (alone for _, alone in turns), "s"),
        number("ratio", (alone / packed for packed, alone in turns), at_least=20),
    ]


def _trials(wanted: list[Wanted]) -> list[Trial]:
    return [w.trial for w in wanted if w.target is not None]


def _alone(packs: list[list[Trial]]) -> list[list[Trial]]:
    return [[trial] for pack in packs for trial in pack]


def _seconds(packs: list[list[Trial]], worker: Worker) -> float:
    torch.set_num_threads(1)
    return sum(clocked(job_of(pack), worker.task(pack[0].cell)) for pack in packs)
