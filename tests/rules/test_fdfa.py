"""Forward direct feedback alignment against plain loops, and what its feedback becomes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from rules.case import Case
from rules.dfa import DFA
from rules.fdfa import FDFA
from rules.net import Net, Params
from rules.rule import State
from rules.streams import Streams

RULE = FDFA(eta_A=0.3, sigma=0.05)


@dataclass
class Plain:
    """Bacho, Chu 2024: a running mean of the readout's directional derivatives times the noise."""

    direct: Callable
    A: list[np.ndarray]
    replica: int
    streams: Streams

    def signals(self, one, step: int) -> list[np.ndarray]:
        return self.direct(one, self.A, one.error)

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        for l, A in enumerate(self.A, start=1):
            shape, moved = (len(ones), A.shape[1]), (1 - RULE.eta_A) * A
            noise = self.streams.normal(f"perturbation/{l}/0", shape, step)[self.replica].numpy()
            for one, xi in zip(ones, noise, strict=True):
                change = (one.shifted_logits(l, RULE.sigma * xi) - one.logits) / RULE.sigma
                for c in range(A.shape[0]):
                    for i in range(A.shape[1]):
                        moved[c, i] += RULE.eta_A * change[c] * xi[i] / len(ones)
            self.A[l - 1] = moved


def test_it_trains_as_plain_loops(case: Case, same_training: Callable, direct: Callable):
    streams = replace(case, feedback_shift=50).streams

    def teacher(state: State, r: int) -> Plain:
        return Plain(direct, [a[r].numpy() for a in state["A"]], r, streams)

    same_training(RULE, teacher, case)


def test_hidden_layers_are_silent_in_the_first_step_and_measuring_learns_nothing():
    case = Case()
    state = FDFA().init(case.dims, case.streams)
    lesson, after = FDFA().teach(case.trace(), case.params(), state)
    assert not any(s.any() for s in lesson.signals[:-1])
    assert all(a.any() for a in after["A"])
    assert FDFA().teach(replace(case.trace(), measuring=True), case.params(), after)[1] is after


def test_with_the_same_feedback_dfa_gives_the_same_signals_and_labels_do_not_matter():
    case = Case()
    trace, state = case.trace(), DFA().init(case.dims, case.streams)
    fixed, _ = DFA().teach(trace, case.params(), state)
    learned, after = FDFA().teach(trace, case.params(), {"A": state["B"]})
    assert all(map(torch.equal, learned.signals, fixed.signals))
    other = replace(trace, error=trace.error + 1, targets=(trace.targets + 1) % 4)
    _, unmoved = FDFA().teach(other, case.params(), {"A": state["B"]})
    assert all(map(torch.equal, after["A"], unmoved["A"]))


def test_in_a_frozen_linear_network_the_feedback_becomes_the_product_of_the_weights_above():
    """Relu networks of positive weights and inputs."""
    case, rule = Case((8, 10, 9, 4), seeds=(0,), batch=128, net=Net("relu")), FDFA(eta_A=0.02)
    params = Params(tuple(w.abs() for w in case.params().weights), ())
    state = rule.init(case.dims, case.streams)
    for now in (replace(case, step=step) for step in range(400)):
        x, targets = now.examples()
        trace = case.net.trace(params, x.abs(), targets, case.streams, now.step)
        _, state = rule.teach(trace, params, state)
    _, second, third = params.weights
    for a, product in zip(state["A"], (third.mT @ second.mT, third.mT), strict=True):
        assert (a - product).norm().item() < 0.05 * product.norm().item()


@pytest.mark.parametrize("option", ["eta_A", "sigma"])
def test_a_searched_option_acts_on_its_own_network(option: str):
    case = Case()
    values = torch.tensor([0.05, 0.1, 0.2], dtype=case.dtype).reshape(-1, 1, 1)
    state = {"A": DFA().init(case.dims, case.streams)["B"]}
    _, packed = FDFA(**{option: values}).teach(case.trace(), case.params(), state)
    for r, value in enumerate(values.flatten().tolist()):
        _, alone = FDFA(**{option: value}).teach(case.trace(), case.params(), state)
        for a, b in zip(packed["A"], alone["A"], strict=True):
            torch.testing.assert_close(a[r], b[r], rtol=0, atol=1e-12)
