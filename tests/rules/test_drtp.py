"""Direct random target projection against plain loops, and its deafness to the output."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from rules.case import Case
from rules.dfa import DFA
from rules.drtp import DRTP
from rules.net import Net
from rules.rule import State


@dataclass
class Plain:
    """Frenkel, Lefebvre, Bol 2021: the one-hot target takes the place of the error."""

    direct: Callable
    B: list[np.ndarray]

    def signals(self, one, step: int) -> list[np.ndarray]:
        target = one.target
        if isinstance(target, int):
            target = np.array([1.0 if c == target else 0.0 for c in range(len(one.error))])
        return self.direct(one, self.B, target)

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        """Nothing is learned."""


def test_it_trains_as_plain_loops(case: Case, same_training: Callable, direct: Callable):
    """Classes and, under the squared loss, values."""

    def teacher(state: State, r: int) -> Plain:
        return Plain(direct, [b[r].numpy() for b in state["B"]])

    same_training(DRTP(scale=0.7), teacher, case)


def test_other_logits_at_the_same_slopes_leave_the_hidden_signals_as_they_are():
    case = Case()
    trace, state = case.trace(), DRTP().init(case.dims, case.streams)
    other = replace(trace, error=trace.error + 1, losses=trace.losses + 1)
    before, after = (DRTP().teach(t, case.params(), state)[0].signals for t in (trace, other))
    assert all(map(torch.equal, before[:-1], after[:-1]))
    assert torch.equal(after[-1], trace.error + 1)


def test_the_feedback_is_that_of_direct_feedback_alignment():
    case = Case(net=Net(loss="squared"))
    drawn, direct = (rule.init(case.dims, case.streams)["B"] for rule in (DRTP(0.5), DFA(0.5)))
    assert all(map(torch.equal, drawn, direct))
    trace = replace(case.trace(), error=case.trace().targets)
    signals = (
        rule.teach(trace, case.params(), {"B": drawn})[0].signals for rule in (DRTP(), DFA())
    )
    assert all(map(torch.equal, *signals))
