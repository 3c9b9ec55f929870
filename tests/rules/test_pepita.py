"""PEPITA against plain loops, and what is left of it without feedback."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from rules.case import Case
from rules.measure import credit
from rules.net import Net
from rules.pepita import PEPITA
from rules.rule import State
from rules.settings import Network, Training
from rules.task import Examples
from rules.train import Job, advance, start

RULE = PEPITA(scale=0.2)


@dataclass
class Plain:
    """Dellaferrera, Kreiman 2022, algorithm 1: both passes, by hand."""

    F: np.ndarray

    def second(self, one):
        shifted = one.x.copy()
        for c, e in enumerate(one.error):
            shifted = shifted + e * self.F[c]
        return replace(one, x=shifted)

    def signals(self, one, step: int) -> list[np.ndarray]:
        after = self.second(one)
        pairs = zip(one.h[1:], after.h[1:], strict=True)
        return [*(h - h_err for h, h_err in pairs), after.error]

    def inputs(self, one) -> list[np.ndarray]:
        return self.second(one).h

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        """F is fixed."""


def test_it_trains_as_plain_loops(case: Case, same_training: Callable):
    def teacher(state: State, r: int) -> Plain:
        return Plain(state["F"][0][r].numpy())

    same_training(RULE, teacher, case)


def test_without_feedback_hidden_weights_stay_and_the_readout_learns():
    case = Case()
    x, y = (part[0] for part in case.examples())
    training = Training(3, 6, dtype="float64")
    job = Job(Network(2, 0), training, PEPITA(scale=0.0), (0,), (0,), (0.1,), None)
    learner = start(job, case.dims, torch.device("cpu"))
    before = [w.clone() for w in learner.params.weights]
    advance(case.net, learner, job.training, Examples(x, y, 4, 0.0, 1.0, case.dtype), 3)
    changed = [not torch.equal(a, b) for a, b in zip(before, learner.params.weights, strict=True)]
    assert changed == [False, False, True]


def test_feedback_is_drawn_from_the_stated_law():
    case = Case((400, 5, 50))
    (F,) = PEPITA(scale=0.5).init(case.dims, case.streams)["F"]
    assert tuple(F.shape) == (3, 50, 400)
    assert F.std().item() == pytest.approx(0.5 / 20, rel=0.02)


def test_it_is_measured_by_its_updates_and_the_readout_s_error_is_that_of_the_second_pass():
    case = Case()
    state = RULE.init(case.dims, case.streams)
    lesson, _ = RULE.teach(case.trace(), case.params(), state)
    assert not torch.equal(lesson.signals[-1], case.trace().error)
    second = case.net.trace(case.params(), lesson.inputs[0], case.trace().targets, case.streams, 0)
    assert torch.equal(lesson.signals[-1], second.error)
    x, y = (part[0] for part in replace(case, seeds=(9,), batch=20).examples())
    held_out = Examples(x, y, 4, 0.0, 1.0, case.dtype)
    found = credit(case.net, RULE, case.params(), state, case.streams, held_out)
    assert found.alignment.abs().max() < 1


def test_where_there_is_no_error_nothing_is_taught():
    case = Case(net=Net(loss="squared"))
    x, _ = case.examples()
    perfect = case.net.logits(case.params(), x)
    trace = case.net.trace(case.params(), x, perfect, case.streams, 0)
    lesson, _ = RULE.teach(trace, case.params(), RULE.init(case.dims, case.streams))
    assert not any(s.any() for s in lesson.signals)
    assert all(map(torch.equal, lesson.inputs, trace.inputs))
