import shutil

import pytest

from orchestrator.bring_home import fetch
from orchestrator.store import StoreError

needs_rsync = pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync")


@pytest.fixture
def head(tmp_path, monkeypatch):
    """A head that is reached by real rsync through a shell in the place of ssh."""
    (tmp_path / "shell").write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    (tmp_path / "shell").chmod(0o755)
    monkeypatch.setenv("RSYNC_RSH", str(tmp_path / "shell"))
    return "head"


@needs_rsync
def test_a_run_is_brought_home_with_its_table(head, finished, table, command):
    done = command("fetch", f"{head}:{finished}", "--no-figures")
    assert done.code == 0
    assert "runs/run: 32 networks, 0 pending" in done.out
    assert table("runs/run") == table(finished)
    assert not (finished.parent / "runs").exists()
    assert fetch(f"{head}:{finished}/").name == "run"  # and again


@needs_rsync
def test_what_cannot_be_brought_home_is_one_line(head, command, tmp_path):
    done = command("fetch", f"{head}:{tmp_path}/nowhere", "--out", "home")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "cannot be copied" in done.err
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="is no run folder"):
        fetch(f"{head}:{tmp_path}/empty", tmp_path / "home")


@pytest.mark.parametrize("run", ["runs/quick", "", "a:b:c", "-oProxyCommand=x:y", "host:", "s3://"])
def test_what_names_no_run_elsewhere_is_refused(run, tmp_path):
    with pytest.raises(StoreError, match="should be a URI or HOST:FOLDER"):
        fetch(run)
    assert list(tmp_path.iterdir()) == []
