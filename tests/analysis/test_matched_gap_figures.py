import json

import numpy as np
import pandas as pd
import pytest

from analysis import gap_over_training, gap_vs_depth
from analysis.figures import draw_frame
from analysis.gap_files import write_files
from analysis.matched_gap import at_horizon, gap_rows, summarise
from analysis.style import looks, style

WIDTHS = {1: 200, 2: 96, 4: 56}
TARGET = 13056  # of depth 2 and width 96, by the fixture's own count


@pytest.fixture
def matched(frame, make_rows):
    """Matched widths over three depths, and the width of the reference at all of them."""

    def made(labels=("bp", "fa", "dfa"), seeds=4):
        rows = make_rows(labels, WIDTHS, seeds, lambda depth: {WIDTHS[depth], 96})
        return frame([
            row | {"parameter_target": TARGET} if row["width"] == WIDTHS[row["depth"]] else row
            for row in rows if row["phase"] == "evaluate"
        ])  # fmt: skip

    return made


@pytest.fixture(params=[gap_vs_depth, gap_over_training], ids=["depth", "training"])
def either(request):
    return request.param


def drawn(module, df, **more):
    """The figure, laid out so that a warning of the layout is an error."""
    with style():
        plot = module.figure(df, looks(df["label"]), **more)
        if plot:
            plot.figure.draw_without_rendering()
    return plot


def marked(ax):
    return [line for line in ax.lines if line.get_marker() not in ("", "None", None, "_")]


def test_the_first_panel_has_the_horizon_solid_and_the_early_step_dotted(matched):
    df = matched(["bp", "fa"])
    summary = summarise(gap_rows(df))
    ax = drawn(gap_vs_depth, df).figure.axes[0]
    for dashes, step in (("-", 800), (":", 400)):
        [line] = [line for line in marked(ax) if line.get_linestyle() == dashes]
        cells = summary[summary["contract"].eq("matched") & summary["step"].eq(step)]
        assert line.get_ydata().tolist() == cells["gap_mean"].tolist()
        assert line.get_xdata() == pytest.approx([1, 2, 4], abs=0.4)


def test_error_bars_are_standard_errors_and_the_caption_says_so(matched):
    df = matched(["bp", "fa"])
    plot = drawn(gap_vs_depth, df)
    last = at_horizon(summarise(gap_rows(df)))
    expected = last.loc[last["contract"].eq("matched"), "gap_sem"] * 2
    bars = np.array(plot.figure.axes[0].collections[0].get_segments())
    assert bars[:, 1, 1] - bars[:, 0, 1] == pytest.approx(expected.tolist())
    caption = plot.figure.get_supxlabel().replace("\n", " ")
    assert "Mean ± standard error (bars) over 4 init seeds" in caption


def test_the_title_says_what_is_held_and_the_ticks_name_the_widths(matched):
    ax = drawn(gap_vs_depth, matched()).figure.axes[0]
    assert ax.get_title() == f"Same parameters: target P={TARGET:,}"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1\nw=200", "2\nw=96", "4\nw=56"]


def test_fixed_and_matched_width_are_on_the_same_axes(matched):
    df = matched(["bp", "fa"])
    fig = drawn(gap_vs_depth, df).figure
    last = at_horizon(summarise(gap_rows(df)))
    for dashes, contract in (("-", "matched"), ("--", "width 96")):
        [line] = [line for line in marked(fig.axes[1]) if line.get_linestyle() == dashes]
        means = last.loc[last["contract"].eq(contract), "gap_mean"]
        assert line.get_ydata().tolist() == means.tolist()
    assert "width 96" in [text.get_text() for text in fig.legends[0].get_texts()]


def test_a_study_without_matched_widths_has_a_panel_a_width_and_no_comparison(frame, make_rows):
    df = frame(make_rows(["bp", "fa"], [2, 4], 3, lambda depth: (64, 128)))
    plot = drawn(gap_vs_depth, df)
    assert [ax.get_title() for ax in plot.figure.axes] == ["Same width: 64", "Same width: 128"]
    assert plot.data["contract"].unique().tolist() == ["width 64", "width 128"]
    assert "not the same number of parameters" in plot.figure.get_supxlabel().replace("\n", " ")


def test_over_training_there_is_a_line_a_depth_through_every_recorded_step(matched):
    df = matched(["bp", "fa"])
    fig = drawn(gap_over_training, df).figure
    summary = summarise(gap_rows(df))
    shown = summary[summary["contract"].eq("matched")]
    for ax, name, first in ((fig.axes[0], "gap", 0), (fig.axes[1], "gap_fraction", 100)):
        lines = marked(ax)
        assert [line.get_label() for line in lines] == ["depth 1", "depth 2", "depth 4"]
        cells = shown[shown["depth"].eq(4) & shown["step"].ge(first)]
        assert lines[2].get_xdata().tolist() == cells["step"].tolist()
        assert lines[2].get_ydata() == pytest.approx(cells[f"{name}_mean"].tolist())


def test_several_rules_have_a_panel_each_over_training(matched):
    fig = drawn(gap_over_training, matched()).figure
    assert [ax.get_title() for ax in fig.axes] == ["fa − bp", "dfa − bp", "", ""]


@pytest.mark.parametrize("metric", ["test_accuracy", "test_loss"])
def test_any_measured_metric_can_be_drawn(either, matched, metric):
    assert drawn(either, matched(), metric=metric).data["metric"].eq(metric).all()


