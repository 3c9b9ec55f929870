"""A data set as tensors on a device: the parts to train on, to choose by and to report on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rules.shuffle import split

if TYPE_CHECKING:
    from rules.dataset import Data


@dataclass(frozen=True)
class Examples:
    """Inputs (examples, inputs) as stored, and targets: classes (examples,) or values."""

    x: Tensor
    y: Tensor
    classes: int | None  # None: regression
    offset: float
    scale: float
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.x)

    def slice(self, start: int, stop: int) -> Examples:
        """The examples from `start` up to `stop`."""
        return replace(self, x=self.x[start:stop], y=self.y[start:stop])

    def double(self) -> Examples:
        """The same examples, read in float64."""
        return replace(self, dtype=torch.float64)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets at `index` (replica, batch), the inputs scaled for the network."""
        places = index.flatten()  # whole rows are copied so; `x[index]` takes three times as long
        x, y = (
            part.index_select(0, places).view(*index.shape, *part.shape[1:])
            for part in (self.x, self.y)
        )
        return self._scaled(x), self._typed(y)

    def batch(self, replicas: int) -> tuple[Tensor, Tensor]:
        """All examples, the same for every replica: (replica, examples, ...)."""
        x, y = self._scaled(self.x), self._typed(self.y)
        return x.expand(replicas, *x.shape), y.expand(replicas, *y.shape)

    def _scaled(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        return x if (self.offset, self.scale) == (0.0, 1.0) else (x - self.offset) / self.scale

    def _typed(self, y: Tensor) -> Tensor:
        return y if self.classes else y.to(self.dtype)


@dataclass(frozen=True)
class Task:
    """The three parts of a data set: train; validation, to choose by; test, to report on."""

    train: Examples
    validation: Examples | None
    test: Examples | None

    @property
    def chooser(self) -> Examples:
        """What chooses hyperparameters: the validation part where there is one."""
        return self.validation or self.train

    @property
    def held_out(self) -> Examples:
        """Examples that the network was not trained on, where there are any."""
        return self.test or self.chooser


def task_of(
    data: Data, validation: float, split_seed: int, dtype: str, device: torch.device
) -> Task:
    """The data set on a device, its training part split once and for all by `split_seed`."""

    kind = getattr(torch, dtype)

    def part(x: np.ndarray, y: np.ndarray) -> Examples:
        inputs, targets = _tensor(x, device), _tensor(y, device)
        if inputs.is_floating_point():  # images stay bytes: a quarter of the memory
            inputs = inputs.to(kind)
        return Examples(inputs, targets, data.classes, data.offset, data.scale, kind)

    train, held = split(len(data.x_train), validation, split_seed)
    return Task(
        part(data.x_train[train], data.y_train[train]),
        part(data.x_train[held], data.y_train[held]) if len(held) else None,
        part(data.x_test, data.y_test)
        if data.x_test is not None and data.y_test is not None
        else None,
    )


def _tensor(array: np.ndarray, device: torch.device) -> Tensor:
    with warnings.catch_warnings():  # shared memory is read-only, and nothing here writes
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array).to(device)
