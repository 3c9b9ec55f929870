"""Node perturbation against plain loops, and how near to the gradient its noise is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import pi, sqrt

import numpy as np
import pytest
import torch

from rules.bp import BP
from rules.case import Case
from rules.measure import cosine
from rules.net import Net
from rules.node_perturbation import NP
from rules.rule import State, Trace
from rules.streams import Streams


@dataclass
class Plain:
    """Fiete, Seung 2006: the change of the loss, times the noise that made it."""

    rule: NP
    case: Case
    replica: int
    streams: Streams

    def signals(self, one, step: int) -> list[np.ndarray]:
        layers = range(1, one.depth + 1)
        return [*(self.gradient(one, l, step) * one.slopes[l - 1] for l in layers), one.error]

    def gradient(self, one, l: int, step: int) -> np.ndarray:
        total, sigma = np.zeros(len(one.h[l])), self.rule.sigma
        for k in range(self.rule.pert_ndirs):
            shape = self.case.batch, len(total)
            drawn = self.streams.normal(f"perturbation/{l}/{k}", shape, step)
            xi = drawn[self.replica, one.example].numpy()
            change = one.shifted_loss(l, sigma * xi) - one.loss
            for i in range(len(total)):
                total[i] += change * xi[i] / sigma / self.rule.pert_ndirs
        return total

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        """Nothing is learned."""


def test_it_trains_as_plain_loops(case: Case, same_training: Callable):
    rule = NP(pert_ndirs=3, sigma=0.1)
    streams = replace(case, feedback_shift=50).streams

    def teacher(state: State, r: int) -> Plain:
        assert state == {}
        return Plain(rule, case, r, streams)

    same_training(rule, teacher, case)


def many_draws(case: Case, count: int) -> Trace:
    """One example a network, `count` times over."""
    x, targets = replace(case, batch=1).examples()
    x, targets = x.expand(-1, count, -1), targets.expand(-1, count)
    return case.net.trace(case.params(), x, targets, case.streams, 0)


@pytest.mark.parametrize("net", [Net(), Net(residual=True)], ids=str)
def test_the_mean_of_many_draws_is_the_gradient(net: Net):
    case = Case((5, 6, 6, 4), net=net)
    trace = many_draws(case, 4096)
    taught, _ = NP(sigma=1e-3).teach(trace, case.params(), {})
    true, _ = BP().teach(trace, case.params(), {})
    for s, g in zip(taught.signals, true.signals, strict=True):
        assert cosine(s.mean(1), g[:, 0]).min() > 0.99
        ratio = s.mean(1).norm(dim=-1) / g[:, 0].norm(dim=-1)
        assert ratio.numpy() == pytest.approx(np.ones(3), abs=0.1)


@pytest.mark.parametrize("draws", [1, 16])
def test_one_draw_is_as_near_to_the_gradient_as_its_size_says(draws: int):
    """A relu layer that is all active, so that phi' takes part in neither side's size."""
    case, n = Case((5, 40, 4), net=Net("relu")), 40
    params = case.params()
    params = replace(params, biases=(params.biases[0] + 9, params.biases[1]))
    x, targets = replace(case, batch=1).examples()
    trace = case.net.trace(params, x.expand(-1, 400, -1), targets.expand(-1, 400), case.streams, 0)
    assert trace.slopes[0].all()
    taught, _ = NP(pert_ndirs=draws, sigma=1e-4).teach(trace, params, {})
    true, _ = BP().teach(trace, params, {})
    expected = sqrt(2 / (pi * n)) if draws == 1 else 1 / sqrt(1 + (n + 1) / draws)
    alike = cosine(taught.signals[0], true.signals[0]).mean().item()
    assert alike == pytest.approx(expected, rel=0.06)


def test_every_step_draws_anew_and_measuring_gives_signals_too():
    case = Case()
    first, again, later = (
        NP().teach(replace(case.trace(), step=step, measuring=measuring), case.params(), {})[0]
        for step, measuring in ((0, False), (0, True), (1, False))
    )
    assert all(map(torch.equal, first.signals, again.signals))
    assert not any(map(torch.equal, first.signals[:-1], later.signals[:-1]))
