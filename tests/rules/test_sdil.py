"""SDIL against plain loops, and what its learned feedback must do."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rules.bp import BP
from rules.case import Case
from rules.dfa import DFA
from rules.measure import cosine
from rules.net import Net, Params
from rules.perturbation import gradients
from rules.rule import State
from rules.sdil import SDIL

RULES = [
    SDIL(),
    SDIL(eta_A=0.5, pert_ndirs=3, sigma=0.1, rho=1.0),
    SDIL(normalize_delta=True),
]


def random_state(case: Case) -> State:
    """Feedback as it may be after some steps."""
    sizes = enumerate(case.sizes[1:-1], start=1)
    return {"A": tuple(case.streams.normal(f"A/{l}", (case.sizes[-1], n)) for l, n in sizes)}


def of_replica(rule: SDIL, replica: int) -> tuple[float, float, float]:
    """eta_A, sigma and rho, where each may be one number or one a replica."""
    options = rule.eta_A, rule.sigma, rule.rho
    return tuple(o[replica].item() if isinstance(o, Tensor) else o for o in options)


def plain_step(rule: SDIL, A: np.ndarray, ones: list, l: int, case: Case) -> np.ndarray:
    """The step of one network's A_l from its examples, by the equations of SDIL's docstring.

    Each layer is perturbed on its own, after Lansdell, Prakash, Kording 2020; the noise is read
    from the streams.
    """
    eta, sigma, rho = of_replica(rule, ones[0].replica)
    power = np.mean([sum(one.error**2) for one in ones])
    total = np.zeros_like(A)
    for one in ones:
        ghat = np.zeros(A.shape[1])
        for k in range(rule.pert_ndirs):
            noise = case.streams.normal(f"perturbation/{l}/{k}", (case.batch, len(ghat)), case.step)
            xi = noise[one.replica, one.example].numpy()
            ghat += (one.shifted_loss(l, sigma * xi) - one.loss) / sigma * xi / rule.pert_ndirs
        damped = sum(one.error**2) + rho * power
        for c in range(len(A)):
            for i in range(len(ghat)):
                total[c, i] += one.error[c] * (ghat[i] - one.error @ A[:, i]) / damped
    return A + eta / case.batch * total


def check_against_loops(rule: SDIL, case: Case, networks: Iterator) -> None:
    state = random_state(case)
    lesson, after = rule.teach(case.trace(), case.params(), state)
    ones = list(networks)
    for r in range(len(case.seeds)):
        examples = [one for one in ones if one.replica == r]
        errors = np.stack([one.error for one in examples])
        for l, A in enumerate((a[r].numpy() for a in state["A"]), start=1):
            signals = np.stack([one.error @ A * one.slopes[l - 1] for one in examples])
            if rule.normalize_delta:
                signals *= np.sqrt(np.sum(errors**2) / np.sum(signals**2))
            assert lesson.signals[l - 1][r].numpy() == pytest.approx(signals, abs=1e-12)
            stepped = plain_step(rule, A, examples, l, case)
            assert after["A"][l - 1][r].numpy() == pytest.approx(stepped, abs=1e-12)
        assert lesson.signals[-1][r].numpy() == pytest.approx(errors, abs=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_signals_and_learning_equal_plain_loops(
    rule: SDIL, case: Case, alone: Callable[[Case], Iterator]
):
    check_against_loops(rule, case, alone(case))


@pytest.mark.parametrize("option", ["eta_A", "sigma", "rho"])
def test_a_searched_option_acts_on_its_own_network(option: str, alone: Callable[[Case], Iterator]):
    case = Case(step=3)
    values = torch.tensor([0.05, 0.1, 0.2], dtype=case.dtype).reshape(-1, 1, 1)
    check_against_loops(SDIL(**{option: values}), case, alone(case))


def test_hidden_layers_are_silent_in_the_first_step(case: Case):
    lesson, _ = SDIL().teach(case.trace(), case.params(), SDIL().init(case.dims, case.streams))
    assert not any(s.any() for s in lesson.signals[:-1])
    assert torch.equal(lesson.signals[-1], case.trace().error)


def test_with_the_same_feedback_dfa_gives_the_same_signals(case: Case):
    state = random_state(case)
    learned, _ = SDIL().teach(case.trace(), case.params(), state)
    fixed, _ = DFA().teach(case.trace(), case.params(), {"B": state["A"]})
    assert all(map(torch.equal, learned.signals, fixed.signals))


def test_feedback_changes_at_every_nth_step_only():
    rule, state, changed = SDIL(pert_every=3), random_state(Case()), []
    for case in (Case(step=step) for step in range(7)):
        _, after = rule.teach(case.trace(), case.params(), state)
        changed.append(not any(map(torch.equal, state["A"], after["A"])))
        assert changed[-1] or after is state
        state = after
    assert changed == [True, False, False, True, False, False, True]


def test_nothing_is_learned_while_measuring():
    state, trace = random_state(Case()), replace(Case().trace(), measuring=True)
    assert SDIL().teach(trace, Case().params(), state)[1] is state


def test_where_there_is_no_error_nothing_is_learned():
    case, state = Case(net=Net(loss="squared")), random_state(Case())
    x, _ = case.examples()
    perfect = case.net.logits(case.params(), x)
    trace = case.net.trace(case.params(), x, perfect, case.streams, 0)
    assert not trace.error.any()
    lesson, after = SDIL().teach(trace, case.params(), state)
    assert not any(s.any() for s in lesson.signals)
    assert all(map(torch.equal, after["A"], state["A"]))


def test_columns_of_the_feedback_keep_their_sum_over_classes_at_zero():
    """Errors of the cross-entropy sum to 0 over the classes, so every step of A does."""
    state = SDIL().init(Case().dims, Case().streams)
    for case in (Case(step=step) for step in range(20)):
        _, state = SDIL(eta_A=1.0).teach(case.trace(), case.params(), state)
    for a in state["A"]:
        assert a.abs().max() > 0.01
        assert a.sum(1).abs().max() < 1e-12


def test_the_mean_of_many_targets_is_the_gradient():
    case = Case((5, 8, 6, 4), batch=1)
    params, (x, targets) = case.params(), case.examples()
    x, targets = x.expand(-1, 4096, -1), targets.expand(-1, 4096)  # 4096 draws for one example
    trace = case.net.trace(params, x, targets, case.streams, 0)
    true, _ = BP().teach(trace, params, {})
    drawn = gradients(trace, params, draws=1, sigma=1e-3)
    for ghat, g, slope in zip(drawn, true.signals, trace.slopes, strict=False):
        assert cosine((ghat * slope).mean(1), g[:, 0]).min() > 0.99


def test_in_a_frozen_linear_network_the_feedback_becomes_the_projected_product():
    """Relu networks of positive weights and inputs; e's rows sum to 0, hence the projection."""
    case, rule = Case((8, 10, 10, 4), seeds=(0,), batch=64, net=Net("relu")), SDIL()
    params = Params(tuple(w.abs() / 3 for w in case.params().weights), ())
    state = rule.init(case.dims, case.streams)
    for now in (replace(case, step=step) for step in range(1000)):
        x, targets = now.examples()
        trace = case.net.trace(params, x.abs(), targets, case.streams, now.step)
        _, state = rule.teach(trace, params, state)
    _, second, third = params.weights
    centre = torch.eye(4, dtype=case.dtype) - 1 / 4
    for a, product in zip(state["A"], (third.mT @ second.mT, third.mT), strict=True):
        assert cosine(a.flatten(1), (centre @ product).flatten(1)).item() > 0.98
