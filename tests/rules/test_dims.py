"""Counts against the networks they count, and matched widths against trying every width."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.dims import Dims, dims_of, matched_width
from rules.net import init_params
from rules.settings import Network
from rules.streams import Streams

SIZES = st.lists(st.integers(1, 9), min_size=3, max_size=8).map(tuple)
BIASLESS = Network(depth=1, width=1, bias=False)
NETWORKS = st.builds(Network, depth=st.integers(1, 6), width=st.just(1), bias=st.booleans())


@given(st.builds(Dims, SIZES, st.booleans()))
def test_the_parameter_count_is_that_of_the_built_network(dims: Dims):
    params = init_params(dims, "tanh", Streams((0,)))
    assert dims.parameter_count == sum(t.numel() for t in (*params.weights, *params.biases))
    assert (dims.depth, dims.outputs) == (len(params.weights) - 1, params.weights[-1].shape[2])


def test_all_hidden_layers_of_a_network_have_its_width():
    assert dims_of(Network(depth=3, width=8, bias=False), 5, 2) == Dims((5, 8, 8, 8, 2), bias=False)


def count_of(network: Network, inputs: int, outputs: int) -> Callable[[int], int]:
    """The number of parameters as a function of the width."""
    return lambda width: dims_of(replace(network, width=width), inputs, outputs).parameter_count


@given(NETWORKS, st.integers(1, 20), st.integers(1, 20), st.integers(0, 3000))
def test_the_matched_width_is_the_best_of_all(
    network: Network, inputs: int, outputs: int, extra: int
):
    count = count_of(network, inputs, outputs)
    target = count(1) + extra
    every = range(1, 2 + extra // 2)  # a unit more takes at least two parameters
    assert matched_width(count, target) == min(every, key=lambda width: abs(count(width) - target))


def test_of_two_widths_as_near_the_smaller_matches():
    assert matched_width(count_of(BIASLESS, 1, 1), 5) == 2  # counts are 4 and 6


@pytest.mark.parametrize(
    ("depth", "width"),
    [(1, 269), (2, 64), (3, 47), (4, 39), (6, 31), (8, 26), (12, 21), (16, 18), (32, 13)],
)
def test_widths_that_match_16_64_64_4(depth: int, width: int):
    assert matched_width(count_of(replace(BIASLESS, depth=depth), 16, 4), 5376) == width


def test_a_target_below_the_smallest_network_is_refused():
    with pytest.raises(ValueError, match="no width reaches 1 parameters: width 1 has 2"):
        matched_width(count_of(BIASLESS, 1, 1), 1)


def test_a_huge_target_is_matched_without_trying_every_width():
    calls = []
    width = matched_width(lambda width: calls.append(width) or width**2, 10**18)
    assert (width, len(calls) < 100) == (10**9, True)
