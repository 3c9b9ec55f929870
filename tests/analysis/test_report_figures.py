"""Figures in a page: ids of their own, nothing but drawing, and their numbers as sentences."""

import re
from xml.etree import ElementTree as ET

import pandas as pd
import pytest

from analysis.figures import draw_frame
from analysis.report_figures import drawing, in_words, inline, read_numbers, title_of

LABELS = ["<script>alert(1)</script>", "$x_1$ & _y", 'a"b']


@pytest.fixture(scope="module")
def folder(tmp_path_factory, study):
    """Figures of a study of two rules, one of them with a label that is markup."""
    df = study[study["label"].isin(["bp", "fa"]) & study["depth"].isin([2, 4])]
    made = tmp_path_factory.mktemp("figures")
    draw_frame(df.assign(label=df["label"].replace("fa", LABELS[0])), made)
    return made


def test_a_drawing_is_named_and_told_and_scales_with_its_box(folder):
    made = drawing(folder / "accuracy_vs_depth.svg")
    root = ET.fromstring(made.svg)
    assert root.attrib["role"] == "img"
    assert not {"width", "height"} & set(root.attrib)
    assert [child.tag for child in root[:2]] == ["title", "desc"]
    assert [child.text for child in root[:2]] == [made.title, made.words]
    assert made.title == "Accuracy over depth"
    assert f"{LABELS[0]}: ." in made.words


def test_a_drawing_holds_nothing_but_shapes(folder):
    tags, names = set(), set()
    for path in folder.glob("*.svg"):
        for element in ET.fromstring(drawing(path).svg).iter():
            tags.add(element.tag)
            names |= set(element.attrib)
    assert tags <= {"svg", "title", "desc", "g", "path", "defs", "use", "clipPath", "rect"}
    assert not [name for name in names if name.startswith("on")]
    assert not [name for name in names if "{" in name or ":" in name]


def test_drawings_in_one_page_share_no_ids(folder):
    text = "".join(drawing(path).svg for path in folder.glob("*.svg"))
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 20
    used = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
    assert set(used) <= set(ids)


def test_texts_of_a_drawing_are_escaped(folder):
    svg = (folder / "accuracy_vs_depth.svg").read_text()
    made = inline(svg, "x", LABELS[0], " ".join(LABELS))
    assert "<script" not in made
    assert ET.fromstring(made)[1].text == " ".join(LABELS)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("accuracy_vs_depth", "Accuracy over depth"),
        ("lr_sensitivity", "Learning-rate sensitivity"),
        ("depth_utility-mnist-1d-width-64", "Depth utility: mnist-1d, width 64"),
    ],
)
def test_a_figure_is_titled_by_its_file(name, title):
    assert title_of(name) == title


def test_numbers_are_told_rule_by_rule_over_depth():
    numbers = pd.DataFrame({
        "label": ["bp", "bp", "fa"], "depth": [2, 6, 2], "mean": [0.62, 0.6, 0.5],
        "at_edge": [False, True, False],
    })  # fmt: skip
    assert in_words(numbers) == (
        "bp: .620 at depth 2, .600 (rate at the edge of its range) at 6. fa: .500 at depth 2."
    )


def test_of_curves_the_last_step_is_told():
    numbers = pd.DataFrame({
        "label": "bp", "depth": [2, 2, 4], "step": [0, 10, 8], "quantity": "test_loss",
        "mean": [0.1, 0.2, 0.3],
    })  # fmt: skip
    assert in_words(numbers) == "At the last recorded step. bp: .200 at depth 2, .300 at 4."


def test_of_tried_rates_the_chosen_are_told():
    numbers = pd.DataFrame({
        "label": "bp", "depth": 2, "lr": [0.1, 0.01], "mean": [1.5, 1.25],
        "chosen": [False, True], "at_edge": True,
    })  # fmt: skip
    assert in_words(numbers) == (
        "The chosen rates. bp: 1.250 (rate 0.01, at the edge of its range) at depth 2."
    )


def test_layers_are_told_one_by_one_and_parts_by_name():
    numbers = pd.DataFrame({
        "label": "fa", "depth": 2, "layer": ["early third", 1, 2] * 2, "widths": [8] * 3 + [16] * 3,
        "mean": [0.1, 0.1, 0.9, 0.2, 0.2, 0.8],
    })  # fmt: skip
    told = in_words(numbers)
    assert told.startswith("The early third of the layers. For width 8: fa: .100 at depth 2.")
    assert "For width 16: fa: .200 at depth 2." in told
    assert "For width 8: fa: at depth 2 .100, .900." in told


def test_a_difference_is_told_with_its_reference():
    numbers = pd.DataFrame({"label": ["fa"], "reference": "bp", "depth": 2, "mean": -0.5})
    assert in_words(numbers) == "fa against bp: −.500 at depth 2."


def test_a_figure_without_means_says_where_its_numbers_are():
    assert (
        in_words(pd.DataFrame({"label": ["bp"], "other": [1]})) == "Its numbers are in its table."
    )


def test_labels_that_look_like_numbers_or_nothing_stay_labels(tmp_path):
    labels = ["NA", "1e3", "nan"]
    pd.DataFrame({"label": labels, "depth": 2, "mean": 0.5}).to_csv(tmp_path / "x.csv")
    numbers = read_numbers(tmp_path / "x.csv")
    assert numbers["label"].tolist() == labels
    assert all(f"{label}: .500" in in_words(numbers) for label in labels)
