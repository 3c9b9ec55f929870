"""The sections, each run in a process of its own; one that fails does not stop the next."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from benchmarks.numbers import Number, table
from benchmarks.sizes import Sizes

SECTIONS = {
    "study": "the same study, end to end, imports and Ray's start included",
    "packing": "networks x steps a second in packs of every size, beside JAX; one thread",
    "overhead": "overhead of the scheduler, for packs that train in no time",
    "shares": "share of the measurements in the time of an evaluation pack (depth 6, width 64)",
    "rules": "a step of every rule over one of bp, beside what its equations ask for; one thread",
    "table": "a large finished study: load, resume, plan, status",
    "memory": "peak memory (VmHWM) of a run of examples/quick.yaml, few epochs",
    "gap": "examples/matched_gap.yaml's matched networks, packed and one after the other",
}
"""Modules of this package with a `measure`, in the order in which they run; their titles."""


def run_section(name: str, sizes: Sizes) -> dict[str, Any]:
    """One section's numbers, or why there are none."""
    began, numbers, error = time.perf_counter(), [], None
    print(f"\n{name}: {SECTIONS[name]}", flush=True)
    try:
        numbers = elsewhere(name, sizes)
        print(table(numbers), flush=True)
    except Exception as failure:  # the other sections go on
        error = f"{type(failure).__name__}: {failure}"
        print(f"  FAILED, {error}", flush=True)
    return {
        "title": SECTIONS[name],
        "seconds": time.perf_counter() - began,
        "error": error,
        "numbers": [each.as_dict() for each in numbers],
    }


def elsewhere(name: str, sizes: Sizes) -> list[Number]:
    """Run a section in a fresh process: no section finds another one's Ray, threads or memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, name, sizes).result()


def _measure(name: str, sizes: Sizes) -> list[Number]:
    return list(import_module(f"benchmarks.{name}").measure(sizes))
