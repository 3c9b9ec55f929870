"""The memory of a worker: what networks take of it, and keeping what a step frees for the next."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import finalize

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rules.task import Task
from rules.train import Job, fit

LARGEST = 2**26
"""Bytes of the largest tensor whose memory is kept: beyond, a step has more to do than to ask."""

KEPT = 2**30
"""Bytes of free memory that stay with the process."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed() -> None:
    """Let the C library keep freed memory, where it is glibc; elsewhere nothing happens.

    By itself it gives the memory of large tensors back to the system at once, which clears the
    same pages again for the next step: up to a fifth of the time of a step of bp.
    """
    with suppress(OSError, AttributeError):  # another C library, or another system
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGEST)
        mallopt(_TRIM_THRESHOLD, KEPT)


def share(device: str, threads: int, gpus: float) -> int:
    """Bytes of memory that are a worker's own.

    Args:
        device: where it trains.
        threads: its CPU cores; on a CPU its memory is as large a part of the machine's.
        gpus: how much of a GPU it has; what others have filled of it is not free, either.
    """
    if device == "cpu":
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return total * threads // max(threads, os.cpu_count() or 1)
    free, total = torch.cuda.mem_get_info()
    kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()  # ours, for reuse
    return int(min(free + kept, total * min(1.0, gpus)))


def bytes_each(make: Callable[[int], Job], task: Task) -> int:
    """Bytes that one more network takes while it trains; what is measured beside is left out.

    Found by training one network and three for two steps, and counting.

    Args:
        make: a job of so many networks.
        task: what they train on.
    """
    one, three = (_taken(make(count), task) for count in (1, 3))
    return max(1, (three - one) // 2)


def _taken(job: Job, task: Task) -> int:
    short = replace(job.training, steps=2, record=(), compile=False)
    held = Held()
    with held:
        fit(replace(job, training=short, measure=None), task)
    return held.most


class Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts, while it is entered, the bytes of the tensors that were alive at once at most.

    Tensors that were there before count from when they are first looked at.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most, self._now = 0, 0
        self._alive: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._alive:
            self._alive.add(key)
            self._now += size
            self.most = max(self.most, self._now)
            finalize(storage, self._gone, key, size)

    def _gone(self, key: int, size: int) -> None:
        self._alive.discard(key)
        self._now -= size