def test_one_init_seed_is_drawn_without_errors_and_says_so(either, matched):
    fig = drawn(either, matched(seeds=1)).figure
    assert "no standard error" in fig.get_supxlabel().replace("\n", " ")
    lines = [line for ax in fig.axes for line in ax.lines]
    assert all(np.isfinite(np.asarray(line.get_ydata(), dtype=float)).all() for line in lines)


def test_diverged_networks_are_drawn_and_counted(either, frame, make_rows, change):
    rows = make_rows(["bp", "fa"], [2, 4], 3)
    fig = drawn(either, frame(change.to(rows, change.diverged, label="fa"))).figure
    assert "6 of 12 diverged (fa 6)" in fig.get_supxlabel().replace("\n", " ")


def test_where_nothing_pairs_there_is_no_figure(either, frame, make_rows, change):
    for rows in (
        make_rows(["bp"], [2]),
        [change.pending(row) for row in make_rows(["bp", "fa"], [2])],
    ):
        assert drawn(either, frame(rows)) is None


def test_many_depths_have_their_widths_in_the_caption_only(frame, make_rows):
    rows = make_rows(["bp", "fa"], range(1, 15), 2, lambda depth: (200 - depth,))
    df = frame([row | {"parameter_target": TARGET} for row in rows if row["phase"] == "evaluate"])
    fig = drawn(gap_vs_depth, df).figure
    assert not any("w=" in text.get_text() for text in fig.axes[0].get_xticklabels())
    assert "Widths 199 198 197" in fig.get_supxlabel().replace("\n", " ")


def test_the_files_are_those_of_the_script_with_its_columns(tmp_path, matched):
    df = matched(["bp", "fa"])
    written = write_files(df, tmp_path)
    assert [path.name for path in written] == [
        "parameter_matched_rows.csv", "parameter_matched_metrics.csv",
        "parameter_matched_summary.csv", "parameter_matched_gap_by_depth.png", "summary.json",
    ]  # fmt: skip
    assert set(written) == set(tmp_path.iterdir())
    table = pd.read_csv(tmp_path / "parameter_matched_summary.csv")
    assert table.columns.tolist() == [
        "depth", "width", "parameter_count", "parameter_count_error", "rows", "empirical_gap_mean",
        "empirical_gap_sem",
    ]  # fmt: skip
    assert table["parameter_count_error"].tolist() == [200 * 40 - TARGET, 0, -1408]
    rows = pd.read_csv(tmp_path / "parameter_matched_rows.csv")
    assert len(rows) == 12
    means = rows.groupby("depth")["empirical_gap"].mean()
    assert means.tolist() == pytest.approx(table["empirical_gap_mean"].tolist())
    assert rows["horizon"].eq(800).all()
    assert rows["early_step"].eq(400).all()


def test_the_json_has_the_settings_the_widths_and_the_summary(tmp_path, matched):
    write_files(matched(["bp", "fa"]), tmp_path)
    found = json.loads((tmp_path / "summary.json").read_text())
    assert list(found) == ["config", "target_parameter_count", "widths", "rows", "summary"]
    assert found["target_parameter_count"] == TARGET
    assert found["widths"] == {"1": 200, "2": 96, "4": 56}
    assert found["rows"] == 12
    assert found["config"]["lr"] == {"fa": 0.01, "bp": 0.01}
    assert (found["config"]["horizon"], found["config"]["early_step"]) == (800, 400)
    assert [row["depth"] for row in found["summary"]] == [1, 2, 4]


def test_rates_that_differ_by_depth_are_listed_by_depth(tmp_path, matched):
    df = matched(["bp", "fa"])
    write_files(df.assign(lr=df["lr"].mask(df["depth"].eq(4), 0.5)), tmp_path)
    config = json.loads((tmp_path / "summary.json").read_text())["config"]
    assert config["lr"]["fa"] == {"1": 0.01, "2": 0.01, "4": 0.5}


def test_one_init_seed_leaves_the_error_empty_in_every_file(tmp_path, matched):
    write_files(matched(["bp", "fa"], seeds=1), tmp_path)
    assert "NaN" not in (tmp_path / "summary.json").read_text()
    table = pd.read_csv(tmp_path / "parameter_matched_summary.csv")
    assert table["empirical_gap_sem"].isna().all()
    assert table["empirical_gap_mean"].notna().all()


def test_several_pairs_have_a_set_of_files_each(tmp_path, matched):
    names = {path.name for path in write_files(matched(), tmp_path)}
    assert {"summary-fa.json", "summary-dfa.json", "parameter_matched_rows-dfa.csv"} <= names
    assert len(names) == 10


def test_a_study_without_matched_widths_writes_no_such_files(tmp_path, frame, make_rows):
    assert write_files(frame(make_rows(["bp", "fa"], [2])), tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_all_figures_of_a_study_come_with_the_files(tmp_path, frame, make_rows):
    rows = make_rows(["bp", "fa"], [2], 2, lambda depth: (96,))
    df = frame([row | {"parameter_target": TARGET} for row in rows if row["phase"] == "evaluate"])
    names = {path.name for path in draw_frame(df, tmp_path)}
    assert {"gap_vs_depth.png", "gap_over_training.png", "parameter_matched_rows.csv"} <= names
