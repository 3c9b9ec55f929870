"""One network and one example in plain loops: the reference that the batched code is held to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rules.net import Net
from rules.testing import Case

Array = NDArray[np.float64]


def times(h: Array, w: Array) -> Array:
    """The row vector h W, in two loops."""
    return np.array([sum(h[i] * w[i, j] for i in range(len(h))) for j in range(w.shape[1])])


PHI = {
    "tanh": lambda z: (np.tanh(z), 1 / np.cosh(z) ** 2),
    "relu": lambda z: (np.maximum(z, 0), 1.0 * (z > 0)),
    "sigmoid": lambda z: (1 / (1 + np.exp(-z)), 1 / (2 + np.exp(z) + np.exp(-z))),
}
"""An activation and its derivative."""


@dataclass
class Alone:
    """One network, and one example on its way through it; l counts hidden layers from 1."""

    replica: int
    example: int
    weights: list[Array]  # W_1..W_{L+1}
    biases: list[Array]
    activation: str
    residual: bool
    x: Array
    target: int | Array

    def __post_init__(self) -> None:
        self.depth = len(self.weights) - 1
        self.h, self.slopes, self.logits = self.upwards(0, self.x)
        self.loss = self.loss_of(self.logits)

    def upwards(self, l: int, h: Array) -> tuple[list[Array], list[Array], Array]:
        """h_l..h_L, phi'(z_{l+1})..phi'(z_L), and the logits, from h_l = h."""
        outputs, slopes = [h], []
        for k in range(l, self.depth):
            z = times(outputs[-1], self.weights[k]) + self.biases[k]
            phi, slope = PHI[self.activation](z)
            slopes.append(slope)
            outputs.append(phi + outputs[-1] if self.residual and k > 0 else phi)
        return outputs, slopes, times(outputs[-1], self.weights[-1]) + self.biases[-1]

    def loss_of(self, logits: Array) -> float:
        """Half the squared error, or the cross-entropy."""
        if isinstance(self.target, np.ndarray):
            return sum((logits - self.target) ** 2) / 2
        return np.log(sum(np.exp(logits - logits[self.target])))

    @property
    def error(self) -> Array:
        """dloss/dlogits."""
        if isinstance(self.target, np.ndarray):
            return self.logits - self.target
        p = np.exp(self.logits) / sum(np.exp(self.logits))
        return p - (np.arange(len(p)) == self.target)

    def shifted_loss(self, l: int, shift: Array) -> float:
        """The loss after adding `shift` to h_l."""
        *_, logits = self.upwards(l, self.h[l] + shift)
        return self.loss_of(logits)


def networks(case: Case) -> Iterator[Alone]:
    """Every network of a case with each of its examples, one after the other."""
    params, (x, y) = case.params(), case.examples()
    for r in range(len(case.seeds)):
        weights = [w[r].numpy() for w in params.weights]
        biases = [b[r, 0].numpy() for b in params.biases] or [0.0] * len(weights)
        for i in range(case.batch):
            target = y[r, i].numpy() if case.net.loss == "squared" else y[r, i].item()
            net = case.net.activation, case.net.residual
            yield Alone(r, i, weights, biases, *net, x[r, i].numpy(), target)


CASES = [
    Case((5, 7, 6, 4)),
    Case((5, 7, 6, 4), net=Net("relu", loss="squared"), bias=False),
    Case((3, 5, 5, 5, 2), net=Net("relu", residual=True)),
    Case((4, 6, 3, 5), net=Net("sigmoid")),
    Case((3, 5, 5, 5, 2), net=Net(residual=True, loss="squared"), bias=False),
    Case((1, 1, 1), net=Net(loss="squared"), batch=1),
]


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """Unequal widths and skip connections, both activations, both losses, biases or none."""
    return request.param


@pytest.fixture(scope="session")
def alone() -> Callable[[Case], Iterator[Alone]]:
    """A case's networks and examples, one at a time."""
    return networks


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Trials train with one thread each; sums are then the same, bit for bit, in any pack."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
