import numpy as np
import pytest

from analysis.learning_curves import ALIGNMENT, figure, summarise
from analysis.style import looks, style


def test_a_summary_has_the_mean_at_every_recorded_step(study):
    summary = summarise(study)
    rows = study[study["phase"].eq("evaluate") & study["label"].eq("fa") & study["depth"].eq(4)]
    found = summary.query("label == 'fa' and depth == 4 and quantity == 'test_accuracy'")
    assert found["step"].tolist() == [0, 100, 200, 400, 800]
    expected = np.mean(rows["curve_test_accuracy"].tolist(), axis=0)
    assert found["mean"].tolist() == pytest.approx(expected)
    assert found["n"].eq(5).all()


def test_alignment_is_followed_for_the_first_third_of_the_layers(study):
    rows = study[study["phase"].eq("evaluate") & study["label"].eq("fa") & study["depth"].eq(6)]
    found = summarise(study).query("label == 'fa' and depth == 6 and quantity == @ALIGNMENT")
    expected = np.array(rows["curve_alignment"].tolist())[:, :, :2].mean(axis=(0, 2))
    assert found["mean"].tolist() == pytest.approx(expected)


def test_a_diverged_network_counts_at_chance_from_there_on(frame, make_rows):
    rows = make_rows(labels=["fa"], depths=[2], seeds=2)
    lost = {"status": "diverged", "diverged_step": 150, "curve_step": [0, 100, 200]}
    lost |= {"curve_test_accuracy": [0.1, 0.3, 0.9], "curve_alignment": None}
    found = summarise(frame([*rows[:-1], rows[-1] | lost])).query("quantity == 'test_accuracy'")
    pairs = zip(rows[-2]["curve_test_accuracy"], [0.1, 0.3, 0.1, 0.1, 0.1], strict=True)
    assert found["mean"].tolist() == pytest.approx([np.mean(pair) for pair in pairs])


def test_a_failed_network_counts_at_chance_throughout(frame, make_rows, change):
    rows = change.to(
        make_rows(labels=["fa"], depths=[2]), change.failed, phase="evaluate", init_seed=0
    )
    found = summarise(frame(rows)).query("quantity == 'test_accuracy'")
    assert found["n"].eq(5).all()
    assert summarise(frame(rows)).query("quantity == @ALIGNMENT")["n"].eq(4).all()


def test_data_without_accuracy_are_followed_by_their_loss(study):
    summary = summarise(study.assign(test_accuracy=np.nan))
    assert set(summary["quantity"]) == {"test_loss", ALIGNMENT}


def test_each_quantity_has_a_panel_a_depth(study):
    with style():
        fig = figure(study, looks(study["label"])).figure
    assert len(fig.axes) == 12
    assert fig.axes[0].get_ylabel() == "test accuracy"
    assert fig.axes[6].get_ylabel() == "alignment"
    line = next(line for line in fig.axes[2].lines if line.get_label() == "fa")
    assert line.get_xdata().tolist() == [0, 100, 200, 400, 800]


def test_one_seed_has_a_line_and_a_band_without_width(frame, make_rows):
    df = frame(make_rows(labels=["fa"], depths=[2], seeds=1))
    with style():
        ax = figure(df, looks(df["label"])).figure.axes[0]
    [band] = ax.collections
    assert np.isfinite(band.get_paths()[0].vertices).all()


def test_without_recorded_steps_there_is_no_figure(study):
    bare = study.assign(curve_step=None)
    assert summarise(bare).empty
    assert figure(bare, looks(bare["label"])) is None


def test_one_seed_without_alignment_is_drawn(frame, make_rows):
    rows = make_rows(labels=["fa"], depths=[2], seeds=1)
    df = frame([row | {"curve_alignment": None} for row in rows])
    assert summarise(df)["low"].dtype == "float64"
    with style():
        assert len(figure(df, looks(df["label"])).figure.axes) == 1
