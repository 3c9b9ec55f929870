"""The same study through rulesweep and four other ways, from process start to end."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.numbers import Number, number
from benchmarks.sides import answer_of, launch
from benchmarks.sizes import Sizes

SIDES = {
    "rulesweep": ("benchmarks.rulesweep_side", "small"),
    "plain Tune": ("benchmarks.plain_tune",),
    "expert Tune": ("benchmarks.plain_tune", "reuse"),
    "process pool": ("benchmarks.plain_python", "pool"),
    "one loop": ("benchmarks.plain_python",),
}


AIMS: dict[str, dict[str, float]] = {
    "plain Tune": {"at_least": 10},
    "expert Tune": {"at_least": 3},
    "process pool": {"at_least": 2},
    "one loop": {},
}


def measure(sizes: Sizes) -> list[Number]:
    """Networks a minute of every side, turn by turn, and the ratios within a turn."""
    sides, ours = sizes.sides, "rulesweep"
    turns = [{name: networks_a_minute(sizes, name) for name in sides} for _ in range(sizes.repeats)]
    numbers = [number(name, (t[name] for t in turns), "networks/min") for name in sides]
    return [
        *numbers,
        *(number(f"ratio to {name}", (t[ours] / t[name] for t in turns), "x", **aim)
          for name, aim in AIMS.items() if name in sides),
    ]  # fmt: skip


def networks_a_minute(sizes: Sizes, name: str) -> float:
    """One side, once."""
    module, *words = SIDES[name]
    print(f"  {name}: ", end="", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder, began = Path(temporary) / "side", time.perf_counter()
        networks = int(answer_of(launch(module, sizes, folder, *words), folder)["networks"])
        seconds = time.perf_counter() - began
    assert networks == wanted(sizes), f"{name} trained {networks} of {wanted(sizes)} networks"
    print(f"{networks} networks in {seconds:.1f} s", flush=True)
    return 60 * networks / seconds


def wanted(sizes: Sizes) -> int:
    """Networks of the study."""
    cells = len(sizes.rules) * len(sizes.depths)
    return cells * (sizes.rounds * sizes.points + sizes.seeds)
