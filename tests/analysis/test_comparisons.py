import numpy as np
import pytest
from scipy import stats as scipy_stats

from analysis import stats
from analysis.comparisons import claims, comparisons, figure, pairs_of, trend
from analysis.study_file import declared
from analysis.style import looks, style

COMPARE = {"metric": "test_accuracy", "pairs": [["sdil", "dfa"], ["fa", "bp"]]}
EDGE = {"lr": 1.0, "hyperparameters": '{"lr": 1.0}'}


def by_seed(df, metric, label, depth):
    rows = df[df["phase"].eq("evaluate") & df["label"].eq(label) & df["depth"].eq(depth)]
    return rows.set_index("init_seed")[metric].sort_index()


def claimed(df, compare=COMPARE):
    return claims(comparisons(df, compare)).set_index(["label", "reference", "depth"])


def drawn(df, compare=COMPARE):
    with style():
        plot = figure(df, looks(df["label"]), family=comparisons(df, compare))
        if plot:
            plot.figure.draw_without_rendering()
    return plot


def test_the_declared_pairs_are_compared_at_every_depth_in_their_order(study):
    table = comparisons(study, COMPARE)
    assert table["label"].tolist() == ["sdil"] * 6 + ["fa"] * 6
    assert table["depth"].tolist() == [1, 2, 4, 6, 8, 10] * 2
    assert table["metric"].eq("test_accuracy").all()


def test_a_difference_is_paired_by_init_seed_with_a_t_interval_and_an_exact_p(study):
    row = claimed(study).loc[("sdil", "dfa", 4)]
    a, b = (by_seed(study, "test_accuracy", label, 4) for label in ("sdil", "dfa"))
    expected = scipy_stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(
        ((a - b).mean(), expected.low, expected.high)
    )
    assert (row["n"], row["p"], row["method"]) == (5, 2 / 2**5, "t")


def test_holms_family_is_all_pairs_over_all_cells(frame, make_rows):
    df = frame(make_rows(seeds=8, depths=[1, 2, 4]))
    table = comparisons(df, COMPARE)
    assert len(table) == 6
    assert table["p_holm"].tolist() == pytest.approx(stats.holm(table["p"]).tolist())
    assert table["p_holm"].min() == pytest.approx(6 * 2 / 2**8)


def test_of_nothing_declared_every_rule_is_compared_with_backprop_by_test_loss(study):
    for compare in (None, {}, {"metric": None, "pairs": []}):
        table = comparisons(study, compare)
        pairs = dict.fromkeys(zip(table["label"], table["reference"], strict=True))
        assert list(pairs) == [("fa", "bp"), ("dfa", "bp"), ("sdil", "bp")]
        assert table["metric"].eq("test_loss").all()


def test_backprop_is_known_by_its_rule_not_by_its_label(study):
    df = study.assign(label=study["label"].replace({"bp": "exact"}))
    assert pairs_of(df)[0] == ("fa", "exact")


def test_the_block_is_read_from_the_runs_study(tmp_path):
    assert declared(tmp_path) == {}
    (tmp_path / "study.yaml").write_text(
        "name: a\ncompare:\n  metric: test_loss\n  pairs:\n  - - fa\n    - bp\n"
    )
    assert declared(tmp_path) == {"metric": "test_loss", "pairs": [["fa", "bp"]]}


def test_pairs_of_rules_that_have_no_place_in_common_have_no_row(frame, make_rows):
    rows = make_rows(labels=["bp"], depths=[2]) + make_rows(labels=["fa"], depths=[4])
    assert comparisons(frame(rows)).empty
    assert comparisons(frame(make_rows(labels=["bp"], depths=[2])), COMPARE).empty
    assert comparisons(frame([]), COMPARE).empty
    assert claims(comparisons(frame([]), COMPARE))["claimed"].tolist() == []


def test_data_without_the_metric_are_compared_by_what_they_have(frame, make_rows):
    rows = make_rows(labels=["bp", "fa"], depths=[2])
    regression = [row | {"test_accuracy": None} for row in rows]
    assert comparisons(frame(regression), COMPARE)["metric"].tolist() == ["test_loss"]
    losses = dict.fromkeys(["test_loss", "validation_loss", "train_loss"])
    bare = [row | losses for row in rows]
    assert comparisons(frame(bare))["metric"].tolist() == ["test_accuracy"]


