"""The training loop, step by step, against a few lines of numpy."""

import numpy as np
import pytest
import torch

from rules.bp import BP
from rules.dims import Dims
from rules.fa import FA
from rules.net import Net
from rules.rule import Lesson
from rules.settings import Measure, Network, Training
from rules.shuffle import order
from rules.streams import Streams
from rules.task import Examples, Task
from rules.train import Job, advance, batches, start, train

SIZES, CPU, DOUBLE = (5, 7, 7, 3), torch.device("cpu"), torch.float64


def regression(count: int = 20) -> Examples:
    x, y = (Streams((9,), DOUBLE).normal(name, (count, n))[0] for name, n in (("x", 5), ("y", 3)))
    return Examples(x, y, None, 0.0, 1.0, DOUBLE)


def classification(count: int) -> Examples:
    part = regression(count)
    return Examples(part.x, part.y.argmax(-1), 3, 0.0, 1.0, DOUBLE)


def job_of(rule: BP | FA, training: Training, **network: object) -> Job:
    seeds, rates = ((0, 1), (5, 6)), (0.05, 0.1)
    return Job(Network(2, 7, **network), training, rule, *seeds, rates, Measure())


@pytest.mark.parametrize("rule", [BP(), FA()], ids=["bp", "fa"])
def test_full_batch_descent_of_a_relu_network_equals_a_numpy_loop(rule: BP | FA):
    """The setting of matched widths: relu, no biases, squared loss, no momentum."""
    training = Training(30, 20, momentum=0.0, loss="squared", dtype="float64")
    job, part = job_of(rule, training, activation="relu", bias=False), regression()
    learner = start(job, Dims(SIZES, bias=False), CPU)
    feedback = learner.state.get("B")
    plain = [[w[r].clone().numpy() for w in learner.params.weights] for r in range(2)]
    x, y = part.x.numpy(), part.y.numpy()
    for step in range(1, 31):
        advance(Net("relu", loss="squared"), learner, training, part, step)
        for r, (weights, lr) in enumerate(zip(plain, job.lr, strict=True)):
            W1, W2, W3 = weights
            B2, B3 = (b[r].numpy() for b in feedback) if feedback else (W2.T, W3.T)
            h1 = np.maximum(x @ W1, 0)
            h2 = np.maximum(h1 @ W2, 0)
            s3 = h2 @ W3 - y
            s2 = s3 @ B3 * (h2 > 0)
            s1 = s2 @ B2 * (h1 > 0)
            pairs = (x, s1), (h1, s2), (h2, s3)
            plain[r] = [w - lr * h.T @ s / 20 for w, (h, s) in zip(weights, pairs, strict=True)]
            for w, batched in zip(plain[r], learner.params.weights, strict=True):
                assert batched[r].numpy() == pytest.approx(w, abs=1e-12)


def test_momentum_decay_and_rates_act_as_stated():
    """V <- momentum V + gradient / batch; W <- (1 - decay) W - lr V; biases likewise."""
    training = Training(5, 8, momentum=0.9, weight_decay=0.01, dtype="float64")
    job, part = job_of(BP(), training), classification(8)
    learner = start(job, Dims(SIZES), CPU)
    plain = [t.clone() for t in (*learner.params.weights, *learner.params.biases)]
    velocity = [torch.zeros_like(t) for t in plain]
    rates = torch.tensor(job.lr, dtype=DOUBLE).reshape(2, 1, 1)
    for step in range(1, 6):
        trace = Net().trace(learner.params, *part.batch(2), learner.streams, 0)
        signals = BP().teach(trace, learner.params, {})[0].signals
        gradients = [h.mT @ s / 8 for h, s in zip(trace.inputs, signals, strict=True)]
        gradients += [s.mean(1, keepdim=True) for s in signals]
        velocity = [0.9 * v + g for v, g in zip(velocity, gradients, strict=True)]
        plain = [0.99 * w - rates * v for w, v in zip(plain, velocity, strict=True)]
        advance(Net(), learner, training, part, step)
        for t, w in zip((*learner.params.weights, *learner.params.biases), plain, strict=True):
            torch.testing.assert_close(t, w, rtol=0, atol=1e-12)


