import numpy as np
import pandas as pd
import pytest

from analysis import stats
from analysis.accuracy_vs_depth import as_text, draw, figure, summarise, summary_table
from analysis.figure import sheet
from analysis.style import looks, style


def lines_of(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def drawn(df):
    with style():
        _, [[ax]] = sheet(1)
        draw(summarise(df), df, ax)
    return ax


def test_a_summary_has_a_row_a_rule_and_depth_in_the_studys_order(study):
    summary = summarise(study)
    assert summary["label"].unique().tolist() == ["bp", "fa", "dfa", "sdil"]
    assert summary["depth"].tolist() == [1, 2, 4, 6, 8, 10] * 4
    assert summary["n"].eq(5).all()


def test_means_are_those_of_the_evaluation_rows(study):
    rows = study[study["phase"].eq("evaluate") & study["label"].eq("fa") & study["depth"].eq(4)]
    row = summarise(study).set_index(["label", "depth"]).loc[("fa", 4)]
    expected = stats.mean_interval(rows["test_accuracy"])
    assert (row["mean"], row["low"], row["high"]) == (expected.mean, expected.low, expected.high)
    assert row["lr"] == 0.01


def test_a_diverged_network_stays_in_the_mean_at_chance(frame, make_rows, change):
    rows = make_rows(labels=["fa"], depths=[2])
    before = summarise(frame(rows)).iloc[0]
    lost = summarise(frame(change.to(rows, change.diverged, init_seed=0))).iloc[0]
    assert (lost["n"], lost["diverged"]) == (5, 1)
    assert lost["mean"] < before["mean"] - 0.1


def test_a_cell_that_is_all_pending_has_a_row_and_no_mean(frame, make_rows, change):
    df = frame(change.to(make_rows(depths=[2, 4]), change.pending, phase="evaluate", depth=4))
    row = summarise(df).set_index(["label", "depth"]).loc[("fa", 4)]
    assert (row["n"], row["pending"], row["networks"]) == (0, 5, 5)
    assert np.isnan(row["mean"])


def test_data_without_classes_are_summarised_by_their_loss(frame, make_rows):
    rows = [row | {"test_accuracy": None} for row in make_rows(depths=[2])]
    df = frame(rows)
    assert summarise(df)["metric"].eq("test_loss").all()
    assert drawn(df).get_ylabel() == "test loss"


def test_a_rate_at_the_edge_is_flagged_and_drawn_hollow(frame, make_rows, change):
    edge = {"lr": 1.0, "hyperparameters": '{"lr": 1.0}'}
    rows = change.to(
        make_rows(labels=["fa"], depths=[2, 4]), lambda row: row | edge, phase="evaluate", depth=4
    )
    df = frame(rows)
    assert summarise(df)["at_edge"].tolist() == [False, True]
    hollow = [line for line in drawn(df).lines if line.get_markerfacecolor() == "white"]
    assert hollow[0].get_ydata().tolist() == summarise(df)["mean"].tolist()[1:]
    with style():
        legend = figure(df, looks(df["label"])).figure.legends[0]
    assert "rate at edge of range" in [text.get_text() for text in legend.get_texts()]


def test_the_line_of_a_rule_goes_through_its_means_near_their_depths(study):
    line = lines_of(drawn(study), "dfa")
    summary = summarise(study)
    assert line.get_ydata().tolist() == summary.loc[summary["label"].eq("dfa"), "mean"].tolist()
    assert line.get_xdata() == pytest.approx([1, 2, 4, 6, 8, 10], abs=0.4)
    assert line.get_color() == looks(["dfa"])["dfa"].color


def test_every_seed_has_a_dot(study):
    dots = [line for line in drawn(study).lines if line.get_marker() == "."]
    assert sum(len(line.get_ydata()) for line in dots) == 4 * 6 * 5


def test_intervals_are_drawn_where_there_are_any(frame, make_rows):
    for seeds, expected in ((1, 0), (5, 6)):
        ax = drawn(frame(make_rows(labels=["fa"], seeds=seeds)))
        segments = [segment for each in ax.collections for segment in each.get_segments()]
        assert len(segments) == expected
        assert np.isfinite(np.array(segments)).all()


def test_each_of_several_widths_has_a_panel_in_order_of_size(frame, make_rows):
    df = frame(make_rows(labels=["bp", "fa"], depths=[2, 4], widths=lambda depth: (64, 128)))
    with style():
        plot = figure(df, looks(df["label"]))
    assert [ax.get_title() for ax in plot.figure.axes] == ["width 64", "width 128"]


def test_matched_widths_are_one_line_over_depth(frame, make_rows):
    df = frame(make_rows(labels=["bp"], depths=[2, 4], widths=lambda depth: (256 // depth,)))
    assert summarise(df)["widths"].eq("by depth").all()
    assert len(lines_of(drawn(df), "bp").get_xdata()) == 2


def test_the_gap_is_paired_with_the_reference(study):
    row = summary_table(study).set_index(["label", "depth"]).loc[("fa", 4)]
    wide = study[study["phase"].eq("evaluate") & study["depth"].eq(4)].pivot_table(
        index="init_seed", columns="label", values="test_accuracy"
    )
    expected = stats.paired_difference(wide["fa"], wide["bp"])
    assert row["gap"] == pytest.approx(expected.mean)
    assert (row["gap_low"], row["gap_high"]) == pytest.approx((expected.low, expected.high))
    assert row["gap_p"] == 0.0625


def test_holms_family_is_the_whole_table(study):
    table = summary_table(study)
    known = table["gap_p"].notna()
    assert known.sum() == 18
    assert table.loc[known, "gap_p_holm"].tolist() == stats.holm(table.loc[known, "gap_p"]).tolist()


def test_without_the_reference_there_are_means_and_no_gaps(frame, make_rows):
    table = summary_table(frame(make_rows(labels=["fa", "dfa"], depths=[2])))
    assert table["mean"].notna().all()
    assert table["gap"].isna().all()
    assert as_text(table)["rule"].tolist() == ["fa", "dfa"]


def test_the_printed_table_has_rules_in_rows_and_depths_in_columns(study):
    text = as_text(summary_table(study))
    assert text.columns.tolist() == ["rule", "1", "2", "4", "6", "8", "10"]
    assert text["rule"].tolist() == ["bp", "fa", "  - bp", "dfa", "  - bp", "sdil", "  - bp"]
    assert text["4"].str.fullmatch(r"(\.\d{3} \[\.\d{3}, \.\d{3}\] n=5)|(-\.\d{3} \[.*\])").all()


def test_the_printed_table_names_what_is_lost_pending_or_missing(frame, make_rows, change):
    rows = make_rows(labels=["bp", "fa"], depths=[2, 4])
    rows = [row for row in rows if (row["label"], row["depth"]) != ("bp", 4)]
    rows = change.to(rows, change.diverged, label="fa", depth=2, init_seed=1)
    rows = change.to(rows, change.pending, label="fa", phase="evaluate", depth=4)
    text = as_text(summary_table(frame(rows))).set_index("rule")
    assert text.loc["bp", "4"] == ""
    assert text.loc["fa", "4"] == "pending"
    assert text.loc["fa", "2"].endswith("n=5 1 diverged")


def test_what_is_swept_besides_depth_leads_the_printed_table(frame, make_rows):
    rows = make_rows(labels=["bp"], depths=[2])
    text = as_text(summary_table(frame(rows + [row | {"residual": True} for row in rows])))
    assert text.columns.tolist() == ["residual", "rule", "2"]
    assert text["residual"].tolist() == ["False", "True"]


def test_an_empty_table_gives_an_empty_summary_and_text(frame):
    assert summarise(frame([])).empty
    text = as_text(summary_table(frame([])))
    assert isinstance(text, pd.DataFrame)
    assert text.empty
