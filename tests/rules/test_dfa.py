"""Direct feedback alignment against plain loops, and what follows from its directness."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import torch

from rules.bp import BP
from rules.case import Case
from rules.dfa import DFA
from rules.net import Net, Params


def test_signals_equal_plain_loops(case: Case, alone: Callable[[Case], Iterator]):
    """Nøkland 2016, equation 6: each hidden layer has the output error times its own B."""
    rule, dims = DFA(), case.dims
    state = rule.init(dims, case.streams)
    lesson, after = rule.teach(case.trace(), case.params(), state)
    for one in alone(case):
        *hidden, top = (s[one.replica, one.example].numpy() for s in lesson.signals)
        assert top == pytest.approx(one.error, abs=1e-12)
        for s, slope, b in zip(hidden, one.slopes, state["B"], strict=True):
            plain = np.zeros(len(slope))
            for c in range(dims.outputs):
                for i in range(len(slope)):
                    plain[i] += one.error[c] * b[one.replica, c, i].item() * slope[i]
            assert s == pytest.approx(plain, abs=1e-12)
    assert after is state


def test_in_a_linear_network_products_of_the_weights_make_it_backpropagation():
    """Relu networks of positive weights and inputs: every slope is 1."""
    case = Case((5, 7, 6, 3), net=Net("relu"))
    params = Params(tuple(w.abs() for w in case.params().weights), ())
    x, targets = case.examples()
    trace = case.net.trace(params, x.abs(), targets, case.streams, 0)
    assert all((slope == 1).all() for slope in trace.slopes)
    _, second, third = params.weights
    taught, _ = DFA().teach(trace, params, {"B": (third.mT @ second.mT, third.mT)})
    true, _ = BP().teach(trace, params, {})
    for s, g in zip(taught.signals, true.signals, strict=True):
        torch.testing.assert_close(s, g, rtol=0, atol=1e-12)


def test_weights_above_a_layer_reach_its_signal_through_the_error_only():
    case, rule = Case(), DFA()
    trace, state = case.trace(), rule.init(case.dims, case.streams)
    first, *above = case.params().weights
    x, targets = case.examples()
    other = Params((first, *(2 * w for w in above)), case.params().biases)
    changed = case.net.trace(other, x, targets, case.streams, 0)
    changed = replace(changed, error=trace.error)
    before, after = rule.teach(trace, case.params(), state)[0], rule.teach(changed, other, state)[0]
    assert torch.equal(before.signals[0], after.signals[0])
    assert not torch.equal(before.signals[1], after.signals[1])  # its own slope has changed


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_feedback_has_the_scale_over_the_root_of_the_receiving_width(scale: float):
    case = Case((3, 400, 100, 50))
    feedback = DFA(scale).init(case.dims, case.streams)["B"]
    for b, n in zip(feedback, (400, 100), strict=True):
        assert tuple(b.shape) == (3, 50, n)
        assert b.std().item() == pytest.approx(scale / sqrt(n), rel=0.02)


def test_a_searched_scale_acts_on_its_own_network():
    case = Case()
    (plain, scaled) = (
        DFA(scale).init(case.dims, case.streams)["B"]
        for scale in (1.0, torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64).reshape(-1, 1, 1))
    )
    for a, b in zip(plain, scaled, strict=True):
        torch.testing.assert_close(b[1], 2 * a[1])
        torch.testing.assert_close(b[2], 4 * a[2])


def test_layers_of_equal_width_have_feedback_of_their_own():
    case = Case((3, 6, 6, 4))
    first, second = DFA().init(case.dims, case.streams)["B"]
    assert not (first == second).any()