@pytest.mark.parametrize("metric", ["alignment", "early_third_alignment"])
def test_a_list_is_compared_by_its_early_third(study, metric):
    row = claimed(study, {"metric": metric, "pairs": [["sdil", "dfa"]]}).loc[("sdil", "dfa", 6)]
    lists = [by_seed(study, "alignment", label, 6).tolist() for label in ("sdil", "dfa")]
    early = [np.array(values)[:, :2].mean() for values in lists]
    assert row["mean"] == pytest.approx(early[0] - early[1])
    assert row["metric"] == "early_third_alignment"


@pytest.mark.parametrize("metric", ["accuracy", "status", "early_third_foo"])
def test_a_metric_that_is_no_number_is_refused_by_name(study, metric):
    with pytest.raises(ValueError, match=f"metric '{metric}' is no column of numbers"):
        comparisons(study, {"metric": metric})


def test_an_effect_is_claimed_where_its_interval_excludes_zero(study):
    row = claimed(study).loc[("fa", "bp", 10)]
    assert row["claimed"]
    assert row["reason"] == "interval excludes 0"


def test_an_interval_around_zero_is_no_effect(study):
    noise = 0.5 + 0.1 * (study["init_seed"] % 2).astype(float)
    accuracy = study["test_accuracy"].mask(study["label"].eq("fa"), noise)
    accuracy = accuracy.mask(study["label"].eq("bp"), 0.54)
    row = claimed(study.assign(test_accuracy=accuracy)).loc[("fa", "bp", 10)]
    assert (row["claimed"], row["reason"]) == (False, "interval includes 0")


def test_one_seed_claims_nothing(frame, make_rows):
    row = claimed(frame(make_rows(depths=[2], seeds=1))).loc[("fa", "bp", 2)]
    assert (row["claimed"], row["reason"]) == (False, "no interval: one seed")


@pytest.mark.parametrize("label", ["fa", "bp"])
def test_a_rate_at_the_edge_of_either_cell_forbids_a_claim(frame, make_rows, change, label):
    rows = change.to(
        make_rows(depths=[2, 3]), lambda row: row | EDGE, label=label, phase="evaluate", depth=3
    )
    table = claimed(frame(rows))
    assert table.loc[("fa", "bp", 2), "claimed"]
    assert not table.loc[("fa", "bp", 3), "claimed"]
    assert table.loc[("fa", "bp", 3), "reason"] == f"rate of {label} at edge of range"
    assert table.loc[("sdil", "dfa", 3), "claimed"]


def test_unequal_losses_of_networks_forbid_a_claim_and_equal_ones_do_not(frame, make_rows, change):
    rows = make_rows(depths=[2])
    one = change.to(rows, change.diverged, label="fa", phase="evaluate", init_seed=0)
    reason = claimed(frame(one)).loc[("fa", "bp", 2), "reason"]
    assert reason.endswith("1 against 0 diverged")
    both = change.to(one, change.diverged, label="bp", phase="evaluate", init_seed=1)
    assert "diverged" not in claimed(frame(both)).loc[("fa", "bp", 2), "reason"]
    failed = change.to(rows, change.failed, label="bp", phase="evaluate", init_seed=0)
    assert "0 against 1 failed" in claimed(frame(failed)).loc[("fa", "bp", 2), "reason"]


def test_a_figure_has_a_line_a_pair_around_a_line_at_zero(study):
    plot = drawn(study)
    [ax] = plot.figure.axes
    table = comparisons(study, COMPARE)
    for name, label in (("sdil − dfa", "sdil"), ("fa − bp", "fa")):
        line = next(line for line in ax.lines if line.get_label() == name)
        assert line.get_ydata().tolist() == table[table["label"].eq(label)]["mean"].tolist()
        assert line.get_color() == looks([label])[label].color
    assert any(list(line.get_ydata()) == [0, 0] for line in ax.lines)
    dots = [line for line in ax.lines if line.get_marker() == "."]
    assert sum(len(line.get_ydata()) for line in dots) == 2 * 6 * 5
    assert ax.get_ylabel() == "test accuracy difference"


