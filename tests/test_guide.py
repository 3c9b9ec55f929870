"""The guide to a rule of one's own: its blocks, run as they stand, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "your-own-rule.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def newcomer(tmp_path: Path) -> dict[str, str]:
    """The environment of someone in an empty folder; what they install stays there."""
    site = tmp_path / "site" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    binaries = Path(sys.executable).parent
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONBREAKPOINT"}
    return kept | {  # Ray sets that one where it is imported
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)]),
        "PIP_PREFIX": str(tmp_path / "site"),
        "PIP_NO_BUILD_ISOLATION": "1",
        "PIP_NO_DEPS": "1",
        "OMP_NUM_THREADS": "1",
    }


def shell(text: str, folder: Path, environment: dict[str, str], keys: str = "") -> tuple[int, str]:
    """The exit code of a block of commands, and all that it printed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        input=keys,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout


def write(block: str, folder: Path) -> None:
    """The file that a block shows; its first line names it."""
    path = folder / block.partition("\n")[0].removeprefix("# ")
    path.parent.mkdir(exist_ok=True)
    path.write_text(block)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_block_of_the_guide_works_in_an_empty_folder(tmp_path: Path, newcomer: dict):
    for kind, block in BLOCKS:
        if kind != "bash":
            write(block, tmp_path)
        elif "--out debug" in block:
            check_breakpoint(block, tmp_path, newcomer)
        else:
            code, said = shell(block, tmp_path, newcomer)
            assert code == 0, said
            check_output(block, said, tmp_path)
    kinds = [kind for kind, _ in BLOCKS]
    assert [kinds.count(kind) for kind in ("python", "yaml", "toml", "bash")] == [1, 1, 1, 5]


def check_output(block: str, said: str, folder: Path) -> None:
    """What the guide promises of a block."""
    if "check_rule" in block:
        assert said == ""
    if "rulesweep run" in block:
        found = pd.read_csv(folder / "runs/frozen/figures/accuracy_vs_depth.csv")
        means = found.set_index(["label", "depth"])["mean"]
        assert means["shallow", 4] < means["frozen-bp", 4] < means["bp", 4]
    if "pip install" in block:
        assert "frozen-bp (my_rules.frozen_bp:FrozenBP, revision 1)" in said
        assert "to train" in said


def check_breakpoint(block: str, folder: Path, environment: dict[str, str]) -> None:
    """The prompt comes and sees the trace; who leaves there has trained nothing."""
    file = folder / "my_rules" / "frozen_bp.py"
    text = file.read_text()
    line = re.search(r"^ +if .*: breakpoint\(\)\n", GUIDE, re.MULTILINE)[0]
    file.write_text(re.sub(r"(def teach.*\n)", rf"\1{line}", text))
    code, said = shell(block, folder, environment, keys="p trace.losses.shape\nexit\n")
    assert code == 2, said
    assert "(Pdb) torch.Size([2, 128])" in said
    assert "nothing was trained" in said
    file.write_text(text)


def test_a_state_that_is_a_view_of_the_weights_is_refused_as_the_guide_says(
    tmp_path: Path, newcomer: dict
):
    (_, rule), (_, check) = BLOCKS[:2]
    write(rule.replace(".clone()", ""), tmp_path)
    code, said = shell(check, tmp_path, newcomer)
    assert code == 1
    assert "clone it" in said