def test_every_epoch_goes_once_through_all_examples_in_the_order_of_the_seed():
    part = Examples(torch.arange(10.0)[:, None], torch.arange(10), 10, 0.0, 1.0, torch.float32)
    drawn = list(batches(part, [3, 4], batch_size=4, first=0, stop=6))
    assert [x.shape[1] for x, _ in drawn] == [4, 4, 2, 4, 4, 2]
    for epoch in range(2):
        seen = torch.cat([y for _, y in drawn[3 * epoch : 3 * epoch + 3]], dim=1)
        assert seen.tolist() == [order(seed, epoch, 10).tolist() for seed in (3, 4)]
    assert all(torch.equal(x[..., 0].long(), y) for x, y in drawn)


def test_a_batch_as_large_as_the_training_set_is_the_set_in_its_own_order():
    part = classification(6)
    for size in (6, 100):
        ((x, y),) = batches(part, [3, 4], size, first=0, stop=1)
        assert torch.equal(x, part.x.expand(2, -1, -1))
        assert torch.equal(y, part.y.expand(2, -1))


def test_inputs_are_shifted_and_scaled_as_the_data_set_says():
    part = Examples(
        torch.tensor([[0], [200]], dtype=torch.uint8), torch.zeros(2).long(), 1, 100.0, 50.0, DOUBLE
    )
    assert part.batch(1)[0].tolist() == [[[-2.0], [2.0]]]
    assert part.take(torch.tensor([[1]]))[0].tolist() == [[[2.0]]]


def test_hidden_signals_are_scaled_to_the_norm_of_the_error():
    s, e = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[6.0, 8.0]]])
    lesson = Lesson((s, torch.zeros_like(s), e)).normalized()
    assert [t.tolist() for t in lesson.signals] == [e.tolist(), [[[0, 0]]], e.tolist()]


def test_an_outcome_has_the_points_asked_for_and_what_is_measured_there():
    training = Training(7, 8, record=(0, 3, 5), dtype="float64")
    task = Task(classification(20), classification(10), classification(15))
    outcome, _ = train(job_of(FA(), training), task)
    assert [point.step for point in outcome.points] == [0, 3, 5, 7]
    assert all(len(point.alignment) == 2 for point in outcome.points)
    assert outcome.points[-1].train_loss < outcome.points[0].train_loss
    assert outcome.chance_accuracy == 1 / 3
    assert outcome.diverged_step is None
    for probe in (outcome.probe_accuracy, outcome.probe_accuracy_untrained):
        assert len(probe) == 2
        assert all(0 <= accuracy <= 1 for accuracy in probe)


def test_tuning_never_reads_the_test_set():
    training = Training(4, 8, dtype="float64")
    task = Task(classification(20), classification(10), classification(15))
    job = job_of(FA(), training)
    tuning = Job(
        *(getattr(job, name) for name in job.__dataclass_fields__ if name != "measure"), None
    )
    for outcome in train(tuning, task):
        assert outcome.probe_accuracy is None
        assert all(point.test_loss is point.alignment is None for point in outcome.points)


def test_regression_has_losses_but_neither_accuracies_nor_probes():
    training = Training(4, 8, loss="squared", dtype="float64")
    outcome, _ = train(job_of(BP(), training), Task(regression(), None, regression(9)))
    assert outcome.points[-1].test_loss > 0
    assert outcome.points[-1].test_accuracy is None
    assert outcome.points[-1].validation_loss is None
    assert outcome.probe_accuracy is outcome.chance_accuracy is None


def test_losses_too_small_for_float32_are_not_taken_for_divergence():
    training = Training(4, 20, loss="squared", dtype="float64")
    part = regression()
    tiny = Examples(1e-30 * part.x, 1e-30 * part.y, None, 0.0, 1.0, DOUBLE)
    for outcome in train(job_of(BP(), training, bias=False), Task(tiny, None, None)):
        assert outcome.diverged_step is None
        assert 0 < outcome.points[-1].train_loss < 1e-58
