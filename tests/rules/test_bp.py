"""Backpropagation against autograd."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rules.bp import BP
from rules.case import Case
from rules.net import GAIN, Net


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any small network: depth 1 to 6, 1 to 4 replicas, batches of 1 to 17."""
    depth, residual, width = draw(st.integers(1, 6)), draw(st.booleans()), st.integers(1, 8)
    hidden = [draw(width)] * depth if residual else [draw(width) for _ in range(depth)]
    net = Net(
        draw(st.sampled_from([*GAIN])),
        residual,
        draw(st.sampled_from(["cross-entropy", "squared"])),
    )
    seeds = tuple(range(draw(st.integers(1, 4))))
    sizes = (draw(width), *hidden, draw(width))
    return Case(sizes, seeds, draw(st.integers(1, 17)), net, bias=draw(st.booleans()))


def autograd(case: Case) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The gradients of the summed loss by each z_l (replica, batch, n_l), W_l and b_l."""
    params, (h, targets), zs = case.params(), case.examples(), []
    leaves = [[t.requires_grad_() for t in part] for part in (params.weights, params.biases)]
    phi = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}[case.net.activation]
    for l, weight in enumerate(params.weights):
        zs.append(h @ weight + (params.biases[l] if case.bias else 0))
        zs[-1].retain_grad()
        h = phi(zs[-1]) + (h if case.net.residual and 0 < l < case.dims.depth else 0)
    if case.net.loss == "squared":
        loss = torch.nn.functional.mse_loss(zs[-1], targets, reduction="sum") / 2
    else:
        loss = torch.nn.functional.cross_entropy(
            zs[-1].flatten(0, 1), targets.flatten(), reduction="sum"
        )
    loss.backward()
    return tuple([t.grad for t in part] for part in (zs, *leaves))


@given(cases())
@settings(max_examples=60)
def test_signals_and_updates_are_the_gradients_of_autograd(case: Case):
    trace = case.trace()
    lesson, state = BP().teach(trace, case.params(), {})
    signals, weights, biases = autograd(case)
    close(lesson.signals, signals)
    close([h.mT @ s for h, s in zip(trace.inputs, lesson.signals, strict=True)], weights)
    if case.bias:
        close([s.sum(1, keepdim=True) for s in lesson.signals], biases)
    assert state == {}


def close(found: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_backpropagation_keeps_no_state(case: Case):
    assert BP().init(case.dims, case.streams) == {}
