"""Drawing again: every file anew, and none left of what the study no longer has."""

import json

import pytest

from analysis.drawn import LIST, replace_list
from analysis.figures import draw_all
from orchestrator import run, study_from

STUDY = {
    "name": "shrinks",
    "task": {"dataset": "teacher", "samples": 60, "test_samples": 20, "inputs": 4, "outputs": 2,
             "width": 4, "targets": "classes"},
    "training": {"steps": 4, "record": 2},
    "rules": ["bp", "fa"],
    "grid": {"depth": 1, "width": 4, "residual": [False, True], "seeds": 2},
    "search": {"lr": 0.1},
    "measure": {"alignment": False, "probes": False},
}  # fmt: skip


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_figure_is_drawn_again_and_what_a_smaller_study_lacks_goes(tmp_path):
    run(study_from(STUDY), tmp_path, inline=True)
    draw_all(tmp_path)
    figures = tmp_path / "figures"
    first = contents(figures)
    assert "accuracy_vs_depth-residual.png" in first
    for name in ("accuracy_vs_depth-plain.png", "accuracy_vs_depth-residual.svg", "mine.png"):
        (figures / name).write_text("a person's")
    draw_all(tmp_path)
    assert contents(figures) == first | {"mine.png": b"a person's"}
    (figures / "accuracy_vs_depth-residual.svg").write_text("a person's")
    run(study_from(STUDY | {"grid": STUDY["grid"] | {"residual": False}}), tmp_path, inline=True)
    written = {path.name for path in draw_all(tmp_path)}
    kept = {"mine.png", "accuracy_vs_depth-residual.svg"}
    assert set(contents(figures)) == written | {LIST} | kept
    assert "accuracy_vs_depth.png" in written


def test_a_figure_is_told_before_the_next_one_is_drawn(tmp_path):
    run(study_from(STUDY), tmp_path, inline=True)
    there = []  # figures in the folder whenever one was told

    def tell(path):
        if path.suffix == ".png":
            assert path.is_file()
            there.append(len(list(path.parent.glob("*.png"))))

    draw_all(tmp_path, tell=tell)
    assert there == list(range(1, len(there) + 1))
    assert len(there) > 2


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"../outside.csv": "0"}', '{"a.png": 3}', "{}"])
def test_a_list_that_is_damaged_deletes_nothing(tmp_path, text):
    folder = tmp_path / "figures"
    folder.mkdir()
    for path in (tmp_path / "outside.csv", folder / "a.png", folder / "b.png"):
        path.write_text("numbers")
    (folder / LIST).write_text(text)
    assert replace_list(folder, [folder / "b.png"]) == []
    assert (tmp_path / "outside.csv").exists()
    assert (folder / "a.png").exists()
    assert set(json.loads((folder / LIST).read_text())) == {"b.png"}


def test_where_nothing_was_ever_drawn_nothing_is_noted(tmp_path):
    assert replace_list(tmp_path / "figures", []) == []
    assert not (tmp_path / "figures").exists()
