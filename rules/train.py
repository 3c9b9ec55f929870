"""The one training loop: a pack of replicas in, an Outcome for each of them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rules.dims import Dims, dims_of
from rules.learner import Learner
from rules.net import Net, init_params
from rules.record import Outcome, Recorder
from rules.rule import Lesson, Rule, Trace
from rules.settings import Measure, Network, Training
from rules.shuffle import order
from rules.streams import Streams
from rules.task import Examples, Task


@dataclass(frozen=True)
class Job:
    """What to train: networks of one shape and one rule; seeds and rates, one a replica."""

    network: Network
    training: Training
    rule: Rule
    init_seeds: tuple[int, ...]
    feedback_seeds: tuple[int, ...]
    lr: tuple[float, ...]
    measure: Measure | None  # None: a tuning job, which never reads the test set


def start(job: Job, dims: Dims, device: torch.device) -> Learner:
    """The replicas before their first step."""
    dtype = getattr(torch, job.training.dtype)
    params = init_params(dims, job.network.activation, Streams(job.init_seeds, dtype, device))
    streams = Streams(job.feedback_seeds, dtype, device)
    lr = torch.tensor(job.lr, dtype=dtype, device=device).reshape(-1, 1, 1)
    ones = torch.ones(len(job.lr), dtype=torch.float64, device=device)
    return Learner(
        list(range(len(job.lr))),
        job.rule,
        params,
        params.zeros(),
        job.rule.init(dims, streams),
        streams,
        list(job.init_seeds),
        lr,
        limit=torch.inf * ones,
        healthy=ones > 0,
        lasted=torch.zeros_like(ones).long(),
    )


def batches(
    examples: Examples, seeds: list[int], batch_size: int, first: int, stop: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of the steps from `first` up to `stop`: x (replica, batch, inputs), targets.

    The order of an epoch is a function of (seed, epoch); the last batch of an epoch is what is
    left. A full batch is the training set in its own order.
    """
    count = len(examples)
    per_epoch = -(-count // batch_size)
    orders: tuple[int, Tensor] = (-1, torch.empty(0))
    for step in range(first, stop):
        epoch, place = divmod(step, per_epoch)
        if per_epoch == 1:
            yield examples.batch(len(seeds))
            continue
        if epoch != orders[0]:
            drawn = {seed: torch.from_numpy(order(seed, epoch, count)) for seed in set(seeds)}
            orders = epoch, torch.stack([drawn[seed] for seed in seeds]).to(examples.x.device)
        yield examples.take(orders[1][:, place * batch_size : (place + 1) * batch_size])


def advance(net: Net, learner: Learner, training: Training, examples: Examples, stop: int) -> None:
    """Train up to `stop` steps; where a replica diverges, note how long it lasted."""
    for x, targets in batches(
        examples, learner.init_seeds, training.batch_size, learner.step, stop
    ):
        trace = net.trace(learner.params, x, targets, learner.streams, learner.step)
        trace = replace(trace, weight_decay=training.weight_decay)
        learner.healthy &= trace.losses.double().mean(-1) <= learner.limit
        learner.lasted += learner.healthy
        lesson, learner.state = learner.rule.teach(trace, learner.params, learner.state)
        update(net, learner, training, trace, lesson)
        learner.step += 1


def update(net: Net, learner: Learner, training: Training, trace: Trace, lesson: Lesson) -> None:
    """W <- (1 - decay) W - lr V with V <- momentum V + inputs^T signals / batch; so for biases."""
    if training.normalize_signals:
        lesson = lesson.normalized()
    params, velocity = learner.params, learner.velocity
    share = 1 / trace.losses.shape[1]
    inputs = lesson.inputs or trace.inputs
    for l, signal in enumerate(lesson.signals):
        gradients = [(params.weights[l], velocity.weights[l], net.product(inputs[l].mT, signal))]
        if params.biases:
            gradients.append((params.biases[l], velocity.biases[l], signal.sum(1, keepdim=True)))
        for parameter, v, gradient in gradients:
            v.mul_(training.momentum).add_(gradient, alpha=share)
            if training.weight_decay:
                parameter.mul_(1 - training.weight_decay)
            parameter.sub_(learner.lr * v)


def train(job: Job, task: Task) -> list[Outcome]:
    """Train the job's networks; the outcomes stand in the order of its replicas."""
    return fit(job, task)[0]


def fit(job: Job, task: Task) -> tuple[list[Outcome], Learner]:
    """Train the job's networks; also the learner, which holds those that did not diverge."""
    inputs = task.train.x.shape[1]
    outputs = task.train.classes or task.train.y.shape[1]
    dims = dims_of(job.network, inputs, outputs)
    net = Net(job.network.activation, job.network.residual, job.training.loss)
    learner = start(job, dims, task.train.x.device)
    recorder = Recorder(net, task, job.measure, len(job.lr))
    untrained = recorder.probe(learner)
    for stop in sorted({0, *job.training.record, job.training.steps}):
        advance(net, learner, job.training, task.train, stop)
        recorder.record(learner)
        if not learner.replicas:
            break
    return recorder.outcomes(untrained, learner), learner
