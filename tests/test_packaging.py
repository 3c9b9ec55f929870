import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points, packages_distributions, version
from pathlib import Path

import pytest

from orchestrator import load_study

ROOT = Path(__file__).parents[1]
PACKAGES = ("analysis", "orchestrator", "rules")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("name", PACKAGES)
def test_an_import_name_belongs_to_this_distribution_alone(name):
    assert set(packages_distributions()[name]) == {"rulesweep"}


def test_the_command_is_installed():
    (command,) = entry_points(group="console_scripts", name="rulesweep")
    assert command.value == "orchestrator.cli:main"
    assert version("rulesweep") == PROJECT["version"]


def modules(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_module_is_a_drawer():
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "lib", "base"}
    names = {part for path in modules(*PACKAGES, "tests") for part in path.with_suffix("").parts}
    assert not names & drawers


def test_every_module_and_package_says_what_it_holds():
    for path in modules(*PACKAGES):
        assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names in the wheel, built from a copy of the tree."""
    tree, out = tmp_path_factory.mktemp("tree") / "rulesweep", tmp_path_factory.mktemp("wheel")
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    tree.mkdir()
    for name in (*PACKAGES, "tests", "benchmarks", "examples"):
        shutil.copytree(ROOT / name, tree / name, ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    words = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", *words, "--wheel-dir", out, tree]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel):
    tops = {name.partition("/")[0] for name in wheel}
    assert tops == {*PACKAGES, f"rulesweep-{PROJECT['version']}.dist-info"}
    for path in modules(*PACKAGES):
        assert path.relative_to(ROOT).as_posix() in wheel


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_what_is_no_module_too(wheel, package):
    others = {
        p for p in (ROOT / package).rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert {path.relative_to(ROOT).as_posix() for path in others} <= set(wheel)
    assert f"{package}/py.typed" in wheel


@pytest.mark.parametrize(
    ("imported", "heavy"),
    [
        ("analysis", {"torch", "ray", "optuna"}),
        ("analysis.figures", {"torch", "ray", "optuna"}),
        ("orchestrator", {"torch", "ray", "optuna", "pandas", "pyarrow", "matplotlib"}),
        ("orchestrator.cli", {"torch", "ray", "optuna", "pandas", "matplotlib"}),
        ("orchestrator.driver", {"torch", "ray", "optuna", "matplotlib"}),
        ("rules", {"torch", "ray", "optuna", "pandas"}),
        ("rules.catalog", {"torch", "ray", "optuna", "pandas"}),
    ],
)
def test_what_a_package_does_not_need_it_does_not_import(imported, heavy):
    code = f"import sys, {imported}; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_an_example_loads(path):
    assert load_study(path).name


def test_the_studies_in_the_readme_load(tmp_path):
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    studies = [block for block in blocks if re.search(r"^name:", block, re.M)]
    assert studies
    for number, text in enumerate(studies):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        assert load_study(path).name
