"""Direct difference target propagation against plain loops, and the inverse that it learns."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from rules.case import Case
from rules.ddtp import DDTP
from rules.dfa import DFA
from rules.net import Net, Params
from rules.rule import State
from rules.streams import Streams

RULE = DDTP(eta_Q=0.2, damping=0.3, target_step=0.7, sigma=0.05)


@dataclass
class Plain:
    """Meulemans et al. 2020: targets through Q, which reconstructs noise from its consequence."""

    Q: list[np.ndarray]
    replica: int
    streams: Streams

    def signals(self, one, step: int) -> list[np.ndarray]:
        wanted, signals = one.logits - RULE.target_step * one.error, []
        for l, Q in enumerate(self.Q, start=1):
            target = one.h[l] + wanted @ Q - one.logits @ Q
            signals.append((one.h[l] - target) * one.slopes[l - 1])
        return [*signals, one.error]

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        for l, Q in enumerate(self.Q, start=1):
            shape, moved = (len(ones), Q.shape[1]), Q - RULE.eta_Q * RULE.damping * Q
            noise = self.streams.normal(f"perturbation/{l}/0", shape, step)[self.replica].numpy()
            for one, xi in zip(ones, noise, strict=True):
                change = (one.shifted_logits(l, RULE.sigma * xi) - one.logits) / RULE.sigma
                missed = [sum(change * column) - x for column, x in zip(Q.T, xi, strict=True)]
                for c in range(Q.shape[0]):
                    for i in range(Q.shape[1]):
                        moved[c, i] -= RULE.eta_Q * change[c] * missed[i] / len(ones)
            self.Q[l - 1] = moved


def test_it_trains_as_plain_loops(case: Case, same_training: Callable):
    streams = replace(case, feedback_shift=50).streams

    def teacher(state: State, r: int) -> Plain:
        return Plain([q[r].numpy() for q in state["Q"]], r, streams)

    same_training(RULE, teacher, case)


def test_hidden_layers_are_silent_in_the_first_step_and_measuring_learns_nothing():
    case = Case()
    state = DDTP().init(case.dims, case.streams)
    lesson, after = DDTP().teach(case.trace(), case.params(), state)
    assert not any(s.any() for s in lesson.signals[:-1])
    assert all(q.any() for q in after["Q"])
    assert DDTP().teach(replace(case.trace(), measuring=True), case.params(), after)[1] is after


def test_with_the_same_feedback_dfa_gives_the_same_signals():
    case = Case()
    state = DFA(scale=0.5).init(case.dims, case.streams)
    fixed, _ = DFA().teach(case.trace(), case.params(), state)
    doubled = {"Q": tuple(2 * b for b in state["B"])}
    learned, _ = DDTP(target_step=0.5).teach(case.trace(), case.params(), doubled)
    assert all(map(torch.equal, learned.signals, fixed.signals))


def test_in_a_frozen_linear_network_the_feedback_becomes_the_damped_inverse_of_the_jacobian():
    """Relu networks of positive weights and inputs, with J the product of the weights above."""
    case, damping = Case((8, 10, 9, 4), seeds=(0,), batch=128, net=Net("relu")), 0.2
    params = Params(tuple(w.abs() for w in case.params().weights), ())
    rule = DDTP(eta_Q=0.05, damping=damping)
    state = rule.init(case.dims, case.streams)
    for now in (replace(case, step=step) for step in range(300)):
        x, targets = now.examples()
        trace = case.net.trace(params, x.abs(), targets, case.streams, now.step)
        _, state = rule.teach(trace, params, state)
    _, second, third = params.weights
    for q, above in zip(state["Q"], (second @ third, third), strict=True):
        J = above.mT
        inverse = torch.linalg.solve(J @ J.mT + damping * torch.eye(4, dtype=case.dtype), J)
        assert (q - inverse).norm().item() < 0.1 * inverse.norm().item()
