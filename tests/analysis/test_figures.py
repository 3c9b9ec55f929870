import json

import pandas as pd
import pytest

from analysis import accuracy_vs_depth, depth_utility, learning_curves, lr_sensitivity
from analysis.figures import draw_frame
from analysis.style import looks, style
from analysis.trials import load_trials

MODULES = [accuracy_vs_depth, depth_utility, lr_sensitivity, learning_curves]


@pytest.fixture(params=MODULES, ids=lambda module: module.__name__.rsplit(".")[-1])
def plot(request):
    """Draws one kind of figure of a frame, laid out so that warnings of the layout are errors."""

    def drawn(df, note=""):
        with style():
            found = request.param.figure(df, looks(df["label"]), note)
            if found:
                found.figure.draw_without_rendering()
        return found

    return drawn


def finite(fig):
    lines = [line for ax in fig.axes for line in ax.lines]
    return all(value == value for line in lines for value in line.get_ydata())  # noqa: PLR0124


def test_a_run_has_its_figures_each_in_three_formats_and_numbers(
    tmp_path, frame, make_rows, probed
):
    rows = [probed(row) for row in make_rows(labels=["bp", "fa"], depths=[2])]
    written = draw_frame(frame(rows), tmp_path)
    names = {path.stem for path in written if path.suffix == ".png"}
    assert {
        "accuracy_vs_depth", "depth_utility", "lr_sensitivity", "learning_curves", "probes",
        "comparisons",
    } <= names  # fmt: skip
    expected = {f"{name}.{kind}" for name in names for kind in ("png", "pdf", "svg", "csv")}
    assert expected <= {path.name for path in written}
    assert set(written) == set(tmp_path.iterdir())


def test_the_studys_comparisons_are_those_that_are_drawn(tmp_path, frame, make_rows):
    df = frame(make_rows(labels=["bp", "fa", "dfa"], depths=[2]))
    compare = {"metric": "test_accuracy", "pairs": [["dfa", "fa"]]}
    written = draw_frame(df, tmp_path, compare)
    numbers = pd.read_csv(next(path for path in written if path.name == "comparisons.csv"))
    assert numbers[["label", "reference", "metric"]].to_numpy().tolist() == [
        ["dfa", "fa", "test_accuracy"]
    ]


def test_characters_that_the_font_lacks_are_told_once_and_drawn_as_boxes(
    tmp_path, frame, make_rows, capsys
):
    df = frame(make_rows(labels=["bp", "逆伝播 α"], depths=[2]))
    assert draw_frame(df, tmp_path)
    told = "rulesweep: DejaVu Sans has no 逆伝播; figures show boxes there\n"
    assert capsys.readouterr().err == told


def test_a_table_from_json_is_drawn_as_far_as_it_goes(tmp_path):
    content = {"args": {"dataset": "d", "depth": 2}, "final": {"test_acc": 0.5}}
    for mode in ("bp", "dfa"):
        text = json.dumps(content | {"args": {**content["args"], "mode": mode}})
        (tmp_path / f"depth_{mode}.json").write_text(text)
    written = draw_frame(load_trials(tmp_path, "depth"), tmp_path / "figs")
    assert {path.stem for path in written} == {"accuracy_vs_depth", "comparisons"}


def test_what_is_swept_besides_depth_is_in_the_names(tmp_path, frame, make_rows):
    rows = make_rows(labels=["bp"], depths=[2])
    other = [row | {"dataset": "a/b c", "residual": True} for row in rows]
    rows = [row for row in rows + other if row["phase"] == "evaluate"]
    rows = [row | {"curve_step": None} for row in rows]
    written = draw_frame(frame(rows), tmp_path)
    assert {path.stem for path in written} == {
        "accuracy_vs_depth-mnist1d-plain", "accuracy_vs_depth-a-b-c-residual"
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["empty", "pending"])
def test_a_table_without_results_gives_no_figure(tmp_path, frame, make_rows, change, kind):
    rows = [change.pending(row) for row in make_rows(depths=[2])] if kind == "pending" else []
    assert draw_frame(frame(rows), tmp_path) == []


def test_an_incomplete_table_is_drawn_and_says_so(plot, frame, make_rows, change):
    rows = change.to(make_rows(depths=[2, 4]), change.pending, phase="evaluate", depth=4)
    fig = plot(frame(rows), "INCOMPLETE: 20 of 160 networks pending.").figure
    assert fig.get_supxlabel().startswith("INCOMPLETE: 20 of 160 networks pending.")


def test_one_seed_is_drawn_without_gaps(plot, frame, make_rows):
    assert finite(plot(frame(make_rows(labels=["bp", "fa"], depths=[2, 4], seeds=1))).figure)


def test_a_rule_may_lack_a_depth(plot, frame, make_rows):
    rows = make_rows(labels=["bp", "fa"], depths=[2, 4])
    rows = [row for row in rows if (row["label"], row["depth"]) != ("fa", 4)]
    assert finite(plot(frame(rows)).figure)


def test_a_rule_may_diverge_wherever_it_was_tried(plot, frame, make_rows, change):
    rows = change.to(make_rows(labels=["bp", "fa", "dfa"], depths=[2]), change.diverged, label="fa")
    found = plot(frame(rows))
    assert finite(found.figure)
    assert "diverged (fa" in found.figure.get_supxlabel().replace("\n", " ")


def test_all_rules_may_diverge(plot, frame, make_rows, change):
    rows = [change.diverged(row) for row in make_rows(labels=["bp", "fa"], depths=[2])]
    found = plot(frame(rows))
    assert found is None or finite(found.figure)


def test_one_depth_is_enough(plot, frame, make_rows):
    assert plot(frame(make_rows(labels=["bp", "fa"], depths=[3])))


def test_labels_are_shown_as_the_user_wrote_them(plot, frame, make_rows):
    labels = ["$x_1$", "_mine", "a < b", "50 % $", r"\alpha"]
    fig = plot(frame(make_rows(labels=labels, depths=[2]))).figure
    shown = [text.get_text() for text in fig.legends[0].get_texts()]
    assert shown[: len(labels)] == labels


def test_twelve_rules_fit(plot, frame, make_rows):
    fig = plot(frame(make_rows(labels=[f"rule_{i}" for i in range(12)], depths=[2, 4]))).figure
    fig.draw_without_rendering()  # which lays it out
    inner = fig.get_tightbbox()
    assert inner.x0 >= 0
    assert inner.x1 <= fig.get_figwidth()
