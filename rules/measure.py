"""What is measured of a network: losses, accuracies, alignment with the gradient, ridge probes.

Alignment and probes are computed in float64, whatever the network trained in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rules.bp import BP
from rules.net import Net, Params
from rules.rule import Lesson, Rule, State, Trace
from rules.streams import Streams
from rules.task import Examples

CHUNK = 1000
"""Examples evaluated at once: fixed, since the order of a sum must not depend on the pack."""


def chunks(examples: Examples) -> Iterator[Examples]:
    """The examples in their order, `CHUNK` at a time."""
    for start in range(0, len(examples), CHUNK):
        yield examples.slice(start, start + CHUNK)


def evaluate(net: Net, params: Params, examples: Examples) -> tuple[Tensor, Tensor]:
    """Mean loss and accuracy, each (replica,) in float64; the accuracy of regression is NaN."""
    replicas = len(params.weights[0])
    loss = torch.zeros(replicas, dtype=torch.float64, device=params.weights[0].device)
    correct = torch.zeros_like(loss)
    for part in chunks(examples):
        x, targets = part.batch(replicas)
        logits = net.logits(params, x)
        loss += net.losses(logits, targets).double().sum(-1)
        correct += (logits.argmax(-1) == targets).sum(-1) if examples.classes else torch.nan
    return loss / len(examples), correct / len(examples)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine over the last axis; NaN where a vector is zero.

    Each vector is first divided by its largest magnitude, so that the answer is exact for
    vectors of any size; there is no additive epsilon, which would pull small ones to 0.
    """
    return _cosine(_scaled(a), _scaled(b))


def _scaled(v: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors over their largest magnitude, and the norms of what comes out."""
    v = v / v.abs().amax(-1, keepdim=True)
    return v, v.square().sum(-1).sqrt()


def _cosine(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> Tensor:
    return (a[0] * b[0]).sum(-1) / (a[1] * b[1])


@dataclass(frozen=True)
class Credit:
    """How a rule's signals relate to the true ones, each (replica, hidden layer) in float64.

    A rule with a presynaptic factor of its own is measured by the updates h_{l-1}^T s_l that
    single examples ask for, since its signals alone mean little. The cosine and the norm of an
    outer product are the products of those of its factors, so that nothing changes for a rule
    that takes the layer's input, as the true update does.
    """

    alignment: Tensor  # cos(r_l, -g_l), mean over examples; NaN for a silent layer
    update_cosine: Tensor  # cosine of the two weight updates of the batch
    norm_ratio: Tensor  # mean norm of the rule's signal over mean norm of the true one


def credit(
    net: Net, rule: Rule, params: Params, state: State, streams: Streams, examples: Examples
) -> Credit:
    """Alignment, update cosine and norm ratio on a fixed batch; the state is not advanced.

    The teaching signal of layer l is r_l = -s_l, hence cos(r_l, -g_l) = cos(s_l, g_l).
    """
    params = params.double()
    state = {name: tuple(map(_in_double, tensors)) for name, tensors in state.items()}
    trace = measuring(net, params, streams, examples)
    taught, _ = rule.teach(trace, params, state)
    true, _ = BP().teach(trace, params, {})
    cosines, updates, ratios = [], [], []
    for l, (s, g) in enumerate(zip(taught.signals[:-1], true.signals[:-1], strict=True)):
        alike, norms = cosine(s, g), (s.norm(dim=-1), g.norm(dim=-1))
        if taught.inputs:
            own, h = taught.inputs[l], trace.inputs[l]
            alike = alike * cosine(own, h)
            norms = norms[0] * own.norm(dim=-1), norms[1] * h.norm(dim=-1)
        cosines.append(alike.nanmean(-1))
        updates.append(cosine(_update(net, trace, taught, l), _update(net, trace, true, l)))
        ratios.append(norms[0].mean(-1) / norms[1].mean(-1))
    return Credit(*(torch.stack(v, dim=-1) for v in (cosines, updates, ratios)))


def _in_double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def measuring(net: Net, params: Params, streams: Streams, examples: Examples) -> Trace:
    """The trace of float64 networks on all the examples, for a rule that need not learn."""
    x, targets = examples.double().batch(len(params.weights[0]))
    return replace(net.trace(params, x, targets, streams.double(), step=0), measuring=True)


def chance(net: Net, params: Params, streams: Streams, examples: Examples, draws: int) -> Tensor:
    """What alignment is by chance: its root mean square over fresh direct feedback.

    (replica, hidden layer) in float64. The mean over draws is 0, since B and -B are as likely,
    so that 1.96 times this value bounds 95 % of what feedback does that was never learned from.
    """
    params = params.double()
    trace = measuring(net, params, streams, examples)
    true, _ = BP().teach(trace, params, {})
    classes, total = trace.error.shape[-1], []
    for l, g in enumerate(true.signals[:-1]):
        squares, gradient = torch.zeros_like(g[:, 0, 0]), _scaled(g)
        for draw in range(draws):
            b = trace.streams.normal(f"chance/{l}/{draw}", (classes, g.shape[-1]))
            signal = net.product(trace.error, b) * trace.slopes[l]
            squares += _cosine(_scaled(signal), gradient).nanmean(-1).square()
        total.append((squares / draws).sqrt())
    return torch.stack(total, dim=-1)


def _update(net: Net, trace: Trace, lesson: Lesson, l: int) -> Tensor:
    inputs = (lesson.inputs or trace.inputs)[l]
    return net.product(inputs.mT, lesson.signals[l]).flatten(1)


def ridge_probe(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], ridge: float) -> Tensor:
    """Held-out accuracy (replica,) of a linear classifier on frozen features, in closed form.

    Features are (replica, examples, units) with labels (examples,). With F = [features, 1] and
    one-hot targets Y the weights are (F^T F + ridge I)^-1 F^T Y, the ones column penalised too.
    """
    (features, labels), (held_out, held_out_labels) = train, test
    ones = features.new_ones((*features.shape[:2], 1))
    design = torch.cat([features, ones], dim=-1)
    gram = Net.product(design.mT, design)
    gram.diagonal(dim1=-2, dim2=-1).add_(ridge)
    onehot = torch.nn.functional.one_hot(labels).to(design).expand(len(design), -1, -1)
    weights = torch.cholesky_solve(Net.product(design.mT, onehot), torch.linalg.cholesky(gram))
    guess = Net.product(held_out, weights[:, :-1]) + weights[:, -1:]
    return (guess.argmax(-1) == held_out_labels).double().mean(-1)


def probes(net: Net, params: Params, train: Examples, test: Examples, ridge: float) -> Tensor:
    """Probe accuracy of every hidden layer of the frozen networks: (replica, hidden layer).

    One network and one layer at a time, so that memory holds the features of one layer.
    """
    train, test, rows = train.double(), test.double(), []
    for replica in range(len(params.weights[0])):
        one = params.keep([replica]).double()
        layers = zip(
            net.hidden(one, train.batch(1)[0]), net.hidden(one, test.batch(1)[0]), strict=True
        )
        rows.append(
            [
                ridge_probe((fit, train.y), (held_out, test.y), ridge).item()
                for fit, held_out in layers
            ]
        )
    return torch.tensor(rows, dtype=torch.float64)


def input_probe(train: Examples, test: Examples, ridge: float) -> float:
    """Probe accuracy of the inputs themselves: what no layer at all would give."""
    (fit, _), (held_out, _) = train.double().batch(1), test.double().batch(1)
    return ridge_probe((fit, train.y), (held_out, test.y), ridge).item()
