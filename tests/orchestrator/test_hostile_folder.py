"""Run folders in which something stands where it should not: a line each, and no traceback."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.report import environment_in, provenance
from analysis.trials import load_trials


@pytest.fixture
def copy(finished, tmp_path, monkeypatch):
    """The finished run as the folder `run`."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, "run"))


def taken(name):
    def spoil(run):
        (run / name).write_text("a file in the place of a folder")

    return spoil


def folder(name):
    def spoil(run):
        (run / name).unlink(missing_ok=True)
        (run / name).mkdir()

    return spoil


def resolved(**parts):
    def spoil(run):
        path = run / "resolved.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | parts))

    return spoil


def study(text):
    return lambda run: (run / "study.yaml").write_bytes(text)


@pytest.mark.parametrize(
    ("spoil", "words", "said"),
    [
        (taken("figures"), "figures run", "run/figures: File exists"),
        (folder("report.html"), "report run", "run/report.html is a folder; name a file"),
        (taken("x"), "report run --out run/x/y/z.html", "run/x/y: Not a directory"),
        (taken("x"), "export run --format latex --out run/x", "run/x: File exists"),
        (taken("x"), "export run --format seed-json --out run/x", "run/x: File exists"),
        (resolved(campaigns=None), "status run", "resolved.json cannot be read: campaigns is no"),
        (resolved(campaigns=[3]), "status run", "resolved.json cannot be read: campaigns is no"),
        (resolved(shapes=4), "export run", "resolved.json cannot be read: shapes is no list"),
        (study(b"rules: ["), "figures run", "study.yaml cannot be read: while parsing a flow node"),
        (study(b"- 1"), "figures run", "study.yaml cannot be read: 'list' object is not a mapping"),
        (study(b"\xff"), "report run", "study.yaml cannot be read: 'utf-8' codec can't decode"),
        (
            folder("run.log"),
            "run run/study.yaml --out run --inline",
            "run.log: Is a directory",
        ),
    ],
)
def test_what_stands_where_it_should_not_is_one_line(copy, command, spoil, words, said):
    spoil(copy)
    done = command(*words.split())
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_an_environment_that_says_odd_things_is_left_out(copy):
    odd = {"libraries": 3, "command": 4, "cpus": "x", "host": ["a"], "processor": "a chip"}
    path = copy / "environment.json"
    path.write_text(json.dumps(odd))
    told = dict(provenance(load_trials(copy), environment_in(path)))
    assert told["Machine"] == "a chip"
    assert not {"Command", "Software"} & told.keys()
