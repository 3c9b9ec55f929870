"""What the scheduler takes for a pack whose training takes no time.

All is real, pump and table and Ray and Tune, but for the training: a worker gives the same row
for every network at once.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.numbers import Number, number
from benchmarks.sizes import Sizes
from benchmarks.studies import many_packs
from orchestrator import schedule
from orchestrator.driver import settings
from orchestrator.folder import study_id
from orchestrator.grid import expand
from orchestrator.result_row import Row
from orchestrator.store import Store
from orchestrator.sweep import Pump
from orchestrator.trial import Pack, Trial
from orchestrator.worker import Worker

CURVE = [1.0] * 6
ROW: Row = {
    "status": "ok",
    "validation_loss": 1.0,
    "test_loss": 1.0,
    "test_accuracy": 0.5,
    "curve_step": [*range(6)],
    "curve_train_loss": CURVE,
    "curve_validation_loss": CURVE,
    "curve_test_loss": CURVE,
    "curve_test_accuracy": CURVE,
}


class IdleWorker(Worker):
    """Reads and answers packs as ever, but trains nothing."""

    def rows(self, trials: Sequence[Trial]) -> list[Row]:
        return [ROW for _ in trials]


class IdleTrial(schedule.PackTrial):
    """The product's trainable, with a worker that is idle."""

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        super().setup(config, **shared)
        self.worker = IdleWorker(shared["data"], **shared["settings"])


class ClockedPump(Pump):
    """A pump that notes when packs came back, and the time that it takes itself."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.times: list[float] = []
        self.megabytes: list[float] = []  # of this process, at the same moments
        self.own = 0.0

    def take(self) -> Pack | None:
        began = time.perf_counter()
        pack = super().take()
        self.own += time.perf_counter() - began
        return pack

    def give(self, pack: Pack, blob: bytes | None) -> None:
        began = time.perf_counter()
        super().give(pack, blob)
        self.times.append(time.perf_counter())
        self.own += self.times[-1] - began
        self.megabytes.append(resident())


def resident() -> float:
    """Megabytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(sizes: Sizes) -> list[Number]:
    """Milliseconds a pack, over all and by quarter of the packs, first to last."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        grid = expand(many_packs(sizes))
        pump = ClockedPump(grid, Store(folder), study_id(grid))
        fitted = fit(pump, sizes.workers)
    assert pump.finished
    quarters = [milliseconds(part) for part in quarters_of(pump.times)]
    return [
        number("a pack", milliseconds(pump.times), "ms", at_most=35),
        *(number(f"a pack, quarter {i}", q, "ms") for i, q in enumerate(quarters, start=1)),
        number("last quarter over the first", quarters[-1] / quarters[0], "x", at_most=1.2),
        number("driver's growth a pack, last quarter", growth(pump.megabytes), "KB"),
        number("of it pump and table", 1000 * pump.own / len(pump.times), "ms"),
        number("from fit to the first pack", pump.times[0] - fitted, "s"),
    ]


def fit(pump: Pump, workers: int) -> float:
    """Send every pack through Ray; when Tune began."""
    schedule.start("local", workers)
    try:
        began = time.perf_counter()
        with patch.object(schedule, "PackTrial", IdleTrial):
            room = schedule.room(1, 0, workers, joined=False)
            schedule.run(pump, [], room, {}, settings(pump.grid.study))
    finally:
        schedule.stop()
    return began


def milliseconds(times: Sequence[float]) -> float:
    """The mean distance of moments in seconds."""
    return 1000 * (times[-1] - times[0]) / (len(times) - 1)


def growth(megabytes: Sequence[float]) -> float:
    """Kilobytes a pack over the last quarter of the packs."""
    last = megabytes[3 * len(megabytes) // 4 :]
    return 1024 * (last[-1] - last[0]) / max(1, len(last) - 1)


def quarters_of(times: Sequence[float]) -> list[Sequence[float]]:
    """The moments in four parts that share their ends."""
    ends = [round(i * (len(times) - 1) / 4) for i in range(5)]
    return [times[low : high + 1] for low, high in pairwise(ends)]
