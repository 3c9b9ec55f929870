"""Random numbers as a pure function of (seed, purpose, step), the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def generator(seed: int, purpose: str, step: int = 0) -> np.random.Generator:
    """The generator of one seed for one purpose; a fresh one for every step.

    Counter-based (Philox; Salmon et al., 2011) with a 128-bit key, so that no two streams meet.
    """
    ((_, only),) = generators([seed], purpose, step)
    return only


def generators(
    seeds: Sequence[int], purpose: str, step: int
) -> Iterator[tuple[int, np.random.Generator]]:
    """Each seed with its generator for one purpose and step; the next one takes its place.

    One Philox is given key after key, which takes a tenth of the time of making another.
    """
    philox = np.random.Philox(key=0)
    drawing, start = np.random.Generator(philox), philox.state
    for seed in seeds:
        digest = hashlib.sha256(f"{seed}/{purpose}/{step}".encode()).digest()
        start["state"]["key"] = np.frombuffer(digest[:16], "<u8").astype(np.uint64)
        philox.state = start
        yield seed, drawing


CPU = torch.device("cpu")


@dataclass(frozen=True)
class Streams:
    """One random stream a replica: replicas of equal seeds draw equal numbers."""

    seeds: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    device: torch.device = CPU

    def normal(self, purpose: str, shape: tuple[int, ...], step: int = 0) -> Tensor:
        """Standard normal numbers of shape (replica, *shape).

        Drawn in float64 and then cast, so that a float32 network starts from the rounded
        weights of its float64 twin.
        """
        drawn = {
            seed: drawing.standard_normal(shape)
            for seed, drawing in generators([*dict.fromkeys(self.seeds)], purpose, step)
        }
        out = torch.empty((len(self.seeds), *shape), dtype=self.dtype)
        for replica, seed in enumerate(self.seeds):
            out[replica] = torch.from_numpy(drawn[seed])
        return out.to(self.device)

    def zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of shape (replica, *shape), for a state that starts at nothing."""
        return torch.zeros((len(self.seeds), *shape), dtype=self.dtype, device=self.device)

    def keep(self, replicas: list[int]) -> Streams:
        """The streams of these replicas only."""
        return Streams(tuple(self.seeds[r] for r in replicas), self.dtype, self.device)

    def double(self) -> Streams:
        """The same streams, in float64."""
        return Streams(self.seeds, torch.float64, self.device)
