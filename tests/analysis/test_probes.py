import numpy as np
import pytest

from analysis import stats
from analysis.probes import by_layer, early_gain, figure, summarise, untrained
from analysis.style import looks, style


@pytest.fixture
def study_with_probes(frame, make_rows, probed):
    rows = make_rows(labels=["bp", "fa", "dfa"], depths=[1, 2, 6], seeds=4)
    return frame([probed(row) for row in rows])


def networks(df, label, depth):
    return df[df["phase"].eq("evaluate") & df["label"].eq(label) & df["depth"].eq(depth)]


def arrays(df, label, depth):
    rows = networks(df, label, depth)
    names = ("probe_accuracy", "probe_accuracy_untrained")
    return [np.array(rows[name].tolist()) for name in names]


def drawn(df, note=""):
    with style():
        plot = figure(df, looks(df["label"]), note)
        if plot:
            plot.figure.draw_without_rendering()
    return plot


def test_every_network_has_its_layers_from_the_input_on(study_with_probes):
    long = by_layer(study_with_probes).query("label == 'fa' and depth == 6 and init_seed == 2")
    [row] = networks(study_with_probes, "fa", 6).query("init_seed == 2").to_dict("records")
    assert long["layer"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert long["trained"].tolist() == [0.62, *row["probe_accuracy"]]
    assert long["untrained"].tolist() == [0.62, *row["probe_accuracy_untrained"]]
    assert long["gain"].iloc[0] == 0


def test_a_summary_has_the_mean_the_untrained_networks_and_the_paired_difference(
    study_with_probes,
):
    row = summarise(study_with_probes).set_index(["label", "depth", "layer"]).loc[("fa", 6, 3)]
    after, before = (values[:, 2] for values in arrays(study_with_probes, "fa", 6))
    for name, values in {"": after, "untrained_": before, "gain_": after - before}.items():
        expected = stats.mean_interval(values)
        found = [row[f"{name}{part}"] for part in ("mean", "low", "high", "n")]
        assert found == pytest.approx([expected.mean, expected.low, expected.high, 4])


def test_the_accuracy_of_the_network_stands_beside_its_probes(study_with_probes):
    found = summarise(study_with_probes).query("label == 'dfa' and depth == 2")
    expected = networks(study_with_probes, "dfa", 2)["test_accuracy"].mean()
    assert found["end_to_end_mean"].tolist() == pytest.approx([expected] * 3)
    assert found["end_to_end_n"].eq(4).all()


@pytest.mark.parametrize(("depth", "layers"), [(1, 1), (2, 1), (6, 2)])
def test_the_early_gain_is_the_paired_gain_of_the_first_third(study_with_probes, depth, layers):
    row = early_gain(study_with_probes).set_index(["label", "depth"]).loc[("fa", depth)]
    after, before = arrays(study_with_probes, "fa", depth)
    expected = stats.mean_interval((after - before)[:, :layers].mean(axis=1))
    assert row[["mean", "low", "high"]].tolist() == pytest.approx(
        [expected.mean, expected.low, expected.high]
    )
    assert row["n"] == 4


def test_feedback_seeds_are_averaged_before_the_interval(frame, make_rows, probed):
    rows = [probed(row) for row in make_rows(labels=["fa"], depths=[2], seeds=2)]
    more = [
        row | {"feedback_seed": 9, "trial": f"{row['trial']}b", "probe_accuracy": [0.1, 0.2]}
        for row in rows
        if row["phase"] == "evaluate"
    ]
    row = summarise(frame(rows + more)).query("layer == 2").iloc[0]
    firsts = [network["probe_accuracy"][1] for network in rows if network["phase"] == "evaluate"]
    expected = stats.mean_interval([(first + 0.2) / 2 for first in firsts])
    assert (row["n"], row["mean"], row["low"]) == pytest.approx((2, expected.mean, expected.low))


def test_untrained_networks_of_a_seed_are_shared_by_all_rules(study_with_probes):
    found = untrained(study_with_probes).query("depth == 6 and layer == 4").iloc[0]
    _, before = arrays(study_with_probes, "bp", 6)
    assert (found["mean"], found["n"]) == pytest.approx((before[:, 3].mean(), 4))


def test_lost_networks_are_left_out_and_told(frame, make_rows, probed, change):
    rows = [probed(row) for row in make_rows(labels=["bp", "fa"], depths=[2])]
    lost = {"probe_accuracy": None, "probe_accuracy_untrained": None, "probe_accuracy_input": None}
    rows = change.to(rows, lambda row: change.diverged(row) | lost, label="fa", init_seed=0)
    df = frame(rows)
    assert summarise(df).query("label == 'fa'")["n"].eq(4).all()
    assert summarise(df).query("label == 'fa'")["end_to_end_n"].eq(4).all()
    told = drawn(df).figure.get_supxlabel().replace("\n", " ")
    assert "1 of 10 diverged (fa 1); without probes, left out." in told


def test_a_figure_has_the_gain_over_depth_and_a_profile_a_depth(study_with_probes):
    plot = drawn(study_with_probes)
    assert [ax.get_title() for ax in plot.figure.axes] == ["", "depth 1", "depth 2", "depth 6"]
    profile = plot.figure.axes[-1]
    line = next(line for line in profile.lines if line.get_label() == "dfa")
    means = summarise(study_with_probes).query("label == 'dfa' and depth == 6")
    assert line.get_xdata().tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert line.get_ydata().tolist() == means["mean"].tolist()
    names = [text.get_text() for text in plot.figure.legends[0].get_texts()]
    assert names == ["bp", "fa", "dfa", "untrained"]


def test_the_networks_own_accuracies_are_markers_right_of_the_last_layer(study_with_probes):
    ax = drawn(study_with_probes).figure.axes[-1]
    [label] = [text.get_text() for text in ax.get_xticklabels()][-1:]
    marks = {float(y) for line in ax.lines for x, y in zip(*line.get_data(), strict=True) if x > 6}
    whole = summarise(study_with_probes).query("depth == 6")["end_to_end_mean"]
    assert label == "out"
    assert marks == set(whole)


def test_without_untrained_probes_there_are_profiles_only(frame, make_rows, probed):
    rows = [probed(row) for row in make_rows(labels=["bp", "fa"], depths=[2, 4])]
    bare = {"probe_accuracy_untrained": None, "probe_accuracy_input": None}
    plot = drawn(frame([row | bare for row in rows]))
    assert [ax.get_title() for ax in plot.figure.axes] == ["depth 2", "depth 4"]
    assert plot.data["layer"].min() == 1
    assert "untrained" not in [text.get_text() for text in plot.figure.legends[0].get_texts()]


def test_one_seed_is_drawn_without_bands(frame, make_rows, probed):
    rows = [probed(row) for row in make_rows(labels=["fa"], depths=[3], seeds=1)]
    assert drawn(frame(rows)).data["low"].isna().all()


def test_data_without_classes_have_no_probes_and_no_figure(study):
    assert summarise(study).empty
    assert early_gain(study)["n"].eq(0).all()
    assert drawn(study) is None
