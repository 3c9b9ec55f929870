"""Feedback alignment against plain loops and against its relatives."""

from collections.abc import Callable, Iterator
from math import sqrt

import numpy as np
import pytest
import torch

from rules.bp import BP
from rules.case import Case
from rules.dfa import DFA
from rules.fa import FA


def test_signals_equal_plain_loops(case: Case, alone: Callable[[Case], Iterator]):
    """Lillicrap et al. 2016: the transposed forward weights are replaced by fixed B."""
    rule, dims = FA(), case.dims
    state = rule.init(dims, case.streams)
    lesson, after = rule.teach(case.trace(), case.params(), state)
    for one in alone(case):
        feedback = [b[one.replica].numpy() for b in state["B"]]
        wanted = [one.error]
        u = np.zeros(1)
        for l in range(one.depth, 0, -1):
            u = np.array(
                [
                    sum(wanted[0][j] * feedback[l - 1][j, i] for j in range(dims.sizes[l + 1]))
                    + (u[i] if case.net.residual and l < one.depth else 0)
                    for i in range(dims.sizes[l])
                ]
            )
            wanted.insert(0, u * one.slopes[l - 1])
        for s, plain in zip(lesson.signals, wanted, strict=True):
            assert s[one.replica, one.example].numpy() == pytest.approx(plain, abs=1e-12)
    assert after is state


def test_through_the_transposed_weights_it_is_backpropagation(case: Case):
    transposed = {"B": tuple(w.mT for w in case.params().weights[1:])}
    taught, _ = FA().teach(case.trace(), case.params(), transposed)
    true, _ = BP().teach(case.trace(), case.params(), {})
    for s, g in zip(taught.signals, true.signals, strict=True):
        torch.testing.assert_close(s, g, rtol=0, atol=1e-12)


def test_with_one_hidden_layer_it_is_direct_feedback_alignment():
    case = Case((5, 7, 3))
    (fa, state), (dfa, direct) = ((r, r.init(case.dims, case.streams)) for r in (FA(), DFA()))
    assert torch.equal(*state["B"], *direct["B"])
    taught = [rule.teach(case.trace(), case.params(), state)[0].signals for rule in (fa, dfa)]
    assert all(map(torch.equal, *taught))


@pytest.mark.parametrize(("law", "gain"), [("fan-in", 1), ("relu", sqrt(2)), ("unit", None)])
def test_feedback_is_drawn_from_the_stated_law(law: str, gain: float | None):
    case = Case((3, 400, 100, 50))
    feedback = FA(scale=0.5, feedback_scale=law).init(case.dims, case.streams)["B"]
    for b, n, above in zip(feedback, (400, 100), (100, 50), strict=True):
        std = gain / sqrt(n) if gain else 1
        assert tuple(b.shape) == (3, above, n)
        assert b.std().item() == pytest.approx(0.5 * std, rel=0.02)


def test_the_feedback_is_that_of_the_feedback_seed():
    a, b = (FA().init(Case(seeds=s).dims, Case(seeds=s).streams)["B"] for s in ((4, 5), (5, 6)))
    assert all(torch.equal(x[1], y[0]) for x, y in zip(a, b, strict=True))
    assert not any(torch.equal(x[0], y[1]) for x, y in zip(a, b, strict=True))


def test_layers_of_equal_width_have_feedback_of_their_own():
    case = Case((3, 6, 6, 6))
    second, third = FA().init(case.dims, case.streams)["B"]
    assert not (second == third).any()
