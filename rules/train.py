"""The one training loop: a pack of replicas in, an Outcome for each of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from rules import compiled
from rules.checkpoint import Checkpoints
from rules.dims import Dims, dims_of
from rules.learner import Learner
from rules.net import Net, init_params
from rules.optimizer import MOMENTS, Scales, direction, scales
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
        tuple(params.zeros() for _ in range(MOMENTS[job.training.optimizer])),
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


def advance(
    net: Net,
    learner: Learner,
    training: Training,
    examples: Examples,
    stop: int,
    stepped: Callable[[], None] = lambda: None,
) -> None:
    """Train up to `stop` steps; where a replica diverges, note how long it lasted.

    `stepped` is called after every step.
    """
    size = training.batch_size
    with compiled.compiling() if training.compile else nullcontext():
        for batch in batches(examples, learner.init_seeds, size, learner.step, stop):
            now = scales(training, learner.step)
            if training.compile and batch[0].shape[1] == min(size, len(examples)):
                compiled.step(take_step, net, learner, training, batch, now)
            else:  # what is left of an epoch is not worth machine code of its own
                take_step(net, learner, learner.streams, training, batch, now)
            learner.step += 1
            stepped()


def take_step(
    net: Net,
    learner: Learner,
    streams: Streams,
    training: Training,
    batch: tuple[Tensor, Tensor],
    now: Scales,
) -> None:
    """One step of every replica on its batch: forward pass, teaching signals, update."""
    trace = net.trace(learner.params, *batch, streams, learner.step)
    if training.weight_decay:
        trace = replace(trace, weight_decay=now.factor * training.weight_decay)
    learner.healthy &= trace.losses.double().mean(-1) <= learner.limit
    learner.lasted += learner.healthy
    lesson, learner.state = learner.rule.teach(trace, learner.params, learner.state)
    update(net, learner, training, trace, lesson, now)


def update(
    net: Net, learner: Learner, training: Training, trace: Trace, lesson: Lesson, now: Scales
) -> None:
    """W <- (1 - decay) W - lr direction(inputs^T signals / batch); likewise for biases.

    Decay stands apart from the gradient and from the learning rate, and follows the schedule as
    the rate does (SGDW and AdamW: Loshchilov, Hutter, "Decoupled weight decay regularization",
    ICLR 2019).
    """
    if training.normalize_signals:
        lesson = lesson.normalized()
    share, lr = 1 / trace.losses.shape[1], now.factor * learner.lr
    found = gradients(net, trace, lesson, bias=bool(learner.params.biases))
    for parameter, gradient, *moments in zip(learner.params, found, *learner.moments, strict=True):
        moved = direction(training, gradient, share, moments, now)
        if training.weight_decay:
            parameter.mul_(1 - trace.weight_decay)
        parameter.sub_(lr * moved)


def gradients(net: Net, trace: Trace, lesson: Lesson, *, bias: bool) -> Iterator[Tensor]:
    """What a lesson asks of the weights, then of the biases, summed over the batch."""
    for h, signal in zip(lesson.inputs or trace.inputs, lesson.signals, strict=True):
        yield net.product(h.mT, signal)
    if bias:
        yield from (signal.sum(1, keepdim=True) for signal in lesson.signals)


def train(job: Job, task: Task) -> list[Outcome]:
    """Train the job's networks; the outcomes stand in the order of its replicas."""
    return fit(job, task)[0]


def fit(
    job: Job, task: Task, checkpoints: Checkpoints | None = None
) -> tuple[list[Outcome], Learner]:
    """Train the job's networks; also the learner, which holds those that did not diverge.

    With `checkpoints`, it goes on from the one that they start from, and leaves its own.
    """
    inputs = task.train.x.shape[1]
    outputs = task.train.classes or task.train.y.shape[1]
    dims = dims_of(job.network, inputs, outputs)
    net = Net(job.network.activation, job.network.residual, job.training.loss)
    learner = start(job, dims, task.train.x.device)
    recorder = Recorder(net, task, job.measure, len(job.lr))
    if checkpoints:
        learner = checkpoints.resume(learner, recorder)
    if learner.step == 0:
        recorder.untrained = recorder.probe(learner)
    stepped = partial(checkpoints.stepped, learner, recorder) if checkpoints else lambda: None
    for stop in sorted({0, *job.training.record, job.training.steps}):
        if stop < learner.step:  # recorded before the checkpoint
            continue
        if not learner.replicas:
            break
        advance(net, learner, job.training, task.train, stop, stepped)
        recorder.record(learner)
    return recorder.outcomes(learner), learner
