"""Predictive coding against plain loops, and its nearness to backpropagation."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from rules.bp import BP
from rules.case import Case
from rules.measure import cosine
from rules.net import Net
from rules.pc import PC
from rules.rule import State

RULES = [
    PC(inference_steps=4, inference_rate=0.3),
    PC(inference_steps=3, inference_rate=0.2, prediction="strict"),
]


@dataclass
class Plain:
    """Rosenbaum 2022, algorithms 1 (strict) and 2 (fixed prediction), for one example."""

    rule: PC

    def relaxed(self, one) -> tuple[list, list, list]:
        """The activities, the errors (of the loss's sign) and phi' after inference."""
        predicted, slopes, error = one.h, one.slopes, one.error
        v = [np.array(h) for h in one.h]
        for _ in range(self.rule.inference_steps):
            eps = [*(p - a for p, a in zip(predicted, v, strict=True)), error]
            v = [v[0], *(self.moved(one, v, eps, slopes, l) for l in range(1, one.depth + 1))]
            if self.rule.prediction == "strict":
                predicted, slopes, error = self.predicted(one, v)
        return v, [*(p - a for p, a in zip(predicted, v, strict=True)), error], slopes

    def moved(self, one, v: list, eps: list, slopes: list, l: int) -> np.ndarray:
        above = eps[l + 1] if l == one.depth else eps[l + 1] * slopes[l]
        asked = [sum(above * weights) for weights in one.weights[l]]
        if one.residual and l < one.depth:
            asked = asked + eps[l + 1]
        return v[l] + self.rule.inference_rate * (eps[l] - np.array(asked))

    def predicted(self, one, v: list) -> tuple[list, list, np.ndarray]:
        """What every layer predicts from the activity below it."""
        outputs, slopes = [one.x], []
        for l in range(one.depth):
            h, slope, _ = one.upwards(l, v[l])
            outputs.append(h[1])
            slopes.append(slope[0])
        logits = v[-1] @ one.weights[-1] + one.biases[-1]
        return outputs, slopes, one.error_of(logits)

    def signals(self, one, step: int) -> list[np.ndarray]:
        _, eps, slopes = self.relaxed(one)
        return [*(e * slope for e, slope in zip(eps[1:-1], slopes, strict=True)), eps[-1]]

    def inputs(self, one) -> list[np.ndarray]:
        return self.relaxed(one)[0] if self.rule.prediction == "strict" else one.h

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        """It learns nothing but the weights."""


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_it_trains_as_plain_loops(rule: PC, case: Case, same_training: Callable):
    def teacher(state: State, r: int) -> Plain:
        assert state == {}
        return Plain(rule)

    same_training(rule, teacher, case)


def test_as_many_steps_of_size_one_as_hidden_layers_are_backpropagation(case: Case):
    taught, _ = PC(case.dims.depth, 1.0).teach(case.trace(), case.params(), {})
    true, _ = BP().teach(case.trace(), case.params(), {})
    for s, g in zip(taught.signals, true.signals, strict=True):
        torch.testing.assert_close(s, g, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("steps", "rate"), [(2, 1.0), (5, 0.5), (20, 0.1)])
def test_short_inference_shrinks_the_gradient_by_a_binomial_tail(steps: int, rate: float):
    """What starts at the readout must have moved down L + 1 - l times to reach layer l."""
    case = Case((5, 6, 6, 6, 6, 4), net=Net(residual=True))
    taught, _ = PC(steps, rate).teach(case.trace(), case.params(), {})
    true, _ = BP().teach(case.trace(), case.params(), {})
    for l, (s, g) in enumerate(zip(taught.signals[:-1], true.signals[:-1], strict=True)):
        share = binom.sf(case.dims.depth - l - 1, steps, rate)
        torch.testing.assert_close(s, share * g, rtol=0, atol=1e-12)


def test_strict_inference_settles_where_no_error_asks_for_another():
    """There eps_l = u_l: signals obey backpropagation's recursion at the relaxed activities."""
    case = Case()
    lesson, _ = PC(600, 0.2, "strict").teach(case.trace(), case.params(), {})
    hidden, params = lesson.inputs[1:], case.params()
    for l in range(case.dims.depth):
        slope = 1 - torch.tanh(lesson.inputs[l] @ params.weights[l] + params.biases[l]).square()
        down = lesson.signals[l + 1] @ params.weights[l + 1].mT * slope
        torch.testing.assert_close(lesson.signals[l], down, rtol=0, atol=1e-9)
    assert all(h.abs().max() > 0 for h in hidden)


def test_strict_inference_stays_near_the_gradient():
    case = Case((5, 9, 8, 7, 4))
    taught, _ = PC(20, 0.1, "strict").teach(case.trace(), case.params(), {})
    true, _ = BP().teach(case.trace(), case.params(), {})
    for s, g in zip(taught.signals, true.signals, strict=True):
        assert cosine(s, g).mean() > 0.9
    assert torch.equal(taught.inputs[0], case.trace().inputs[0])
    assert not any(map(torch.equal, taught.inputs[1:], case.trace().inputs[1:]))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_where_there_is_no_error_nothing_moves(rule: PC):
    case = Case(net=Net(loss="squared"))
    x, _ = case.examples()
    perfect = case.net.logits(case.params(), x)
    trace = case.net.trace(case.params(), x, perfect, case.streams, 0)
    lesson, _ = rule.teach(trace, case.params(), {})
    assert not any(s.any() for s in lesson.signals)
    assert all(map(torch.equal, lesson.inputs or trace.inputs, trace.inputs))


def test_a_rate_may_differ_from_network_to_network():
    case = Case()
    rates = torch.tensor([0.1, 0.2, 0.3], dtype=case.dtype).reshape(-1, 1, 1)
    for rule in RULES:
        together, _ = replace(rule, inference_rate=rates).teach(case.trace(), case.params(), {})
        for r, rate in enumerate(rates.flatten().tolist()):
            alone, _ = replace(rule, inference_rate=rate).teach(case.trace(), case.params(), {})
            for s, t in zip(together.signals, alone.signals, strict=True):
                torch.testing.assert_close(s[r], t[r], rtol=0, atol=1e-12)
