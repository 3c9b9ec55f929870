"""Metrics against their definitions; and measuring leaves what it measures as it was."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from rules.bp import BP
from rules.case import Case
from rules.dfa import DFA
from rules.dims import Dims
from rules.measure import CHUNK, chance, cosine, credit, evaluate, input_probe, probes, ridge_probe
from rules.net import Net, Params
from rules.pc import PC
from rules.pepita import PEPITA
from rules.record import Recorder
from rules.rule import Rule
from rules.sdil import SDIL
from rules.settings import Measure, Network, Training
from rules.streams import Streams
from rules.task import Examples, Task
from rules.train import Job, advance, start

DOUBLE = torch.float64
SCALES = st.floats(1e-300, 1e300)


def examples(count: int, case: Case, dtype: torch.dtype = DOUBLE) -> Examples:
    """Inputs, with classes or, for the squared loss, values."""
    drawn = replace(case, seeds=(50,), batch=count).examples()
    classes = None if case.net.loss == "squared" else case.sizes[-1]
    x, y = (part[0] for part in drawn)
    return Examples(x, y, classes, 0.0, 1.0, dtype)


@given(SCALES, SCALES)
def test_the_cosine_does_not_depend_on_positive_scale(a: float, b: float):
    x, y = (Streams((0,), DOUBLE).normal(name, (7,)) for name in "xy")
    plain = (x @ y.mT).item() / (x.norm() * y.norm()).item()
    assert cosine(a * x, b * y).item() == pytest.approx(plain, abs=1e-14)
    assert cosine(a * x, b * x).item() == pytest.approx(1, abs=1e-15)
    assert cosine(a * x, -b * x).item() == pytest.approx(-1, abs=1e-15)


def test_the_cosine_with_nothing_is_not_a_number():
    zero, one = torch.zeros(2, 3), torch.ones(2, 3)
    assert cosine(zero, one).isnan().all()
    assert cosine(one, zero).isnan().all()


def test_backpropagation_is_aligned_with_itself_in_every_layer(case: Case):
    found = credit(case.net, BP(), case.params(), {}, case.streams, examples(20, case))
    ones = torch.ones(len(case.seeds), case.dims.depth, dtype=DOUBLE)
    for value in (found.alignment, found.update_cosine, found.norm_ratio):
        torch.testing.assert_close(value, ones, rtol=0, atol=1e-12)


def test_credit_is_the_mean_cosine_over_examples_and_the_cosine_of_the_updates():
    case, rule = Case(), DFA()
    held_out, state = examples(20, case), rule.init(case.dims, case.streams)
    found = credit(case.net, rule, case.params(), state, case.streams, held_out)
    trace = case.net.trace(case.params(), *held_out.batch(3), case.streams, 0)
    taught, true = (r.teach(trace, case.params(), state)[0].signals for r in (rule, BP()))
    for r in range(3):
        for l in range(2):
            s, g, h = (t[l][r].numpy() for t in (taught, true, trace.inputs))
            cosines = [
                a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(s, g, strict=True)
            ]
            v, w = (h.T @ s).ravel(), (h.T @ g).ravel()
            ratio = np.linalg.norm(s, axis=1).mean() / np.linalg.norm(g, axis=1).mean()
            update = v @ w / np.linalg.norm(v) / np.linalg.norm(w)
            wanted = [np.mean(cosines), update, ratio]
            values = [
                v[r, l].item() for v in (found.alignment, found.update_cosine, found.norm_ratio)
            ]
            assert values == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("rule", [PEPITA(scale=3.0), PC(prediction="strict")], ids=str)
def test_a_rule_with_presynaptic_factors_of_its_own_is_measured_by_its_examples_updates(rule: Rule):
    case = Case()
    held_out, state = examples(20, case), rule.init(case.dims, case.streams)
    found = credit(case.net, rule, case.params(), state, case.streams, held_out)
    trace = case.net.trace(case.params(), *held_out.batch(3), case.streams, 0)
    taught, true = (r.teach(trace, case.params(), state)[0] for r in (rule, BP()))
    for l in range(2):
        v = torch.einsum("rbi,rbj->rbij", taught.inputs[l], taught.signals[l]).flatten(2)
        w = torch.einsum("rbi,rbj->rbij", trace.inputs[l], true.signals[l]).flatten(2)
        alike = torch.nn.functional.cosine_similarity(v, w, dim=-1, eps=0).mean(-1)
        ratio = v.norm(dim=-1).mean(-1) / w.norm(dim=-1).mean(-1)
        update = torch.nn.functional.cosine_similarity(v.sum(1), w.sum(1), dim=-1, eps=0)
        for value, wanted in zip(
            (found.alignment, found.norm_ratio, found.update_cosine),
            (alike, ratio, update),
            strict=True,
        ):
            torch.testing.assert_close(value[:, l], wanted, rtol=0, atol=1e-12)


def test_alignment_by_chance_is_that_of_feedback_drawn_anew():
    case = Case((5, 20, 20, 4), seeds=tuple(range(40)))
    held_out = examples(20, case)
    by_chance = chance(case.net, case.params(), case.streams, held_out, draws=25)
    state = DFA().init(case.dims, replace(case, feedback_shift=100).streams)
    drawn = credit(case.net, DFA(), case.params(), state, case.streams, held_out).alignment
    torch.testing.assert_close(by_chance.square().mean(0), drawn.square().mean(0), rtol=0.5, atol=0)


def test_a_silent_layer_has_no_alignment_and_a_norm_of_zero():
    case = Case()
    state = SDIL().init(case.dims, case.streams)
    found = credit(case.net, SDIL(), case.params(), state, case.streams, examples(9, case))
    assert found.alignment.isnan().all()
    assert not found.norm_ratio.any()


def test_credit_is_measured_in_float64_whatever_the_network_trained_in():
    case, rule = Case(dtype=torch.float32), DFA()
    state, held_out = rule.init(case.dims, case.streams), examples(20, case, torch.float32)
    found = credit(case.net, rule, case.params(), state, case.streams, held_out)
    double = {"B": tuple(b.double() for b in state["B"])}
    params, streams = case.params().double(), case.streams.double()
    wanted = credit(case.net, rule, params, double, streams, held_out.double())
    assert found.alignment.dtype == DOUBLE
    assert torch.equal(found.alignment, wanted.alignment)


def test_the_ridge_probe_is_that_of_scikit_learn():
    streams = Streams((0,), DOUBLE)
    fit, held_out = streams.normal("fit", (300, 20)), streams.normal("held out", (400, 20))
    y, z = (
        (part[0, :, :4] + streams.normal(str(i), (len(part[0]), 4))[0]).argmax(-1)
        for i, part in enumerate((fit, held_out))
    )
    design, test = (np.c_[part[0], np.ones(len(part[0]))] for part in (fit, held_out))
    model = Ridge(alpha=0.1, fit_intercept=False).fit(design, np.eye(4)[y])
    accuracy = (model.predict(test).argmax(1) == z.numpy()).mean()
    assert 0.5 < accuracy < 0.9
    assert ridge_probe((fit, y), (held_out, z), 0.1).item() == accuracy


def test_probes_read_every_hidden_layer_and_the_inputs():
    case = Case()
    train, test = examples(60, case), examples(90, case).slice(60, 90)
    found = probes(case.net, case.params(), train, test, 0.1)
    layers = [[*case.net.hidden(case.params(), part.batch(3)[0])] for part in (train, test)]
    for l, (fit, held_out) in enumerate(zip(*layers, strict=True)):
        for r in range(3):
            alone = ridge_probe((fit[[r]], train.y), (held_out[[r]], test.y), 0.1)
            assert found[r, l].item() == alone.item()
    inputs = ridge_probe((train.x[None], train.y), (test.x[None], test.y), 0.1).item()
    assert input_probe(train, test, 0.1) == inputs


@pytest.mark.parametrize("count", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 17])
def test_evaluation_is_the_mean_over_all_examples(case: Case, count: int):
    part = examples(count, case)
    loss, accuracy = evaluate(case.net, case.params(), part)
    x, targets = part.batch(len(case.seeds))
    logits = case.net.logits(case.params(), x)
    torch.testing.assert_close(loss, case.net.losses(logits, targets).mean(-1))
    if part.classes:
        right = (logits.argmax(-1) == targets).double().mean(-1)
        torch.testing.assert_close(accuracy, right, rtol=0, atol=1e-15)
    else:
        assert accuracy.isnan().all()


@pytest.mark.parametrize("rule", [BP(), SDIL()], ids=["bp", "sdil"])
def test_measuring_changes_nothing_of_the_learner(rule: BP | SDIL):
    case = Case((5, 6, 6, 4))
    task = Task(*(examples(count, case) for count in (40, 20, 30)))
    training = Training(steps=9, batch_size=16, dtype="float64")
    job = Job(Network(2, 6), training, rule, (0, 1), (2, 3), (0.1, 0.2), Measure())
    watched, blind = (start(job, Dims((5, 6, 6, 4)), torch.device("cpu")) for _ in range(2))
    recorder = Recorder(Net(), task, job.measure, 2)
    for step in range(10):
        advance(Net(), blind, training, task.train, step)
        advance(Net(), watched, training, task.train, step)
        recorder.record(watched)
        recorder.probe(watched)
        for a, b in zip(tensors(watched.params), tensors(blind.params), strict=True):
            assert torch.equal(a, b)
        assert all(map(torch.equal, watched.state.get("A", ()), blind.state.get("A", ())))


def tensors(params: Params) -> list[torch.Tensor]:
    return [*params.weights, *params.biases]
