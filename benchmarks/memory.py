"""The peak memory of the driver and of every Ray worker, while a study as the example's runs."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.numbers import Number, number
from benchmarks.sides import answer_of, launch
from benchmarks.sizes import Sizes

MOST_MB = 600.0
PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """What the kernel says of a process."""

    pid: int
    parent: int
    peak_mb: float
    title: str


def measure(sizes: Sizes) -> list[Number]:
    """Megabytes of the driver, of the workers, and of all that belongs to Ray itself."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary) / "side"
        side = launch("benchmarks.rulesweep_side", sizes, folder, "quick")
        peaks = watch(side)
        answer_of(side, folder)
    driver = peaks.pop(side.pid)
    workers = [p for p in peaks.values() if is_worker(p)]
    rest = [p.peak_mb for p in peaks.values() if not is_worker(p)]
    if not workers:
        raise RuntimeError(f"no worker among {sorted(p.title for p in peaks.values())}")
    return [
        number("driver", driver.peak_mb, "MB", at_most=MOST_MB),
        *(
            number(f"worker {i}", p.peak_mb, "MB", at_most=MOST_MB)
            for i, p in enumerate(workers, start=1)
        ),
        number(f"Ray's own {len(rest)} processes, together", sum(rest), "MB"),
    ]


def is_worker(process: Process) -> bool:
    """Whether a process trains packs; Ray names its processes for what they do."""
    return process.title.startswith("ray::") and "Trainable" in process.title


def watch(side: subprocess.Popen[bytes], every: float = 0.2) -> dict[int, Process]:
    """The peaks of a process and all below it, by process id, until it ends."""
    peaks: dict[int, Process] = {}
    while side.poll() is None:
        for process in family(side.pid):
            known = peaks.get(process.pid, process)
            title = known.title if is_worker(known) else process.title
            peak = max(known.peak_mb, process.peak_mb)
            peaks[process.pid] = Process(process.pid, process.parent, peak, title)
        time.sleep(every)
    return peaks


def family(pid: int) -> list[Process]:
    """A process and all below it."""
    everyone = list(processes())
    found = [process for process in everyone if process.pid == pid]
    for above in found:  # grows on the way
        found += [process for process in everyone if process.parent == above.pid]
    return found


def processes() -> Iterator[Process]:
    """Every process that can be read; one may end while it is."""
    for folder in PROC.glob("[0-9]*"):
        try:
            status = dict(
                line.split(":", 1) for line in (folder / "status").read_text().splitlines()
            )
            title = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        peak = int(status.get("VmHWM", "0 kB").split()[0]) / 1024  # a zombie has none
        yield Process(int(folder.name), int(status["PPid"]), peak, title)
