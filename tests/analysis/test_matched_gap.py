from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from analysis.matched_gap import (
    ALONE,
    at_horizon,
    early_step,
    gap_rows,
    pairs,
    seeds_needed,
    summarise,
    trend,
)

STEPS = [0, 10, 20, 50]
MATCHED = {1: (269, 5380), 2: (64, 5376), 4: (39, 5343)}
FIXED = {1: (64, 1280), 4: (64, 13568)}
INITS, FEEDBACKS = range(3), range(4)


def losses(label, depth, width, seed, feedback):
    """A curve from 7 down, different for every network."""
    rng = np.random.default_rng([depth, width, seed, feedback + 1, len(label)])
    ends = [6.0, 5.0, 4.0] if label == "fa" else [5.0, 3.0, 1.0]
    return [7.0, *(rng.normal(ends, 0.2)).tolist()]


@pytest.fixture
def network(make_rows):
    """Makes one evaluated network with a given training curve."""
    template = make_rows(labels=["bp"], depths=[2], seeds=1)[-1]

    def made(label, depth, size, seed, feedback=None, **more):
        width, count = size
        curve = losses(label, depth, width, seed, -1 if feedback is None else feedback)
        return template | {
            "label": label, "rule": label, "depth": depth, "width": width, "init_seed": seed,
            "feedback_seed": feedback, "parameter_count": count, "parameter_target": None,
            "steps": 50, "initial_loss": 7.0, "curve_step": STEPS, "curve_train_loss": curve,
            "train_loss": curve[-1], "curve_validation_loss": None, "curve_test_loss": None,
            "curve_test_accuracy": None, "curve_alignment": None,
        } | more  # fmt: skip

    return made


@pytest.fixture
def rows(network):
    """Matched widths at three depths and a fixed one at two, seeds nested."""
    found = []
    for sizes, target in ((MATCHED, 5376), (FIXED, None)):
        for (depth, size), seed in product(sizes.items(), INITS):
            plan = {"parameter_target": target}
            found.append(network("bp", depth, size, seed, **plan))
            found += [network("fa", depth, size, seed, f, **plan) for f in FEEDBACKS]
    return found


def gaps(depth, size, step):
    """Init seeds in rows, feedback seeds in columns, by hand."""
    i = STEPS.index(step)
    fa = [[losses("fa", depth, size, s, f)[i] for f in FEEDBACKS] for s in INITS]
    bp = [losses("bp", depth, size, s, -1)[i] for s in INITS]
    return np.array(fa) - np.array(bp)[:, None]


def cell(summary, contract, depth, step):
    found = summary.set_index(["contract", "depth", "step"]).sort_index()
    return found.loc[(contract, depth, step)]


def test_one_bp_network_serves_every_feedback_seed_of_its_init_seed(frame, rows):
    found = gap_rows(frame(rows))
    here = found[found["contract"].eq("matched") & found["depth"].eq(4) & found["step"].eq(20)]
    assert len(here) == len(INITS) * len(FEEDBACKS)
    assert here.groupby("init_seed")["reference_value"].nunique().eq(1).all()
    row = here[here["init_seed"].eq(1) & here["feedback_seed"].eq(3)].iloc[0]
    assert row["value"] == losses("fa", 4, 39, 1, 3)[2]
    assert row["reference_value"] == losses("bp", 4, 39, 1, -1)[2]
    assert row["gap"] == row["value"] - row["reference_value"]


def test_there_is_a_row_for_every_recorded_step(frame, rows):
    found = gap_rows(frame(rows))
    networks = (3 + 2 + 1) * len(INITS) * len(FEEDBACKS)  # the reference network on both lines
    assert len(found) == networks * len(STEPS)
    assert found.loc[found["step"].eq(0), "gap"].eq(0).all()


def test_the_reference_cell_is_on_the_matched_and_on_the_fixed_line(frame, rows):
    found = gap_rows(frame(rows))
    at_two = found[found["depth"].eq(2)]
    assert at_two["contract"].unique().tolist() == ["matched", "width 64"]
    matched, fixed = (part["gap"].tolist() for _, part in at_two.groupby("contract"))
    assert matched == fixed
    assert found.groupby("contract")["depth"].unique().map(sorted).to_dict() == {
        "matched": [1, 2, 4], "width 64": [1, 2, 4]
    }  # fmt: skip
    assert at_two.loc[at_two["contract"].eq("width 64"), "parameter_target"].isna().all()


def test_a_fixed_cell_with_the_target_count_completes_the_matched_line(frame, rows):
    moved = [row | {"parameter_target": None} if row["depth"] == 2 else row for row in rows]
    found, before = gap_rows(frame(moved)), gap_rows(frame(rows))
    pd.testing.assert_frame_equal(summarise(found), summarise(before))


