"""Sign-based direct feedback alignment against plain loops, and what follows from the sign."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from rules.case import Case
from rules.dfa import DFA
from rules.net import Net
from rules.rule import State
from rules.sdfa import SDFA


@dataclass
class Plain:
    """Frenkel, Lefebvre, Bol 2021: of the error only the sign of each output is projected."""

    direct: Callable
    B: list[np.ndarray]

    def signals(self, one, step: int) -> list[np.ndarray]:
        sign = np.array([1.0 if e > 0 else -1.0 if e < 0 else 0.0 for e in one.error])
        return self.direct(one, self.B, sign)

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        """Nothing is learned."""


def test_it_trains_as_plain_loops(case: Case, same_training: Callable, direct: Callable):
    def teacher(state: State, r: int) -> Plain:
        return Plain(direct, [b[r].numpy() for b in state["B"]])

    same_training(SDFA(scale=0.7), teacher, case)


def test_hidden_signals_do_not_shrink_with_the_error_and_the_readout_s_does():
    case = Case()
    trace, state = case.trace(), SDFA().init(case.dims, case.streams)
    small = replace(trace, error=trace.error / 1000)
    whole, less = (SDFA().teach(t, case.params(), state)[0].signals for t in (trace, small))
    assert all(map(torch.equal, whole[:-1], less[:-1]))
    assert torch.equal(less[-1], trace.error / 1000)


def test_errors_of_size_one_make_it_direct_feedback_alignment():
    """Drawn from the same law, too: the same feedback seed has the same B."""
    case = Case(net=Net(loss="squared"))
    trace = replace(case.trace(), error=case.trace().error.sign())
    (some, state), (other, direct) = (
        (rule, rule.init(case.dims, case.streams)) for rule in (SDFA(0.5), DFA(0.5))
    )
    signals = (
        rule.teach(trace, case.params(), s)[0].signals
        for rule, s in ((some, state), (other, direct))
    )
    assert all(map(torch.equal, *signals))


def test_an_output_without_an_error_sends_nothing():
    case = Case()
    state = SDFA().init(case.dims, case.streams)
    silent = case.trace().error.clone()
    silent[..., 1:] = 0
    lesson, _ = SDFA().teach(replace(case.trace(), error=silent), case.params(), state)
    only = silent.sign()[..., :1] * state["B"][0][:, :1] * case.trace().slopes[0]
    torch.testing.assert_close(lesson.signals[0], only, rtol=0, atol=1e-15)
