import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.stats import (
    cell_means,
    compare,
    holm,
    mean_interval,
    paired_difference,
    seed_means,
    sign_flip_p,
)

VALUES = arrays(float, st.integers(2, 12), elements=st.floats(-100, 100))


@pytest.mark.parametrize("n", [5, 10])
def test_the_interval_covers_the_mean_of_normal_data_in_95_of_100(n):
    draws = np.random.default_rng(n).normal(3, 2, (2000, n))
    found = [mean_interval(row) for row in draws]
    coverage = np.mean([each.low <= 3 <= each.high for each in found])
    assert coverage == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / 2000))


def test_pairing_finds_a_difference_that_unpaired_seeds_hide():
    rng = np.random.default_rng(0)
    seed_effect = rng.normal(0, 1, 8)
    b = seed_effect + rng.normal(0, 0.05, 8)
    a = seed_effect + 0.2 + rng.normal(0, 0.05, 8)
    found = paired_difference(a, b)
    assert found.low > 0
    assert found.p == 2 / 2**8
    assert scipy.stats.ttest_ind(a, b).pvalue > 0.2


def test_the_paired_interval_is_that_of_the_paired_t_test():
    a, b = np.random.default_rng(1).normal(size=(2, 7))
    found, known = paired_difference(a, b), scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))
    assert found.method == "t"


def test_from_twenty_seeds_the_interval_is_a_bootstrap_that_does_not_change():
    d = np.random.default_rng(2).exponential(size=20)
    found = paired_difference(d, np.zeros(20))
    assert found.method == "BCa"
    assert found.low < d.mean() < found.high
    assert found == paired_difference(d, np.zeros(20))
    assert paired_difference(d[:19], np.zeros(19)).method == "t"


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(x, random):
    shuffled = x.tolist()
    random.shuffle(shuffled)
    a, b = mean_interval(x), mean_interval(shuffled)
    assert (a.mean, a.low, a.high) == pytest.approx((b.mean, b.low, b.high), abs=1e-9)


@given(VALUES, st.floats(-10, 10), st.floats(0.1, 10))
def test_intervals_move_and_stretch_with_the_data(x, shift, scale):
    a, b = mean_interval(x), mean_interval(scale * x + shift)
    moved = [scale * value + shift for value in (a.mean, a.low, a.high)]
    assert (b.mean, b.low, b.high) == pytest.approx(moved, rel=1e-9, abs=1e-8)


@given(VALUES)
def test_an_interval_contains_its_mean(x):
    found = mean_interval(x)
    assert found.low <= found.mean <= found.high


def test_one_seed_has_a_mean_and_no_interval():
    found = mean_interval([0.7])
    assert (found.mean, found.n) == (0.7, 1)
    assert np.isnan([found.low, found.high, found.sem]).all()
    assert paired_difference([0.7], [0.5]).method == "none"


def test_no_seed_has_nothing():
    assert mean_interval([]).n == 0
    assert np.isnan(mean_interval([]).mean)
    assert np.isnan(sign_flip_p([]))


@pytest.mark.parametrize("n", [2, 5, 25])
def test_equal_values_give_an_interval_without_width(n):
    found = paired_difference(np.full(n, 0.75), np.full(n, 0.5))
    assert (found.mean, found.low, found.high) == (0.25, 0.25, 0.25)
    assert sign_flip_p(np.zeros(n)) == 1


@pytest.mark.parametrize(("n", "least"), [(3, 0.25), (5, 0.0625), (6, 0.03125), (13, 2 / 2**13)])
def test_the_least_sign_flip_p_is_exact(n, least):
    assert sign_flip_p(np.arange(1, n + 1)) == pytest.approx(least)


def test_above_thirteen_seeds_the_p_is_sampled_and_repeatable():
    d = np.random.default_rng(3).normal(0.3, 1, 16)
    exact = scipy.stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert sign_flip_p(d) == pytest.approx(exact, abs=0.02)
    assert sign_flip_p(d) == sign_flip_p(d)


def test_holm_multiplies_the_least_p_most_and_never_lowers_a_later_one():
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]).tolist() == pytest.approx([1.0, 1.0])


def test_an_unknown_p_is_no_member_of_the_family():
    assert holm([0.01, np.nan, 0.04]).tolist() == pytest.approx([0.02, np.nan, 0.04], nan_ok=True)
    assert holm([]).size == 0


@pytest.fixture
def nested():
    """Three init seeds with two feedback seeds each, of one rule, and a rule without feedback."""
    fa = pd.DataFrame(
        {
            "label": "fa",
            "depth": 2,
            "init_seed": [0, 0, 1, 1, 2, 2],
            "score": [1.0, 3.0, 2.0, 4.0, 6.0, 8.0],
        }
    )
    bp = pd.DataFrame({"label": "bp", "depth": 2, "init_seed": [2, 1, 0], "score": [9.0, 5.0, 4.0]})
    return pd.concat([fa, bp], ignore_index=True)


def test_feedback_seeds_are_averaged_within_their_init_seed_first(nested):
    assert seed_means(nested, "score", ["label"])["score"].tolist() == [4, 5, 9, 2, 3, 7]
    fa = cell_means(nested, "score", ["label", "depth"]).set_index("label").loc["fa"]
    assert (fa["n"], fa["mean"]) == (3, 4.0)
    assert fa["sem"] == pytest.approx(np.std([2, 3, 7], ddof=1) / np.sqrt(3))
    half = scipy.stats.t.ppf(0.975, 2) * fa["sem"]
    assert (fa["low"], fa["high"]) == pytest.approx((4 - half, 4 + half))


def test_a_group_whose_values_are_unknown_is_left_out(nested):
    known = nested.assign(score=nested["score"].where(nested["label"].eq("bp")))
    assert cell_means(known, "score", ["label"])["label"].tolist() == ["bp"]


def test_rules_are_compared_seed_by_seed(nested):
    row = compare(nested, "score", [("fa", "bp")], ["depth"]).iloc[0]
    assert (row["label"], row["reference"], row["n"]) == ("fa", "bp", 3)
    assert row["mean"] == np.mean([2 - 4, 3 - 5, 7 - 9])
    assert (row["low"], row["high"]) == (-2, -2)


def test_seeds_that_one_rule_lacks_are_not_compared(nested):
    fewer = nested[~(nested["label"].eq("bp") & nested["init_seed"].eq(1))]
    assert compare(fewer, "score", [("fa", "bp")], ["depth"])["n"].tolist() == [2]


def test_all_pairs_of_a_comparison_are_one_family(nested):
    third = nested[nested["label"].eq("bp")].assign(label="np", score=[1.0, 2.0, 0.5])
    pairs = [("fa", "bp"), ("np", "bp")]
    found = compare(pd.concat([nested, third]), "score", pairs, ["depth"])
    assert found["p_holm"].tolist() == holm(found["p"]).tolist() == [0.5, 0.5]


def test_rules_that_never_meet_give_an_empty_comparison(nested):
    assert compare(nested, "score", [("fa", "absent")], ["depth"]).empty
