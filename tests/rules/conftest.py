"""One network and one example in plain loops: the reference that the batched code is held to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rules.case import Case
from rules.learner import Learner
from rules.net import Net
from rules.rule import Rule, State
from rules.settings import Network, Training
from rules.task import Examples
from rules.train import Job, advance, start

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
        return self.error_of(self.logits)

    def error_of(self, logits: Array) -> Array:
        """dloss/dlogits at other logits."""
        if isinstance(self.target, np.ndarray):
            return logits - self.target
        p = np.exp(logits) / sum(np.exp(logits))
        return p - (np.arange(len(p)) == self.target)

    def shifted_logits(self, l: int, shift: Array) -> Array:
        """The logits after adding `shift` to h_l."""
        return self.upwards(l, self.h[l] + shift)[-1]

    def shifted_loss(self, l: int, shift: Array) -> float:
        """The loss after adding `shift` to h_l."""
        return self.loss_of(self.shifted_logits(l, shift))


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


class Teacher(Protocol):
    """A rule for one network in plain loops, straight from its paper's equation.

    One that takes other presynaptic factors than h_0..h_L has a method `inputs` for them.
    """

    def signals(self, one: Alone, step: int) -> list[Array]:
        """s_1..s_{L+1} for one example."""
        ...

    def learn(self, ones: list[Alone], weights: list[Array], step: int) -> None:
        """What the rule learns in a step: the batch before it, and the weights after it."""


def plain_layered(one: Alone, backward: list[Array]) -> list[Array]:
    """s_l = (s_{l+1} B_{l+1}) * phi'(z_l), plus what a skip connection brings, unit by unit."""
    signals, u = [one.error], np.zeros(1)
    for l in range(one.depth, 0, -1):
        below = times(signals[0], backward[l - 1])
        u = below + u if one.residual and l < one.depth else below
        signals.insert(0, u * one.slopes[l - 1])
    return signals


def plain_direct(one: Alone, backward: list[Array], drive: Array) -> list[Array]:
    """s_l = (drive B_l) * phi'(z_l)."""
    pairs = zip(backward, one.slopes, strict=True)
    return [*(times(drive, b) * slope for b, slope in pairs), one.error]


RATES, MOMENTUM, DECAY = (0.3, 0.1, 0.2), 0.9, 0.02


def compare_training(rule: Rule, teacher: Callable[[State, int], Teacher], case: Case) -> None:
    """Train a case's networks for some steps, in the core and in plain loops: the same weights.

    `teacher` makes the plain rule of a replica from the rule's state at the start.
    """
    training = Training(1, case.batch, MOMENTUM, DECAY, case.net.loss, "float64")
    network = Network(case.dims.depth, 0, case.net.activation, case.net.residual, case.bias)
    feedback = tuple(seed + 50 for seed in case.seeds)
    job = Job(network, training, rule, case.seeds, feedback, RATES[: len(case.seeds)], None)
    learner = start(job, case.dims, torch.device("cpu"))
    drawn = replace(case, seeds=(9,)).examples()
    part = Examples(drawn[0][0], drawn[1][0], case.sizes[-1], 0.0, 1.0, torch.float64)
    if case.net.loss == "squared":
        part = replace(part, classes=None)
    plain = [Descent(learner, r, teacher(learner.state, r), case) for r in range(len(case.seeds))]
    for step in range(4):
        advance(case.net, learner, training, part, step + 1)
        for r, network in enumerate(plain):
            network.descend(part, RATES[r], step)
            for w, batched in zip(network.parameters, learner_parameters(learner, r), strict=True):
                assert batched == pytest.approx(w, rel=0, abs=1e-12)


def learner_parameters(learner: Learner, r: int) -> list[Array]:
    params = learner.params
    return [t[r].clone().numpy() for t in (*params.weights, *(b[:, 0] for b in params.biases))]


class Descent:
    """Momentum and decay for one network, whose gradients are sums over its examples."""

    def __init__(self, learner: Learner, r: int, teacher: Teacher, case: Case) -> None:
        self.replica, self.teacher, self.case = r, teacher, case
        self.parameters = learner_parameters(learner, r)
        self.velocity = [0 * w for w in self.parameters]

    def descend(self, part: Examples, lr: float, step: int) -> None:
        layers, net = len(self.case.sizes) - 1, self.case.net
        weights, biases = self.parameters[:layers], self.parameters[layers:] or [0.0] * layers
        total, ones = [0 * w for w in self.parameters], []
        for i, (x, y) in enumerate(zip(part.x.numpy(), part.y.numpy(), strict=True)):
            target = y if net.loss == "squared" else int(y)
            place = self.replica, i, weights, biases
            ones.append(Alone(*place, net.activation, net.residual, x, target))
            signals = self.teacher.signals(ones[-1], step)
            own = getattr(self.teacher, "inputs", None)
            inputs = own(ones[-1]) if own else ones[-1].h
            for l, s in enumerate(signals):
                total[l] = total[l] + np.outer(inputs[l], s)
                if self.case.bias:
                    total[layers + l] = total[layers + l] + s
        self.velocity = [
            MOMENTUM * v + g / len(ones) for v, g in zip(self.velocity, total, strict=True)
        ]
        pairs = zip(self.parameters, self.velocity, strict=True)
        self.parameters = [(1 - DECAY) * w - lr * v for w, v in pairs]
        self.teacher.learn(ones, self.parameters[:layers], step)


@pytest.fixture(scope="session")
def same_training() -> Callable[[Rule, Callable[[State, int], Teacher], Case], None]:
    """Holds a rule's training to plain loops."""
    return compare_training


@pytest.fixture(scope="session")
def layered() -> Callable[[Alone, list[Array]], list[Array]]:
    """Signals through one matrix a layer, in plain loops."""
    return plain_layered


@pytest.fixture(scope="session")
def direct() -> Callable[[Alone, list[Array], Array], list[Array]]:
    """Signals straight from the output, in plain loops."""
    return plain_direct


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Trials train with one thread each; sums are then the same, bit for bit, in any pack."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
