"""Small real studies for these tests, users' own modules, and tables as values to compare."""

import contextlib
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator import run, study_from
from orchestrator.cli import main
from orchestrator.columns import named
from orchestrator.store import every_result, trials

CLASSES = {
    "dataset": "teacher", "samples": 80, "test_samples": 40, "inputs": 6, "outputs": 3, "width": 8,
    "targets": "classes", "validation": 0.25,
}  # fmt: skip

SMALL = {
    "name": "small",
    "task": CLASSES,
    "training": {"steps": 10, "batch_size": 16, "record": 2},
    "rules": ["bp", "fa"],
    "grid": {"depth": [1, 2], "width": 8, "seeds": 2},
    "search": {"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 3, "seeds": 1},
}


@pytest.fixture(scope="session")
def mapping():
    """The small study as a file would give it, with some of its parts replaced."""
    return lambda **parts: SMALL | parts


@pytest.fixture(scope="session")
def small(mapping):
    """The small study, with some of its parts replaced."""
    return lambda **parts: study_from(mapping(**parts))


@pytest.fixture(scope="session")
def table():
    """The table of a run as sorted rows of text: what must be equal however it was trained."""
    columns = [*named("coordinate", "result"), "phase", "label", "round", "point"]

    def read(folder, leave_out=()):
        kept = [column for column in columns if column not in leave_out]
        rows = trials(folder).select(kept).to_pylist()
        return sorted(({key: repr(row[key]) for key in kept} for row in rows), key=str)

    return read


@pytest.fixture(scope="session")
def statuses():
    """How many networks of a run have which status."""
    return lambda folder: Counter(trials(folder)["status"].to_pylist())


@pytest.fixture(scope="session")
def results():
    """How many results a run folder holds, wanted or not."""
    return lambda folder: every_result(folder).num_rows


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Every test runs in a folder of its own, and leaves no module of its own behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("RULESWEEP_DATA", raising=False)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def train(tmp_path):
    """Runs a study inline, in the folder `run` unless told otherwise."""

    def trained(study, folder="run", **arguments):
        return run(study, tmp_path / folder, inline=True, **arguments)

    return trained


@pytest.fixture(scope="session")
def finished(tmp_path_factory, small):
    """The folder of the small study, trained undisturbed; to be read or copied, not changed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert run(small(), folder, inline=True).exit_code == 0
    return folder


@pytest.fixture
def command(monkeypatch, capsys):
    """The command line in this process: exit code, output, errors."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["rulesweep", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=printed.out, err=printed.err)

    return call


@pytest.fixture(scope="session")
def program():
    """The installed command, for processes of their own."""
    return Path(sys.executable).with_name("rulesweep")


@pytest.fixture
def files():
    """All that lies in a folder: names, contents and times of change."""

    def seen(folder):
        paths = sorted(folder.rglob("*"))
        with contextlib.suppress(FileNotFoundError):
            return {p: (p.stat().st_mtime_ns, p.is_file() and p.read_bytes()) for p in paths}

    return seen


RULE = '''
"""A user's own rule."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rules.rule import Lesson
from rules.signals import layered


@dataclass(frozen=True)
class Own:
    """Backpropagation, but for one thing."""

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = True
    size: float = 1.0

    def operations(self, dims):
        return 1.0

    def init(self, dims, streams):
        return {}

    def teach(self, trace, params, state):
        lesson = layered(trace, [w.mT for w in params.weights[1:]])
        BODY
        return lesson, state
'''


@pytest.fixture
def own_rule(tmp_path):
    """Writes a user's rule into a module: backpropagation, and `body` at every step."""

    def write(module, body="pass"):
        (tmp_path / f"{module}.py").write_text(
            RULE.replace("BODY", body.replace("\n", "\n        "))
        )
        return {"name": f"{module}:Own", "label": "own"}

    return write
