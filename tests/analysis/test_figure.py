import pandas as pd
import pytest
from matplotlib.lines import Line2D

from analysis.figure import finish, label_outer, save, sheet
from analysis.style import style

DATA = pd.DataFrame({"depth": [1, 2], "mean": [0.5, 0.25]})


def plotted():
    with style():
        fig, [[ax]] = sheet(1)
        ax.plot(DATA["depth"], DATA["mean"])
    return fig


def test_a_saved_figure_is_three_pictures_and_its_numbers(tmp_path):
    fig = plotted()
    paths = save(fig, tmp_path / "new" / "a.b", DATA)
    assert [path.name for path in paths] == ["a.b.png", "a.b.pdf", "a.b.svg", "a.b.csv"]
    assert set(paths) == set((tmp_path / "new").iterdir())
    assert pd.read_csv(paths[-1]).equals(DATA)
    assert not fig.axes


def test_equal_figures_give_equal_files(tmp_path):
    first, second = (save(plotted(), tmp_path / name / "f", DATA) for name in "ab")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 12])
def test_a_sheet_has_the_panels_asked_for_in_one_column_of_a_page(count):
    fig, [single, panels] = sheet(1, count)
    assert (len(single), len(panels)) == (1, count)
    assert fig.get_figwidth() == 3.4
    assert all(ax.get_ylim() == panels[0].get_ylim() for ax in panels)


def test_axes_are_named_at_the_left_and_beneath_only():
    _, [axes] = sheet(5)
    label_outer(axes, "x", "y")
    assert [ax.get_ylabel() for ax in axes] == ["y", "", "", "y", ""]
    assert [ax.get_xlabel() for ax in axes] == ["", "", "x", "x", "x"]


def test_labels_are_shown_as_they_are_written():
    names = ["_mine", "$x^2$", "a < b & c", "half $ open", "x" * 60]
    with style():
        fig, _ = sheet(1)
        finish(fig, "data_set $1", {name: Line2D([], []) for name in names}, ["A $ caption."])
        fig.draw_without_rendering()
    shown = [text.get_text() for text in fig.legends[0].get_texts()]
    assert shown[:4] == names[:4]
    assert shown[4] == "x" * 39 + "…"
    assert not any(text.get_parse_math() for text in fig.legends[0].get_texts())


def test_panels_of_many_rules_are_taller_and_those_of_few_keep_their_size():
    heights = {}
    for count in (2, 9, 18):
        with style():
            fig, [[ax]] = sheet(1)
            finish(fig, "title", {f"rule {i}": Line2D([], []) for i in range(count)}, ["Words."])
            fig.draw_without_rendering()
            heights[count] = ax.get_window_extent().height
    assert heights[9] == pytest.approx(heights[2], rel=0.05)
    assert heights[18] > 1.25 * heights[9]


@pytest.mark.parametrize("count", [1, 5, 12, 20])
def test_nothing_reaches_beyond_the_figure(count):
    with style():
        fig, _ = sheet(1, 6)
        legend = {f"a rule no {i}": Line2D([], [], marker="o") for i in range(count)}
        finish(fig, "title", legend, ["Words for a caption."] * 8)
        fig.draw_without_rendering()
        inner = fig.get_tightbbox()
    assert inner.x0 >= 0
    assert inner.y0 >= 0
    assert inner.x1 <= fig.get_figwidth()
    assert inner.y1 <= fig.get_figheight()
