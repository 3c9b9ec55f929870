import subprocess
import sys

import pytest

from orchestrator import load_study
from orchestrator.driver import importable
from orchestrator.user_code import MOST, own_modules, stage
from orchestrator.yaml_file import StudyError, write

DATA = "import numpy as np\n\n\ndef points():\n    return np.eye(4), np.arange(4) % 2, None, None\n"


@pytest.fixture
def project(tmp_path, mapping, own_rule):
    """A study whose own rule is in a package beside its file, and leans on a module beside that."""
    rule = own_rule("leaning", "import beside_it\nlesson = beside_it.same(lesson)")
    (tmp_path / "leaning.py").rename(tmp_path / "rule.py.txt")
    package = tmp_path / "own_package"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    text = (tmp_path / "rule.py.txt").read_text()
    (package / "leaning.py").write_text("import beside_it\n" + text)
    (package / "data" / "large").write_bytes(bytes(MOST + 1))
    (tmp_path / "beside_it.py").write_text("def same(lesson):\n    return lesson\n")
    (tmp_path / "unrelated.py").write_text("raise RuntimeError\n")
    (tmp_path / "own_points.py").write_text(DATA)
    rules = ["bp", rule | {"name": "own_package.leaning:Own"}]
    grid = {"depth": 1, "width": 8, "seeds": 1, "dataset": ["own_points:points"]}
    (tmp_path / "study.yaml").write_text(write(mapping(rules=rules, grid=grid, task={})))
    return tmp_path / "study.yaml"


def test_what_a_studys_own_code_imports_comes_along_and_nothing_else(project, tmp_path):
    modules = own_modules(load_study(project), importable(project))
    assert set(modules) == {"own_package", "beside_it", "own_points"}
    (folder := tmp_path / "staged").mkdir()
    copies = stage(modules, folder)
    assert {path.name for path in copies} == {"own_package", "beside_it.py", "own_points.py"}
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "own_package/__init__.py",
        "own_package/leaning.py",
        "beside_it.py",
        "own_points.py",
    }
    code = "import own_package.leaning; print(own_package.leaning.Own().size)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stdout == "1.0\n"


def test_a_study_without_code_of_its_own_sends_none(mapping, tmp_path):
    (tmp_path / "study.yaml").write_text(write(mapping()))
    study = load_study(tmp_path / "study.yaml")
    assert own_modules(study, importable(tmp_path / "study.yaml")) == {}


def test_code_as_large_as_data_is_refused(project, tmp_path):
    modules = own_modules(load_study(project), importable(project))
    (tmp_path / "own_package" / "weights.bin").write_bytes(bytes(MOST + 1))
    (folder := tmp_path / "staged").mkdir()
    with pytest.raises(StudyError, match=r"module own_package: .* has 20 MB, too much to be sent"):
        stage(modules, folder)


def test_a_data_set_that_cannot_be_imported_is_named(mapping, tmp_path):
    grid = {"depth": 1, "width": 8, "seeds": 1, "dataset": ["nowhere_at_all:points"]}
    (tmp_path / "study.yaml").write_text(write(mapping(grid=grid, task={})))
    study = load_study(tmp_path / "study.yaml")
    with pytest.raises(StudyError, match='data set "nowhere_at_all:points" cannot be imported'):
        own_modules(study, importable(tmp_path / "study.yaml"))
