"""Splits and orders of examples: pure functions of their arguments."""

import numpy as np
import pytest

from rules.data import DataError, order, split


@pytest.mark.parametrize("count", [1, 2, 3, 1000])
@pytest.mark.parametrize("validation", [0, 0.1, 0.5, 0.999])
def test_a_split_parts_the_examples_and_keeps_some_to_train_on(count: int, validation: float):
    train, held = split(count, validation, 0)
    assert len(held) == min(round(validation * count), count - 1)
    assert len(train) >= 1
    assert sorted([*train, *held]) == list(range(count))
    assert (np.diff(train) > 0).all()
    assert (np.diff(held) > 0).all()


def test_a_split_is_fixed_by_count_fraction_and_seed():
    train, held = split(20, 0.25, 7)
    np.testing.assert_array_equal(held, [3, 4, 8, 18, 19])
    np.testing.assert_array_equal(train, np.setdiff1d(np.arange(20), held))
    assert not np.array_equal(split(20, 0.25, 8)[1], held)


def test_a_larger_validation_part_contains_the_smaller_one():
    assert set(split(100, 0.1, 3)[1]) < set(split(100, 0.2, 3)[1])


@pytest.mark.parametrize("validation", [-0.1, 1, 1.5, float("nan")])
def test_a_fraction_that_leaves_nothing_to_train_on_is_refused(validation: float):
    with pytest.raises(DataError, match=r"cannot hold out .* of 10 examples"):
        split(10, validation, 0)


def test_nothing_cannot_be_split():
    with pytest.raises(DataError, match="of 0 examples"):
        split(0, 0.1, 0)


def test_an_order_is_fixed_by_seed_epoch_and_count():
    np.testing.assert_array_equal(order(3, 1, 10), [6, 9, 4, 2, 0, 7, 8, 3, 1, 5])
    others = [order(3, 2, 10), order(4, 1, 10), order(31, 0, 10)]
    assert not any(np.array_equal(other, order(3, 1, 10)) for other in others)


def test_an_order_goes_through_every_example_once():
    drawn = order(0, 0, 60_000)
    assert drawn.dtype == np.int64
    assert drawn.flags.writeable
    np.testing.assert_array_equal(np.sort(drawn), np.arange(60_000))


def test_orders_are_even_over_places():
    first = np.array([order(0, epoch, 10)[0] for epoch in range(2000)])
    counts = np.bincount(first, minlength=10)
    assert ((counts - 200) ** 2 / 200).sum() < 27.9  # chi-squared, 9 degrees: one in a thousand
