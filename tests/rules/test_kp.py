"""The Kolen-Pollack rule against plain loops, and the law by which its feedback converges."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from rules.case import Case
from rules.dims import Dims
from rules.fa import FA
from rules.kp import KP
from rules.learner import Learner
from rules.measure import credit
from rules.net import Net
from rules.optimizer import factor
from rules.rule import State
from rules.settings import Network, Training
from rules.task import Examples
from rules.train import Job, advance, start

SIZES = (5, 8, 6, 4)


@dataclass
class Plain:
    """Akrout et al. 2019, equations 16 and 17: W and B have the same increments and decay."""

    layered: Callable
    B: list[np.ndarray]
    decay: float

    def signals(self, one, step: int) -> list[np.ndarray]:
        return self.layered(one, self.B)

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        for l, (B, before, after) in enumerate(
            zip(self.B, ones[0].weights[1:], weights[1:], strict=True)
        ):
            increment = after - (1 - self.decay) * before
            self.B[l] = np.array(
                [
                    [(1 - self.decay) * B[j, i] + increment[i, j] for i in range(B.shape[1])]
                    for j in range(B.shape[0])
                ]
            )


def test_it_trains_as_plain_loops(case: Case, same_training: Callable, layered: Callable):
    def teacher(state: State, r: int) -> Plain:
        return Plain(layered, [b[r].numpy() for b in state["B"]], decay=0.02)

    same_training(KP(scale=0.7), teacher, case)


def learner_of(steps: int = 1, **training: object) -> tuple[Learner, Training, Examples]:
    settings = Training(steps, 20, dtype="float64", **training)
    rates = (0.3, 0.02, 0.1)
    job = Job(Network(2, 0), settings, KP(), (0, 1, 2), (5, 6, 7), rates, None)
    x, y = replace(Case(SIZES, batch=50), seeds=(9,)).examples()
    part = Examples(x[0], y[0], 4, 0.0, 1.0, torch.float64)
    return start(job, Dims(SIZES), torch.device("cpu")), settings, part


def apart(learner: Learner) -> list[torch.Tensor]:
    """B - W^T now: the state holds both as their decay left them, before the last increment."""
    _, *weights = learner.params.weights
    kept = learner.state["W"] or weights
    pairs = zip(learner.state["B"], kept, weights, strict=True)
    return [b + (w - old).mT - w.mT for b, old, w in pairs]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 1e-3, 0.05])
def test_feedback_nears_the_weights_by_exactly_the_decay(momentum: float, decay: float):
    """Whatever the rates of the networks and the momentum, and whatever they learn."""
    learner, training, part = learner_of(momentum=momentum, weight_decay=decay)
    before = apart(learner)
    first = [w.clone() for w in learner.params.weights]
    for step in range(1, 31):
        advance(Net(), learner, training, part, step)
        now = apart(learner)
        for old, new in zip(before, now, strict=True):
            torch.testing.assert_close(new, (1 - decay) * old, rtol=0, atol=1e-13)
        before = now
    moved = [(w - old).norm() for w, old in zip(learner.params.weights, first, strict=True)]
    assert min(moved) > 0.05


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_so_it_does_under_any_optimizer_and_schedule(optimizer: str):
    """The decay of a step is what the schedule makes of it, and that step's feedback has it too."""
    choice = {"optimizer": optimizer, "schedule": "cosine", "warmup": 3}
    learner, training, part = learner_of(steps=12, momentum=0.9, weight_decay=0.1, **choice)
    before = apart(learner)
    for step in range(12):
        advance(Net(), learner, training, part, step + 1)
        kept, now = 1 - 0.1 * factor(training, step), apart(learner)
        for old, new in zip(before, now, strict=True):
            torch.testing.assert_close(new, kept * old, rtol=0, atol=1e-13)
        before = now


def test_feedback_starts_as_that_of_feedback_alignment():
    case = Case()
    state = KP(0.5).init(case.dims, case.streams)
    assert all(map(torch.equal, state["B"], FA(0.5).init(case.dims, case.streams)["B"]))
    taught = [
        rule.teach(case.trace(), case.params(), {"B": state["B"], "W": ()})[0]
        for rule in (KP(), FA())
    ]
    assert all(map(torch.equal, *(lesson.signals for lesson in taught)))


def test_measuring_sees_the_feedback_of_the_step_to_come():
    """Alignment is that of the signals which the next step will use, the increment included."""
    learner, training, part = learner_of(momentum=0.9, weight_decay=0.05)
    advance(Net(), learner, training, part, 80)
    params, state, streams = learner.params, learner.state, learner.streams
    found = credit(Net(), KP(), params, state, streams, part)
    backward = {
        "B": tuple(d + w.mT for d, w in zip(apart(learner), params.weights[1:], strict=True))
    }
    wanted = credit(Net(), FA(), params, backward, streams, part)
    torch.testing.assert_close(found.alignment, wanted.alignment, rtol=0, atol=1e-12)
    assert found.alignment[0].min() > 0.99  # .95 ** 80 of the start is left