def test_pairs_with_the_same_rule_differ_in_their_marks(study):
    pairs = [["sdil", "bp"], ["sdil", "dfa"], ["sdil", "fa"]]
    handles = drawn(study, {"pairs": pairs}).figure.legends[0].legend_handles
    styles = {(handle.get_color(), handle.get_marker()) for handle in handles}
    assert len(styles) == 3
    assert len({color for color, _ in styles}) == 1


def test_what_may_not_be_claimed_is_hollow(frame, make_rows, change):
    rows = make_rows(depths=[2, 3])
    rows = change.to(rows, lambda row: row | EDGE, label="bp", phase="evaluate", depth=3)
    plot = drawn(frame(rows))
    [ax] = plot.figure.axes
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert sorted(len(line.get_ydata()) for line in hollow) == [0, 1]
    assert "not claimed" in [text.get_text() for text in plot.figure.legends[0].get_texts()]
    whole = drawn(frame(make_rows(depths=[2, 3])))
    captions = [found.figure.get_supxlabel().replace("\n", " ") for found in (plot, whole)]
    assert "Filled: claimed: interval excludes 0" in captions[0]
    assert "All claimed: interval excludes 0" in captions[1]


def test_a_figure_of_a_part_tells_of_the_whole_family(frame, make_rows):
    rows = make_rows(labels=["bp", "fa"], depths=[2])
    df = frame(rows + [row | {"residual": True} for row in rows])
    with style():
        plot = figure(df[df["residual"]], looks(df["label"]), family=comparisons(df))
    assert len(plot.data) == 1
    assert "0 of 2 comparisons" in plot.figure.get_supxlabel().replace("\n", " ")


def test_each_width_has_a_panel(frame, make_rows):
    df = frame(make_rows(labels=["bp", "fa"], depths=[2, 4], widths=lambda depth: (64, 128)))
    fig = drawn(df, None).figure
    assert [ax.get_title() for ax in fig.axes] == ["width 64", "width 128"]


def test_nothing_to_compare_has_no_figure(frame, make_rows):
    assert drawn(frame(make_rows(labels=["bp"], depths=[2])), None) is None


def test_a_trend_is_the_slope_of_each_seeds_differences_on_log_depth(study):
    row = trend(study, ("sdil", "dfa"), "test_accuracy").iloc[0]
    depths = [1, 2, 4, 6, 8, 10]
    a, b = (
        np.array([by_seed(study, "test_accuracy", label, depth) for depth in depths])
        for label in ("sdil", "dfa")
    )
    slopes = [scipy_stats.linregress(np.log2(depths), d).slope for d in (a - b).T]
    expected = scipy_stats.ttest_1samp(slopes, 0).confidence_interval()
    assert (row["slope"], row["low"], row["high"]) == pytest.approx(
        (np.mean(slopes), expected.low, expected.high)
    )
    assert (row["n"], row["depths"], row["p"]) == (5, 6, 2 / 2**5)


def test_a_seed_without_a_depth_has_no_slope(frame, make_rows, change):
    rows = change.to(
        make_rows(labels=["bp", "fa"], depths=[1, 2, 4]),
        change.pending,
        label="fa",
        phase="evaluate",
        depth=4,
        init_seed=3,
    )
    rows = [row for row in rows if row["status"] != "pending"]
    assert trend(frame(rows), ("fa", "bp"), "test_accuracy")["n"].tolist() == [4]


def test_two_depths_are_no_trend(frame, make_rows):
    df = frame(make_rows(labels=["bp", "fa"], depths=[2, 4]))
    assert trend(df, ("fa", "bp")).empty
    assert trend(df, ("fa", "missing")).empty


def test_each_line_over_depth_has_its_trend(frame, make_rows):
    df = frame(make_rows(labels=["bp", "fa"], depths=[1, 2, 4], widths=lambda depth: (8, 16)))
    assert sorted(trend(df, ("fa", "bp"), "test_accuracy")["widths"]) == ["16", "8"]


@pytest.mark.parametrize("fate", ["diverged", "failed"])
def test_lost_networks_are_drawn_and_counted(frame, make_rows, change, fate):
    rows = make_rows(labels=["bp", "$x_1$"], depths=[2])
    rows = change.to(rows, getattr(change, fate), label="$x_1$")
    told = drawn(frame(rows), None).figure.get_supxlabel().replace("\n", " ")
    assert f"5 of 10 {fate} ($x_1$ 5)" in told
