"""Weight mirrors against plain loops, and what their feedback must become."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import pytest
import torch

from rules.case import Case
from rules.fa import FA
from rules.measure import cosine
from rules.net import Net, Params
from rules.rule import State
from rules.streams import Streams
from rules.wm import WM

RULE = WM(eta_B=0.3, lam_B=0.1, noise=0.8, scale=0.7)


@dataclass
class Plain:
    """Akrout et al. 2019, equation 7: B grows by the product of a layer's noise and its answer."""

    layered: Callable
    B: list[np.ndarray]
    replica: int
    streams: Streams

    def signals(self, one, step: int) -> list[np.ndarray]:
        return self.layered(one, self.B)

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        one, count = ones[0], len(ones)
        for l in range(1, one.depth + 1):
            shape = count, len(one.h[l])
            noise = self.streams.normal(f"mirror/{l}", shape, step)[self.replica].numpy()
            answers = [self.answer(one, l, RULE.noise * xi) for xi in noise]
            mean = sum(answers) / count
            B = (1 - RULE.lam_B) * self.B[l - 1]
            for y, xi in zip(answers, noise, strict=True):
                for j in range(B.shape[0]):
                    for i in range(B.shape[1]):
                        product = (y[j] - mean[j]) * RULE.noise * xi[i]
                        B[j, i] += RULE.eta_B / RULE.noise**2 * product / count
            self.B[l - 1] = B

    @staticmethod
    def answer(one, l: int, xi: np.ndarray) -> np.ndarray:
        """What comes out of the weights above hidden layer l, without any skip connection."""
        z = np.array([sum(xi * column) for column in one.weights[l].T]) + one.biases[l]
        if l == one.depth:
            return z
        phi = {
            "tanh": np.tanh,
            "relu": lambda z: np.maximum(z, 0),
            "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        }
        return phi[one.activation](z)


def test_it_trains_as_plain_loops(case: Case, same_training: Callable, layered: Callable):
    streams = replace(case, feedback_shift=50).streams

    def teacher(state: State, r: int) -> Plain:
        return Plain(layered, [b[r].numpy() for b in state["B"]], r, streams)

    same_training(RULE, teacher, case)


def test_feedback_starts_as_that_of_feedback_alignment_and_signals_use_it_before_its_step():
    case = Case()
    state = WM(scale=0.5).init(case.dims, case.streams)
    assert all(map(torch.equal, state["B"], FA(0.5).init(case.dims, case.streams)["B"]))
    lesson, after = WM().teach(case.trace(), case.params(), state)
    fixed, _ = FA().teach(case.trace(), case.params(), state)
    assert all(map(torch.equal, lesson.signals, fixed.signals))
    assert not any(map(torch.equal, after["B"], state["B"]))


def frozen(rule: WM, case: Case, params: Params, steps: int) -> State:
    """The state after some steps of mirroring weights that do not change."""
    state = rule.init(case.dims, case.streams)
    for step in range(steps):
        trace = replace(case.trace(), step=step)
        _, state = rule.teach(trace, params, state)
    return state


def test_in_a_frozen_linear_network_feedback_becomes_the_transposed_weights():
    """Relu units that a large bias keeps above zero are linear; the mean of the answers is gone."""
    case = Case((5, 7, 6, 4), seeds=(0, 1), batch=64, net=Net("relu"))
    params = Params(case.params().weights, tuple(b + 100 for b in case.params().biases))
    backward = frozen(WM(eta_B=0.01, lam_B=0.01, noise=1.0), case, params, 600)["B"]
    for b, w in zip(backward, params.weights[1:], strict=True):
        assert cosine(b.flatten(1), w.mT.flatten(1)).min() > 0.999
        assert (b.norm(dim=(1, 2)) / w.norm(dim=(1, 2))).numpy() == pytest.approx(63 / 64, abs=0.02)


def test_the_size_of_the_feedback_is_the_ratio_of_its_step_and_its_decay():
    case = Case(seeds=(0, 1), batch=64)
    small, large = (
        frozen(WM(eta_B=eta, lam_B=0.05, noise=0.1), case, case.params(), 120)["B"]
        for eta in (0.05, 0.15)
    )
    for a, b, w in zip(small, large, case.params().weights[1:], strict=True):
        assert (b.norm(dim=(1, 2)) / a.norm(dim=(1, 2))).numpy() == pytest.approx(3, rel=0.02)
        assert cosine(a.flatten(1), w.mT.flatten(1)).min() > 0.9


def test_the_noise_of_small_batches_limits_the_angle_as_the_docstring_says():
    case = Case((3, 200, 4), seeds=(0, 1, 2), batch=8)
    (b,) = frozen(WM(eta_B=0.1, lam_B=0.1, noise=0.1), case, case.params(), 60)["B"]
    found = cosine(b.flatten(1), case.params().weights[-1].mT.flatten(1))
    assert found.numpy() == pytest.approx(1 / sqrt(1 + 200 * 0.1 / (2 * 8)), rel=0.1)


def test_nothing_is_learned_while_measuring():
    case = Case()
    state = WM().init(case.dims, case.streams)
    assert WM().teach(replace(case.trace(), measuring=True), case.params(), state)[1] is state
