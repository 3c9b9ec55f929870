import json

import numpy as np
import pytest

from analysis.lr_sensitivity import edges, figure, summarise
from analysis.style import looks, style


def drawn(df):
    with style():
        return figure(df, looks(df["label"])).figure


def marks(ax, marker):
    return [line for line in ax.lines if line.get_marker() == marker and len(line.get_xdata())]


def legend(fig):
    return [text.get_text() for text in fig.legends[0].get_texts()]


@pytest.fixture
def at_edge(frame, make_rows, change):
    """A study whose deepest cell of fa chose the highest rate."""
    edge = {"lr": 1.0, "hyperparameters": '{"lr": 1.0}'}
    rows = make_rows(labels=["bp", "fa"], depths=[2, 3])
    return frame(change.to(rows, lambda row: row | edge, phase="evaluate", label="fa", depth=3))


def test_a_summary_has_the_mean_score_of_every_tried_rate(study):
    summary = summarise(study)
    assert len(summary) == 4 * 6 * 5
    rows = study[study["phase"].eq("tune") & study["label"].eq("fa") & study["depth"].eq(2)]
    point = summary[summary["label"].eq("fa") & summary["depth"].eq(2)].set_index("lr").loc[0.01]
    assert point["mean"] == rows.loc[rows["lr"].eq(0.01), "validation_loss"].mean()
    assert (point["n"], point["chosen"], point["searched"]) == (3, True, 1)


def test_lost_networks_count_with_ten_times_the_first_loss(study):
    deep = summarise(study).query("depth == 4 and lr == 1.0")
    assert deep["diverged"].eq(3).all()
    assert deep["mean"].eq(24).all()


def test_the_score_is_the_one_that_the_study_chooses_by(study):
    summary = summarise(study.assign(choose="validation_accuracy"))
    assert summary["metric"].eq("validation_accuracy").all()
    assert summary["mean"].max() < 1


def test_rates_at_which_networks_diverged_are_crosses_at_the_top_not_on_the_line(study):
    fig = drawn(study)
    deep = next(ax for ax in fig.axes if ax.get_title() == "depth 4")
    assert [line.get_xdata().tolist() for line in marks(deep, "x")] == [[1.0]] * 4
    assert all(line.get_ydata()[0] > 0.5 for line in marks(deep, "x"))
    line = next(line for line in deep.lines if line.get_label() == "fa")
    assert line.get_xdata().tolist() == [1e-4, 1e-3, 1e-2, 1e-1]
    assert "diverged" in legend(fig)


def test_a_ring_marks_the_chosen_rate(study):
    ring = [line for line in drawn(study).axes[0].lines if line.get_markersize() == 6.5]
    assert [line.get_xdata().tolist() for line in ring] == [[0.01]] * 4


def test_a_chosen_rate_at_the_edge_has_a_square_and_a_legend_entry(at_edge, study):
    fig = drawn(at_edge)
    squares = [line for line in fig.axes[1].lines if line.get_markersize() == 7]
    assert [line.get_xdata().tolist() for line in squares] == [[], [1.0]]
    assert "chosen at edge" in legend(fig)
    assert "chosen at edge" not in legend(drawn(study))


def test_edges_lists_every_chosen_rate_with_its_range(at_edge):
    found = edges(at_edge).set_index(["label", "depth"])
    assert found["at_edge"].to_dict() == {
        ("bp", 2): False, ("bp", 3): False, ("fa", 2): False, ("fa", 3): True
    }  # fmt: skip
    assert found.loc[("fa", 3), ["lr", "lr_low", "lr_high"]].tolist() == [1.0, 1e-4, 1.0]


def test_points_that_differ_in_more_than_the_rate_are_not_joined(frame, make_rows):
    def with_second_value(row):
        values = {"lr": row["lr"], "eta_A": 0.1 * (1 + row.get("point", 0) % 2)}
        return row | {"hyperparameters": json.dumps(values)}

    rows = [with_second_value(row) for row in make_rows(labels=["sdil"], depths=[2])]
    line = next(line for line in drawn(frame(rows)).axes[0].lines if line.get_label() == "sdil")
    assert line.get_linestyle() == "None"


def test_a_loss_above_that_of_the_start_does_not_set_the_scale(frame, make_rows, change):
    rows = change.to(
        make_rows(labels=["fa"], depths=[2]), lambda row: row | {"validation_loss": 500.0}, lr=1e-4
    )
    fig = drawn(frame(rows))
    assert fig.axes[0].get_ylim()[1] < 5
    assert "1 of 5 points lies above the panels." in fig.get_supxlabel().replace("\n", " ")
    fig = drawn(frame(make_rows(labels=["fa"], depths=[2])))
    assert "above" not in fig.get_supxlabel()


def test_losses_that_span_decades_are_drawn_on_a_log_axis(frame, make_rows, change):
    rows = change.to(
        make_rows(labels=["fa"], depths=[2]), lambda row: row | {"validation_loss": 0.001}, lr=0.01
    )
    ax = drawn(frame(rows)).axes[0]
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[0] < 0.001


def test_where_every_rate_diverged_the_crosses_remain(frame, make_rows, change):
    rows = change.to(make_rows(labels=["fa"], depths=[2]), change.diverged, label="fa")
    assert np.concatenate(
        [line.get_xdata() for line in marks(drawn(frame(rows)).axes[0], "x")]
    ).size


def test_a_study_with_a_fixed_rate_has_no_such_figure(study):
    fixed = study[study["phase"].eq("evaluate")].assign(lr_low=np.nan, lr_high=np.nan)
    assert figure(fixed, looks(fixed["label"])) is None
    assert edges(fixed).empty


def test_three_depths_have_panels_as_high_as_their_label_is_long(frame, make_rows):
    fig = drawn(frame(make_rows(depths=[2, 4, 6])))
    fig.draw_without_rendering()
    axis = fig.axes[0]
    assert axis.yaxis.label.get_window_extent().height < axis.get_window_extent().height
