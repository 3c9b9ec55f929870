"""Random numbers are a function of seed, purpose and step, and of nothing else."""

import pytest
import torch

from rules.streams import Streams, generator

DOUBLE = Streams((0, 1, 0), torch.float64)
GOLDEN = [0.1381880902615359, 0.40740213560545757, 0.2539576992380214]
GOLDEN_AT_STEP = [-0.9404215879335043, 0.5339847083031427]


def test_the_numbers_of_a_stream_stay_what_they_are_for_ever():
    """Were these to change, no earlier result could be had again."""
    first = generator(0, "weights/1").standard_normal(3)
    assert first.tolist() == GOLDEN
    assert Streams((0,), torch.float64).normal("weights/1", (3,)).tolist() == [GOLDEN]
    assert generator(7, "perturbation/2/0", 41).standard_normal(2).tolist() == GOLDEN_AT_STEP


def test_equal_seeds_draw_equal_numbers_and_other_seeds_others():
    drawn = DOUBLE.normal("a", (2, 5))
    assert drawn.shape == (3, 2, 5)
    assert torch.equal(drawn[0], drawn[2])
    assert not (drawn[0] == drawn[1]).any()


@pytest.mark.parametrize("other", [("b", (5,), 0), ("a", (5,), 1), ("a/", (5,), 0)])
def test_other_purposes_and_steps_draw_other_numbers(other: tuple):
    assert not (DOUBLE.normal("a", (5,), 0) == DOUBLE.normal(*other)).any()


def test_purposes_steps_and_seeds_are_uncorrelated():
    keys = [(0, "a", 0), (0, "a", 1), (0, "b", 0), (1, "a", 0), (10, "a", 0), (0, "a", 10)]
    drawn = torch.stack([torch.from_numpy(generator(*key).standard_normal(10_000)) for key in keys])
    assert drawn.mean(1).abs().max() < 0.05
    assert (torch.corrcoef(drawn) - torch.eye(len(keys))).abs().max() < 0.05


def test_numbers_in_float32_are_the_rounded_float64():
    single = Streams(DOUBLE.seeds).normal("a", (100,))
    assert single.dtype == torch.float32
    assert torch.equal(single, DOUBLE.normal("a", (100,)).float())
    assert torch.equal(Streams(DOUBLE.seeds).double().normal("a", (9,)), DOUBLE.normal("a", (9,)))


def test_replicas_that_go_on_keep_their_streams():
    kept = DOUBLE.keep([1, 2])
    assert torch.equal(kept.normal("a", (4,), 3), DOUBLE.normal("a", (4,), 3)[1:])


def test_zeros_have_an_axis_of_replicas():
    assert torch.equal(DOUBLE.zeros((2, 4)), torch.zeros(3, 2, 4, dtype=torch.float64))
