"""Local losses against plain loops, and their deafness to what lies above."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import pytest
import torch

from rules.bp import BP
from rules.case import Case
from rules.local_loss import LocalLoss
from rules.net import Net
from rules.rule import State

RULE = LocalLoss(eta_C=0.2, momentum=0.8)


@dataclass
class Plain:
    """Nøkland, Eidnes 2019: the prediction loss of every layer's own readout."""

    C: list[np.ndarray]
    V: list[np.ndarray]

    def error(self, one, l: int) -> np.ndarray:
        C = self.C[l - 1]
        return one.error_of(np.array([sum(one.h[l] * C[:, c]) for c in range(C.shape[1])]))

    def signals(self, one, step: int) -> list[np.ndarray]:
        signals = []
        for l, C in enumerate(self.C, start=1):
            e = self.error(one, l)
            down = np.array([sum(e * C[i]) for i in range(C.shape[0])])
            signals.append(down * one.slopes[l - 1])
        return [*signals, one.error]

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        for l, C in enumerate(self.C, start=1):
            gradient = sum(np.outer(one.h[l], self.error(one, l)) for one in ones) / len(ones)
            self.V[l - 1] = RULE.momentum * self.V[l - 1] + gradient
            self.C[l - 1] = C - RULE.eta_C * self.V[l - 1]


def test_it_trains_as_plain_loops(case: Case, same_training: Callable):
    def teacher(state: State, r: int) -> Plain:
        return Plain(*([t[r].numpy() for t in state[name]] for name in ("C", "V")))

    same_training(RULE, teacher, case)


@pytest.mark.parametrize("loss", ["cross-entropy", "squared"])
def test_with_one_hidden_layer_and_the_network_s_readout_it_is_backpropagation(loss: str):
    case = Case((5, 7, 4), net=Net(loss=loss), bias=False)
    params = case.params()
    state = {"C": (params.weights[1],), "V": (0 * params.weights[1],)}
    taught, _ = LocalLoss().teach(case.trace(), params, state)
    true, _ = BP().teach(case.trace(), params, {})
    assert all(map(torch.equal, taught.signals, true.signals))


def test_nothing_above_a_layer_changes_its_signal():
    case = Case()
    params, state = case.params(), LocalLoss().init(case.dims, case.streams)
    low, up, out = params.weights
    for layer, weights in ((0, (low, 2 * up, -out)), (1, (low, up, -out))):
        other = replace(params, weights=weights)
        lessons = [
            LocalLoss().teach(case.net.trace(p, *case.examples(), case.streams, 0), p, state)[0]
            for p in (params, other)
        ]
        signals = [lesson.signals[layer] for lesson in lessons]
        assert torch.equal(*signals)
        assert not torch.equal(*(lesson.signals[-1] for lesson in lessons))


def test_local_readouts_are_drawn_from_the_stated_law_and_start_at_rest():
    case = Case((3, 400, 100, 50))
    state = LocalLoss().init(case.dims, case.streams)
    for c, v, n in zip(state["C"], state["V"], (400, 100), strict=True):
        assert tuple(c.shape) == tuple(v.shape) == (3, n, 50)
        assert c.std().item() == pytest.approx(1 / sqrt(n), rel=0.02)
        assert not v.any()


def test_measuring_learns_nothing():
    case = Case()
    state = LocalLoss().init(case.dims, case.streams)
    measured = replace(case.trace(), measuring=True)
    lesson, after = LocalLoss().teach(measured, case.params(), state)
    taught, moved = LocalLoss().teach(case.trace(), case.params(), state)
    assert after is state
    assert not any(map(torch.equal, moved["C"], state["C"]))
    assert all(map(torch.equal, lesson.signals, taught.signals))
