"""The optimisers against torch's own, network by network; schedules against their formulas."""

from collections.abc import Callable
from math import cos, pi

import pytest
import torch
from torch import Tensor

from rules.bp import BP
from rules.dims import Dims
from rules.net import Net
from rules.optimizer import factor
from rules.settings import Network, Training
from rules.shuffle import order
from rules.streams import Streams
from rules.task import Examples
from rules.train import Job, advance, start

DIMS, RATES, STEPS, DECAY = Dims((5, 7, 7, 3)), (0.01, 0.05), 12, 1e-3
DOUBLE = torch.float64
Maker = Callable[[list[Tensor]], torch.optim.Optimizer]


def examples() -> Examples:
    x, y = (Streams((9,), DOUBLE).normal(name, (20, n))[0] for name, n in (("x", 5), ("y", 3)))
    return Examples(x, y.argmax(-1), 3, 0.0, 1.0, DOUBLE)


def autograd_network(
    seed: int, first: list[Tensor], make: Maker, training: Training
) -> list[Tensor]:
    """One network's parameters after training by autograd and an optimiser of torch's."""
    parameters = [t.clone().requires_grad_() for t in first]
    optimizer = make(parameters)
    steps = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor(training, step))
    x, y = examples().x, examples().y
    W1, W2, W3, b1, b2, b3 = parameters
    for step in range(STEPS):
        mixed = torch.from_numpy(order(seed, step // 2, len(x)))  # two steps an epoch
        batch = mixed[12:] if step % 2 else mixed[:12]
        logits = torch.tanh(torch.tanh(x[batch] @ W1 + b1) @ W2 + b2) @ W3 + b3
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, y[batch]).backward()
        optimizer.step()
        steps.step()
    return parameters


@pytest.mark.parametrize("schedule", [{}, {"schedule": "cosine", "warmup": 3}])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_updates_are_those_of_torch(optimizer: str, schedule: dict):
    """AdamW of torch decays by lr times its decay, hence the division; its SGD is not decoupled."""
    decay = DECAY if optimizer == "adam" else 0.0
    training = Training(
        STEPS, 12, 0.9, decay, dtype="float64", optimizer=optimizer, **schedule
    )  # fmt: skip
    job = Job(Network(2, 7), training, BP(), (0, 1), (0, 1), RATES, None)
    learner = start(job, DIMS, torch.device("cpu"))
    first = [t.clone() for t in learner.params]
    advance(Net(), learner, training, examples(), STEPS)
    for place, lr in enumerate(RATES):
        makes = {
            "sgd": lambda p, lr=lr: torch.optim.SGD(p, lr, momentum=0.9),
            "adam": lambda p, lr=lr: torch.optim.AdamW(p, lr, weight_decay=DECAY / lr),
        }
        wanted = autograd_network(place, [t[place] for t in first], makes[optimizer], training)
        for found, plain in zip(learner.params, wanted, strict=True):
            torch.testing.assert_close(found[place], plain.detach(), rtol=1e-12, atol=1e-12)


def test_a_schedule_follows_its_formula():
    shapes = {"constant": lambda t: 1, "linear": lambda t: 1 - t, "cosine": lambda t: cos(pi * t)}
    for name, shape in shapes.items():
        training = Training(10, 1, schedule=name, warmup=4)
        found = [factor(training, step) for step in range(10)]
        assert found[:4] == [0.25, 0.5, 0.75, 1.0]
        after = [shape((step - 4) / 6) for step in range(4, 10)]
        wanted = [(1 + t) / 2 for t in after] if name == "cosine" else after
        assert found[4:] == pytest.approx(wanted, abs=1e-15)


def test_decay_follows_the_schedule_and_not_the_rate():
    """A readout without an error: only decay moves it."""
    training = Training(4, 20, 0.0, 0.1, "squared", "float64", schedule="linear")
    job = Job(Network(1, 4, bias=False), training, BP(), (0, 1), (0, 1), (1e-9, 1.0), None)
    x = examples().x
    part = Examples(x, torch.zeros(20, 3, dtype=DOUBLE), None, 0.0, 1.0, DOUBLE)
    learner = start(job, Dims((5, 4, 3), bias=False), torch.device("cpu"))
    learner.params.weights[-1].zero_()
    before = learner.params.weights[0].clone()
    advance(Net(loss="squared"), learner, training, part, 4)
    kept = 0.9 * (1 - 0.075) * 0.95 * 0.975
    torch.testing.assert_close(learner.params.weights[0], kept * before, rtol=1e-12, atol=0)
