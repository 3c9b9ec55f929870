"""What the rules are for: deep layers that learn, on a small real task, in a few hundred steps."""

import pytest
import torch

from rules import catalog
from rules.data import load
from rules.settings import Measure, Network, Training
from rules.task import Task, task_of
from rules.train import Job, train


@pytest.fixture(scope="module")
def mnist_1d() -> Task:
    return task_of(load("mnist-1d"), 0.1, 0, "float32", torch.device("cpu"))


def accuracy(name: str, lr: float, task: Task) -> float:
    """Test accuracy after 200 steps at depth 2 and width 48, mean over two networks."""
    measure = Measure(alignment=False, probes=False)
    seeds = (0, 1), (50, 51), (lr, lr)
    job = Job(Network(2, 48), Training(200, 128), catalog.find(name)(), *seeds, measure)
    return sum(outcome.points[-1].test_accuracy for outcome in train(job, task)) / 2


@pytest.fixture(scope="module")
def readout_alone(mnist_1d: Task) -> float:
    """The better of two rates of the control whose hidden layers never learn: .29."""
    return max(accuracy("shallow", lr, mnist_1d) for lr in (0.1, 0.3))


LEARNERS = ["bp", "fa", "dfa", "sdil", "usf", "brsf", "frsf", "kp", "wm", "pc", "fdfa", "ddtp"]


@pytest.mark.parametrize("name", [*LEARNERS, "local-loss"])
def test_a_rule_learns_more_than_a_readout_of_random_layers(
    name: str, mnist_1d: Task, readout_alone: float
):
    """Seen: bp and pc .49, wm .46, fdfa, usf and kp .45, frsf and sdil .44, local-loss .42, brsf
    .40, dfa and ddtp .39, fa .37.
    """
    assert accuracy(name, 0.1, mnist_1d) > readout_alone + 0.05


@pytest.mark.parametrize(("name", "lr"), [("np", 0.03), ("pepita", 0.3)])
def test_noise_and_a_second_pass_learn_a_little_more(
    name: str, lr: float, mnist_1d: Task, readout_alone: float
):
    """Seen: np .35, pepita .33."""
    assert readout_alone + 0.02 < accuracy(name, lr, mnist_1d) < readout_alone + 0.1


@pytest.mark.parametrize(("name", "lr"), [("sdfa", 0.03), ("drtp", 0.1)])
def test_signs_and_targets_alone_do_not_here(
    name: str, lr: float, mnist_1d: Task, readout_alone: float
):
    """As their docstrings say; seen: sdfa .27, drtp .30. They do better than chance, .1."""
    assert 0.2 < accuracy(name, lr, mnist_1d) < readout_alone + 0.05
