import numpy as np
import pytest

from analysis.depth_utility import draw, early_third, figure, profile, summarise
from analysis.figure import sheet
from analysis.style import looks, style


@pytest.mark.parametrize(
    ("alignment", "expected"),
    [
        ([0.5], 0.5),
        ([0.1, 0.9], 0.1),
        ([0.1, 0.3, 0.9, 0.9, 0.9, 0.9], 0.2),
        ([0.1, np.nan, 0.9, 0.9, 0.9, 0.9], 0.1),
        ([np.nan, 0.5, 0.5], np.nan),
        (None, np.nan),
        ([], np.nan),
    ],
)
def test_the_early_third_is_at_least_one_layer_and_leaves_silent_ones_out(alignment, expected):
    assert early_third(alignment) == pytest.approx(expected, nan_ok=True)


def drawn(df):
    with style():
        _, [[ax]] = sheet(1)
        draw(summarise(df), df, ax)
    return ax


def labels(ax):
    return {line.get_label() for line in ax.lines if not line.get_label().startswith("_")}


def test_a_summary_has_the_early_third_and_layer_one(study):
    row = summarise(study).set_index(["label", "depth"]).loc[("dfa", 10)]
    rows = study[study["phase"].eq("evaluate") & study["label"].eq("dfa") & study["depth"].eq(10)]
    values = np.array(rows["alignment"].tolist())
    assert row["mean"] == pytest.approx(values[:, :3].mean())
    assert row["layer_1_mean"] == pytest.approx(values[:, 0].mean())
    assert row["low"] < row["mean"] < row["high"]
    assert (row["n"], row["layer_1_n"]) == (5, 5)


def test_a_profile_has_a_row_a_layer(study):
    means = profile(study).set_index(["label", "depth"]).loc[("dfa", 6)]
    assert means["layer"].tolist() == [1, 2, 3, 4, 5, 6]
    assert means["mean"].is_monotonic_increasing


def test_silent_layers_are_left_out_and_counted(frame, make_rows, change):
    rows = change.to(
        make_rows(labels=["fa"], depths=[4]),
        lambda row: row | {"alignment": [None, *row["alignment"][1:]]},
        init_seed=0,
    )
    row = summarise(frame(rows)).iloc[0]
    assert (row["n"], row["layer_1_n"], row["silent"]) == (4, 4, 1)
    assert profile(frame(rows))["n"].tolist() == [4, 5, 5, 5]


def test_backprop_is_a_reference_line_at_one(study):
    ax = drawn(study)
    line = next(line for line in ax.lines if line.get_label() == "bp")
    assert list(line.get_ydata()) == [1, 1]
    assert ax.get_ylim() == (0, 1.05)


def test_the_axis_goes_below_zero_as_far_as_the_data_do(frame, make_rows):
    rows = make_rows(labels=["fa"], depths=[2, 4])
    rows = [row | {"alignment": [-0.4] * row["depth"]} for row in rows]
    assert drawn(frame(rows)).get_ylim()[0] < -0.4


def test_a_rule_without_signal_is_not_drawn_but_named(frame, make_rows, change):
    rows = change.to(
        make_rows(labels=["bp", "fa", "shallow"], depths=[2, 4]),
        lambda row: row | {"alignment": [None] * row["depth"]},
        label="shallow",
    )
    df = frame(rows)
    assert labels(drawn(df)) == {"bp", "fa"}
    with style():
        plot = figure(df, looks(df["label"]))
    assert "No signal: shallow." in plot.figure.get_supxlabel().replace("\n", " ")
    assert plot.data.loc[plot.data["label"].eq("shallow"), "n"].eq(0).all()


def test_there_is_a_panel_a_depth_below_the_first(study):
    with style():
        plot = figure(study, looks(study["label"]))
    titles = [ax.get_title() for ax in plot.figure.axes]
    assert titles == ["", *[f"depth {depth}" for depth in (1, 2, 4, 6, 8, 10)]]
    assert set(plot.data["layer"]) == {"early third", *[str(l) for l in range(1, 11)]}


def test_backprop_alone_has_no_figure(frame, make_rows):
    df = frame(make_rows(labels=["bp"], depths=[2]))
    assert figure(df, looks(df["label"])) is None


def chances(df, label, depth):
    rows = df[df["phase"].eq("evaluate") & df["label"].eq(label) & df["depth"].eq(depth)]
    return np.array(rows["alignment_chance"].tolist())


def test_the_chance_of_a_layer_is_the_band_of_its_networks_root_mean_square(
    frame, make_rows, probed
):
    rows = [probed(row) for row in make_rows(labels=["fa"], depths=[4])]
    rows[-1] |= {"alignment_chance": [0.1, 0.2, 0.3, 0.4]}
    df = frame(rows)
    expected = 1.96 * np.sqrt(np.square(chances(df, "fa", 4)).mean(axis=0))
    assert profile(df)["chance"].tolist() == pytest.approx(expected)


def test_the_chance_of_the_early_third_is_that_of_a_mean_of_independent_layers(
    frame, make_rows, probed
):
    df = frame([probed(row) for row in make_rows(labels=["fa"], depths=[6])])
    deviation = np.sqrt(np.square(chances(df, "fa", 6)[:, :2]).sum(axis=1)) / 2
    expected = 1.96 * np.sqrt(np.square(deviation).mean())
    assert summarise(df)["chance"].tolist() == pytest.approx([expected])


def test_the_chance_band_is_drawn_in_every_panel_and_named(frame, make_rows, probed):
    df = frame([probed(row) for row in make_rows(labels=["bp", "fa"], depths=[2, 4])])
    with style():
        fig = figure(df, looks(df["label"])).figure
    legend = [text.get_text() for text in fig.legends[0].get_texts()]
    assert "chance (fresh feedback)" in legend
    half = summarise(df).set_index(["label", "depth"])["chance"]
    for ax in fig.axes:
        grey = ax.collections[-1].get_paths()[0].vertices
        assert grey[:, 1].min() < 0
        assert ax.get_ylim()[0] < grey[:, 1].min()
        assert (grey[:, 0].min(), grey[:, 0].max()) == pytest.approx(ax.get_xlim())
    top = fig.axes[0].collections[-1].get_paths()[0].vertices
    assert top[:, 1].max() == pytest.approx(half[("fa", 2)])


def test_without_chance_there_is_no_band(study):
    assert summarise(study)["chance"].isna().all()
    bare = study.drop(columns="alignment_chance")
    for df in (study, bare):
        with style():
            fig = figure(df, looks(df["label"])).figure
        assert fig.axes[0].get_ylim() == (0, 1.05)
        assert "chance" not in " ".join(text.get_text() for text in fig.legends[0].get_texts())


def test_an_interval_below_minus_one_does_not_stretch_the_axis(frame, make_rows):
    rows = make_rows(labels=["fa"], depths=[2], seeds=2)
    rows = [row | {"alignment": [-0.9 if row["init_seed"] else 0.9, 0.5]} for row in rows]
    assert drawn(frame(rows)).get_ylim()[0] == pytest.approx(-1.05)