def test_several_targets_are_told_apart(frame, network):
    found = []
    for target, depth in product((5376, 20000), (1, 2)):
        plan = {"parameter_target": target}
        size = (target // 100 - depth, target + depth)
        found += [network(label, depth, size, 0, 0, **plan) for label in ("bp", "fa")]
    assert gap_rows(frame(found))["contract"].unique().tolist() == ["matched 5376", "matched 20000"]


def test_means_and_errors_are_those_of_nested_seeds_by_hand(frame, rows):
    summary = summarise(gap_rows(frame(rows)))
    for step in (20, 50):
        by_hand = gaps(4, 39, step)
        means = by_hand.mean(axis=1)
        sem = np.sqrt(((means - means.mean()) ** 2).sum() / 2) / np.sqrt(3)
        row = cell(summary, "matched", 4, step)
        assert row["gap_mean"] == pytest.approx(by_hand.mean(), rel=1e-12)
        assert row["gap_sem"] == pytest.approx(sem, rel=1e-12)
        assert row["gap_high"] - row["gap_low"] == pytest.approx(2 * t.ppf(0.975, 2) * sem)
        assert (row["rows"], row["init_seeds"], row["note"]) == (12, 3, "")


def test_the_gap_as_a_part_of_the_references_progress_by_hand(frame, rows):
    bp = np.array([losses("bp", 2, 64, seed, -1)[-1] for seed in INITS])
    by_hand = gaps(2, 64, 50) / (7 - bp)[:, None]
    row = cell(summarise(gap_rows(frame(rows))), "matched", 2, 50)
    assert row["gap_fraction_mean"] == pytest.approx(by_hand.mean(), rel=1e-12)
    sem = by_hand.mean(axis=1).std(ddof=1) / np.sqrt(3)
    assert row["gap_fraction_sem"] == pytest.approx(sem, rel=1e-12)


def test_before_any_progress_there_is_no_fraction_and_no_warning(frame, rows):
    row = cell(summarise(gap_rows(frame(rows))), "matched", 2, 0)
    assert np.isnan(row["gap_fraction_mean"])
    assert row["gap_mean"] == 0


def test_the_error_of_a_matched_count_has_its_sign(frame, rows):
    last = at_horizon(summarise(gap_rows(frame(rows))))
    matched = last[last["contract"].eq("matched")]
    assert matched["parameter_count_error"].tolist() == [4, 0, -33]
    assert matched["width"].tolist() == [269, 64, 39]
    assert last.loc[last["contract"].eq("width 64"), "parameter_count_error"].isna().all()


def test_a_gap_in_accuracy_keeps_its_sign_as_a_part_of_the_progress(frame, network):
    def with_accuracy(label, end):
        curve = [0.1, 0.2, 0.3, end]
        return network(label, 2, (64, 5376), 0, curve_test_accuracy=curve, test_accuracy=end)

    found = gap_rows(
        frame([with_accuracy("bp", 0.9), with_accuracy("fa", 0.5)]), metric="test_accuracy"
    )
    row = at_horizon(found).iloc[0]
    assert row["gap"] == pytest.approx(-0.4)
    assert row["progress"] == pytest.approx(0.8)
    assert row["gap_fraction"] == pytest.approx(-0.5)


def test_rules_that_both_draw_feedback_pair_by_it(frame, network):
    found = [
        network(label, 2, (64, 5376), s, f)
        for label, s, f in product(("dfa", "sdil"), INITS, FEEDBACKS)
    ]
    last = at_horizon(gap_rows(frame(found), ("sdil", "dfa")))
    assert len(last) == 12
    row = last[last["init_seed"].eq(2) & last["feedback_seed"].eq(1)].iloc[0]
    expected = losses("sdil", 2, 64, 2, 1)[-1] - losses("dfa", 2, 64, 2, 1)[-1]
    assert row["gap"] == expected


def test_a_diverged_network_counts_with_its_substitute_from_there_on(frame, rows):
    lost = {
        "status": "diverged", "diverged_step": 15, "curve_step": [0, 10], "train_loss": None,
        "curve_train_loss": [7.0, 8.0],
    }  # fmt: skip
    changed = [
        row | lost if row["label"] == "fa" and row["width"] == 39 and row["init_seed"] == 0 else row
        for row in rows
    ]
    summary = summarise(gap_rows(frame(changed)))
    bp = losses("bp", 4, 39, 0, -1)
    for step, instead in ((10, 8.0), (20, 70.0), (50, 70.0)):
        by_hand = gaps(4, 39, step)
        by_hand[0] = instead - bp[STEPS.index(step)]
        row = cell(summary, "matched", 4, step)
        assert row["gap_mean"] == pytest.approx(by_hand.mean(), rel=1e-12)
        assert (row["lost"], row["reference_lost"], row["rows"]) == (4, 0, 12)


def test_where_every_network_diverged_the_gap_is_finite_and_all_are_counted(frame, rows):
    lost = {"status": "diverged", "diverged_step": 0, "curve_step": None, "curve_train_loss": None}
    changed = [row | lost | {"train_loss": None} if row["label"] == "fa" else row for row in rows]
    last = at_horizon(summarise(gap_rows(frame(changed))))
    assert last["lost"].eq(12).all()
    assert np.isfinite(last["gap_mean"]).all()
    assert last["gap_mean"].gt(60).all()


def test_pending_networks_have_no_rows(frame, rows, change):
    waiting = change.to(rows, change.pending, label="fa", init_seed=2)
    waiting = [
        row | {"parameter_count": 5376} if row["status"] == "pending" else row for row in waiting
    ]
    last = at_horizon(summarise(gap_rows(frame(waiting))))
    assert last["init_seeds"].eq(2).all()


def test_networks_whose_steps_are_unknown_have_no_rows(frame, rows):
    unknown = {"steps": None, "curve_step": None, "curve_train_loss": None}
    assert gap_rows(frame([row | unknown for row in rows])).empty


def test_one_init_seed_has_a_mean_and_a_word_in_place_of_an_error(frame, rows):
    found = gap_rows(frame([row for row in rows if row["init_seed"] == 0]))
    summary = summarise(found)
    assert summary["gap_mean"].notna().all()
    assert summary["gap_sem"].isna().all()
    assert summary["note"].eq(ALONE).all()
    assert trend(found)["note"].eq(ALONE).all()


def test_without_a_partner_everything_is_empty(frame, rows):
    alone = frame([row for row in rows if row["label"] == "fa"])
    for df in (alone, frame([])):
        found = gap_rows(df)
        assert found.empty
        assert summarise(found).empty
        assert trend(found).empty
    assert pairs(alone) == []


def test_a_study_without_matched_widths_has_a_contract_a_width(frame, make_rows):
    df = frame(make_rows(labels=["bp", "fa"], depths=[2, 4], widths=lambda depth: (128, 64)))
    summary = summarise(gap_rows(df))
    assert summary["contract"].unique().tolist() == ["width 64", "width 128"]
    assert summary["parameter_count_error"].isna().all()


def test_every_rule_is_compared_to_bp_or_else_to_the_first(frame, make_rows):
    labels = ["fa", "bp", "dfa"]
    assert pairs(frame(make_rows(labels=labels, depths=[2]))) == [("fa", "bp"), ("dfa", "bp")]
    assert pairs(frame(make_rows(labels=["dfa", "sdil"], depths=[2]))) == [("sdil", "dfa")]


def test_the_early_step_is_the_recorded_one_nearest_to_two_fifths():
    assert early_step(pd.Series([0, 10, 20, 30, 40, 50])) == 20
    assert early_step(pd.Series([0, 5, 90, 100])) == 5
    assert early_step(pd.Series([0, 50])) is None


def test_the_trend_is_the_mean_slope_over_doublings_of_depth_by_hand(frame, rows):
    found = trend(gap_rows(frame(rows))).set_index("contract").loc["matched"]
    table = np.array([gaps(depth, MATCHED[depth][0], 50).mean(axis=1) for depth in (1, 2, 4)])
    x = np.array([-1.0, 0.0, 1.0])  # log2 of the depths, less its mean
    slopes = x @ table / 2
    half = t.ppf(0.975, 2) * slopes.std(ddof=1) / np.sqrt(3)
    assert found["slope"] == pytest.approx(slopes.mean(), rel=1e-9)
    assert (found["low"], found["high"]) == pytest.approx(
        (slopes.mean() - half, slopes.mean() + half), rel=1e-9
    )
    assert (found["init_seeds"], found["depths"], found["step"]) == (3, 3, 50)
    assert "rough" in found["note"]


def test_a_seed_without_every_depth_is_left_out_of_the_trend(frame, rows):
    kept = [row for row in rows if not (row["init_seed"] == 1 and row["width"] == 39)]
    found = trend(gap_rows(frame(kept))).set_index("contract")
    assert found.loc["matched", "init_seeds"] == 2
    assert found.loc["width 64", "init_seeds"] == 3


def test_one_depth_has_no_trend(frame, rows):
    assert trend(gap_rows(frame([row for row in rows if row["depth"] == 2]))).empty


@pytest.mark.parametrize(("mean", "sd"), [(1.0, 0.1), (1.0, 1.0), (-0.1, 1.0), (0.01, 3.0)])
def test_the_seeds_needed_are_the_fewest_whose_interval_excludes_zero(mean, sd):
    def excludes(n):
        return t.ppf(0.975, n - 1) * sd / np.sqrt(n) < abs(mean)

    n = seeds_needed(mean, sd)
    assert excludes(n)
    assert n == 2 or not excludes(n - 1)


def test_no_trend_and_no_spread_need_no_number_of_seeds():
    assert seeds_needed(0.0, 1.0) is None
    assert seeds_needed(1.0, np.nan) is None
