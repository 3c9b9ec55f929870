"""Rows of a rule whose file was edited are not served as if nothing had happened."""

from pathlib import Path

import pytest

from orchestrator import run, study_from
from orchestrator.store import StoreError

RULE = '''
from dataclasses import dataclass
from typing import ClassVar

from rules.bp import BP


@dataclass(frozen=True)
class Mine(BP):
    """Backpropagation by another name, version {version}."""

    revision: ClassVar[int] = {revision}
'''

STUDY = {
    "name": "changed",
    "task": {"dataset": "gaussian-regression", "samples": 8, "inputs": 3, "outputs": 2},
    "training": {"steps": 2, "batch_size": "full", "loss": "squared"},
    "rules": ["rule_that_changes:Mine"],
    "grid": {"depth": 1, "width": 3, "seeds": 2},
    "search": {"lr": 0.1},
    "measure": {"alignment": False, "probes": False},
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)

    def write(version: int, revision: int) -> None:
        monkeypatch.delitem(__import__("sys").modules, "rule_that_changes", raising=False)
        text = RULE.format(version=version, revision=revision)
        (tmp_path / "rule_that_changes.py").write_text(text + "\n" * version)

    return write


def test_an_edited_rule_needs_a_new_revision_or_the_users_word(write, tmp_path: Path):
    out = tmp_path / "run"
    write(version=1, revision=1)
    assert run(study_from(STUDY), out, inline=True).trained == 2
    write(version=2, revision=1)
    with pytest.raises(StoreError, match=r"2 rows .* another version of its file"):
        run(study_from(STUDY), out, inline=True)
    assert run(study_from(STUDY), out, inline=True, keep_changed=True).trained == 0
    write(version=3, revision=2)
    assert run(study_from(STUDY), out, inline=True).trained == 2
