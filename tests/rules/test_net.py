"""The batched network against plain loops and autograd."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from rules.case import Case
from rules.dims import Dims
from rules.net import GAIN, Net, fraction_tanh, init_params
from rules.streams import Streams


def test_the_forward_pass_equals_plain_loops(case: Case, alone: Callable[[Case], Iterator]):
    trace = case.trace()
    logits = case.net.logits(case.params(), case.examples()[0])
    for one in alone(case):
        at = one.replica, one.example
        found = [*trace.inputs, *trace.slopes, trace.error, trace.losses, logits]
        wanted = [*one.h, *one.slopes, one.error, one.loss, one.logits]
        for batched, plain in zip(found, wanted, strict=True):
            assert batched[at].numpy() == pytest.approx(plain, rel=1e-12, abs=1e-12)


def test_perturbed_losses_are_those_of_perturbing_one_layer_at_a_time(
    case: Case, alone: Callable[[Case], Iterator]
):
    trace = case.trace()
    shifts = [
        case.streams.normal(f"shift/{l}", (case.batch, n)) for l, n in enumerate(case.sizes[1:-1])
    ]
    found = case.net.perturbed_losses(case.params(), trace, shifts)
    assert len(found) == case.dims.depth
    for one in alone(case):
        at = one.replica, one.example
        plain = [one.shifted_loss(l, shift[at].numpy()) for l, shift in enumerate(shifts, start=1)]
        assert [losses[at].item() for losses in found] == pytest.approx(plain, abs=1e-12)


def test_the_error_is_the_derivative_of_the_loss(case: Case):
    _, targets = case.examples()
    logits = case.streams.normal("logits", (case.batch, case.sizes[-1])).requires_grad_()
    case.net.losses(logits, targets).sum().backward()
    error = case.net.error(logits.detach(), targets)
    torch.testing.assert_close(error, logits.grad, rtol=0, atol=1e-12)


def test_the_losses_are_those_of_torch():
    case = Case()
    (_, classes), (_, values) = case.examples(), replace(case, net=Net(loss="squared")).examples()
    logits = case.streams.normal("logits", (case.batch, case.sizes[-1]))
    entropy = torch.nn.functional.cross_entropy(logits.mT, classes, reduction="none")
    torch.testing.assert_close(Net().losses(logits, classes), entropy)
    squared = torch.nn.functional.mse_loss(logits, values, reduction="none").sum(-1) / 2
    torch.testing.assert_close(Net(loss="squared").losses(logits, values), squared)


def test_large_logits_neither_overflow_nor_lose_the_loss():
    logits, target = torch.tensor([[[2000.0, -2000.0]]]), torch.tensor([[1]])
    assert Net().losses(logits, target).item() == 4000
    assert Net().error(logits, target).tolist() == [[[1, -1]]]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 3), (3, 1), (2, 3)])
def test_a_product_of_any_shape_is_the_matrix_product(rows: int, columns: int):
    streams = Streams((0, 1), torch.float64)
    a, b = streams.normal("a", (rows, 5)), streams.normal("b", (5, columns))
    torch.testing.assert_close(Net.product(a, b), a @ b)


@pytest.mark.parametrize("activation", GAIN)
def test_weights_start_with_the_stated_spread_and_biases_at_zero(activation: str):
    params = init_params(Dims((100, 400, 50)), activation, Streams((0, 1), torch.float64))
    for weight, fan_in in zip(params.weights, (100, 400), strict=True):
        assert weight.std().item() * fan_in**0.5 == pytest.approx(GAIN[activation], rel=0.02)
    assert not any(bias.any() for bias in params.biases)
    assert init_params(Dims((2, 3, 4), bias=False), activation, Streams((0,))).biases == ()


def test_the_tanh_of_compiled_code_is_the_true_one_to_its_last_bits():
    x = torch.cat([torch.logspace(-37, 2, 200_001), torch.linspace(0, 12, 200_001)])
    x = torch.cat([x, -x]).float()
    found, true = fraction_tanh(x), x.double().tanh()
    last_place = torch.nextafter(true.float().abs(), torch.tensor(2.0)) - true.float().abs()
    assert ((found - true).abs() <= 8 * last_place).all()
    assert (found.abs() <= 1).all()
    assert torch.equal(fraction_tanh(-x), -found)
    edges = torch.tensor([0.0, torch.inf, -torch.inf, 9.5, torch.nan])
    assert fraction_tanh(edges)[:4].tolist() == [0, 1, -1, 1]
    assert fraction_tanh(edges)[4].isnan()


def test_activations_keep_the_size_of_signals_at_any_depth():
    case = Case((256, *[256] * 12, 4), seeds=(0,), batch=64, net=Net("relu"))
    params = init_params(case.dims, "relu", case.streams)
    *_, top = case.net.hidden(params, case.examples()[0])
    assert 0.5 < top.square().mean().item() < 2
