"""Sign-symmetric feedback against plain loops, and what follows from sharing signs only."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import pi, sqrt

import numpy as np
import pytest
import torch

from rules.brsf import BRSF
from rules.case import Case
from rules.dims import Dims
from rules.fa import FA
from rules.frsf import FRSF, concordant
from rules.measure import cosine
from rules.net import Net, Params, init_params
from rules.rule import Rule, State
from rules.streams import Streams
from rules.usf import USF

RULES = [USF(), BRSF(), FRSF()]
each_rule = pytest.mark.parametrize("rule", RULES, ids=["usf", "brsf", "frsf"])


@dataclass
class Plain:
    """Liao, Leibo, Poggio 2016: B has the sign of W^T, its size is one number or random."""

    layered: Callable
    size: Callable[[int, int, int, int], float]  # of B's entry, by layer, row, column and step

    def signals(self, one, step: int) -> list[np.ndarray]:
        backward = []
        for l, w in enumerate(one.weights[1:], start=1):
            B = np.zeros(w.T.shape)
            for j in range(B.shape[0]):
                for i in range(B.shape[1]):
                    B[j, i] = self.size(l, j, i, step) * (1 if w[i, j] > 0 else -1)
            backward.append(B)
        return self.layered(one, backward)

    def learn(self, ones: list, weights: list[np.ndarray], step: int) -> None:
        """Nothing is learned."""


def test_usf_trains_as_plain_loops(case: Case, same_training: Callable, layered: Callable):
    def teacher(state: State, r: int) -> Plain:
        return Plain(layered, lambda l, j, i, step: 0.7 / sqrt(case.sizes[l]))

    same_training(USF(scale=0.7), teacher, case)


def test_frsf_trains_as_plain_loops(case: Case, same_training: Callable, layered: Callable):
    drawn = FA(0.7).init(case.dims, replace(case, feedback_shift=50).streams)["B"]

    def teacher(state: State, r: int) -> Plain:
        return Plain(layered, lambda l, j, i, step: abs(drawn[l - 1][r, j, i].item()))

    same_training(FRSF(scale=0.7), teacher, case)


def test_brsf_trains_as_plain_loops(case: Case, same_training: Callable, layered: Callable):
    """Its magnitudes are those of the step's own draw, read from the streams."""
    streams = replace(case, feedback_shift=50).streams

    @cache
    def drawn(l: int, step: int) -> np.ndarray:
        shape = case.sizes[l + 1], case.sizes[l]
        return streams.normal(f"feedback/{l}", shape, step).numpy()

    def teacher(state: State, r: int) -> Plain:
        def size(l: int, j: int, i: int, step: int) -> float:
            return 0.7 / sqrt(case.sizes[l]) * abs(drawn(l, step)[r, j, i])

        return Plain(layered, size)

    same_training(BRSF(scale=0.7), teacher, case)


@each_rule
def test_positive_factors_on_the_weights_change_no_feedback(rule: Rule):
    """Only the signs of W are seen: the trace given, other sizes of W give the same signals."""
    case = Case()
    state, params = rule.init(case.dims, case.streams), case.params()
    factors = (
        case.streams.normal(f"u/{l}", tuple(w.shape[1:])).abs()
        for l, w in enumerate(params.weights)
    )
    scaled = Params(
        tuple(w * u for w, u in zip(params.weights, factors, strict=True)), params.biases
    )
    flipped = Params(tuple(-w for w in params.weights), params.biases)
    before, after, turned = (
        rule.teach(case.trace(), p, state)[0].signals for p in (params, scaled, flipped)
    )
    assert all(map(torch.equal, before, after))
    assert torch.equal(turned[-2], -before[-2])


@pytest.mark.parametrize(("rule", "wanted"), [(USF(), sqrt(2 / pi)), (FRSF(), 2 / pi)])
def test_the_angle_to_gaussian_weights_is_the_expected_one(rule: Rule, wanted: float):
    dims, streams = Dims((3, 300, 200, 100)), Streams((4, 5), torch.float64)
    params = init_params(dims, "tanh", Streams((0, 1), torch.float64))
    x, y = streams.normal("x", (100, 3)), streams.normal("y", (100, 100)).argmax(-1)
    trace = replace(
        Net().trace(params, x, y, streams, 0), error=torch.eye(100).double().expand(2, -1, -1)
    )
    trace = replace(trace, slopes=tuple(torch.ones_like(s) for s in trace.slopes))
    *_, s, _ = rule.teach(trace, params, rule.init(dims, streams))[0].signals  # the rows of B
    assert cosine(s.flatten(1), params.weights[-1].mT.flatten(1)).numpy() == pytest.approx(
        wanted, abs=0.01
    )
    assert s.square().mean().item() == pytest.approx(1 / 200, rel=0.05)


def test_brsf_draws_anew_at_each_step_and_frsf_once():
    params, error = Case().params(), Case().trace()
    for rule, differs in ((BRSF(), True), (FRSF(), False)):
        state = rule.init(Case().dims, Case().streams)
        some, other = (
            rule.teach(replace(error, step=step), params, state)[0].signals[0] for step in (0, 1)
        )
        assert torch.equal(some, other) is not differs


def test_concordant_matrices_have_the_given_sizes_and_the_weights_signs():
    case = Case()
    sizes = FA().init(case.dims, case.streams)["B"]
    for b, m, w in zip(
        concordant(sizes, case.params()), sizes, case.params().weights[1:], strict=True
    ):
        assert torch.equal(b.abs(), m.abs())
        assert (b * w.mT > 0).all()
