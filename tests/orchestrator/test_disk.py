"""Storage that fills up, becomes read-only, or comes from a stranger."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator import run
from orchestrator.store import StoreError, trials
from orchestrator.telling import Silent


def mount(*words):
    """Whether a file system could be mounted; only root may."""
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def disk(tmp_path):
    """A disk of a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", place):
        pytest.skip("no file system can be mounted here: that takes root")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


class AfterThree(Silent):
    """Does something to the storage once three packs are back."""

    def __init__(self, harm):
        self.harm, self.packs = harm, 0

    def packed(self, finished):
        self.packs += 1
        if self.packs == 3:
            self.harm()


def fill(disk):
    with (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(1024))
            except OSError:
                return


def protect(disk):
    assert mount("-t", "tmpfs", "-o", "ro", "tmpfs", disk / "run" / "trials")


def empty(disk):
    (disk / "ballast").unlink()


def unprotect(disk):
    subprocess.run(["umount", "--lazy", disk / "run" / "trials"], check=True)


@pytest.mark.parametrize(
    ("harm", "mend", "reason"),
    [(fill, empty, "No space left on device"), (protect, unprotect, "Read-only file system")],
)
def test_a_run_stops_with_the_reason_and_goes_on_when_that_is_mended(
    disk, small, table, harm, mend, reason, capfd
):
    with pytest.raises(StoreError, match=f"cannot be written to .*: {reason}; mend that and run"):
        run(small(), disk / "run", inline=True, reporter=AfterThree(lambda: harm(disk)))
    with pytest.raises(StoreError, match=reason):
        run(small(), disk / "run", inline=True)
    assert capfd.readouterr().err == ""
    mend(disk)
    assert run(small(), disk / "run", inline=True).trained == 32 - 9
    run(small(), "undisturbed", inline=True)
    assert table(disk / "run") == table("undisturbed")
    assert not (disk / "run" / "damaged").exists()


@pytest.fixture
def copy(finished, tmp_path):
    """The finished run, to be made a stranger's."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def test_a_strangers_description_that_is_huge_is_not_read(copy):
    with (copy / "resolved.json").open("r+b") as file:
        file.truncate(300 * 2**20)
    with pytest.raises(StoreError, match=r"resolved.json cannot be read: it is too large"):
        trials(copy)


def test_a_strangers_part_that_would_fill_the_memory_is_left_out(copy, capsys, monkeypatch):
    monkeypatch.setattr("orchestrator.part_files.LARGEST", 10**6)
    bomb = pa.table({"trial": ["x" * 1000] * 20_000, "status": ["ok"] * 20_000})
    pq.write_table(bomb, copy / "trials" / "part-00000099.parquet", use_dictionary=False)
    assert len(trials(copy)) == 32
    assert "it would fill more than" in capsys.readouterr().err


def test_names_that_climb_out_write_nothing_outside(copy, command, tmp_path, files):
    evil = "../../../evil<script>alert(1)</script>"
    for path in (copy / "trials").iterdir():
        rows = pq.read_table(path)
        for name in ("label", "study", "dataset"):
            place = rows.schema.get_field_index(name)
            column = [None if v is None else evil + v for v in rows[name].to_pylist()]
            rows = rows.set_column(place, name, pa.array(column, pa.string()))
        pq.write_table(rows, path.with_name(path.name[:13] + ".parquet"))
        path.unlink()
    described = json.loads((copy / "resolved.json").read_text()) | {
        "name": evil,
        "paths": ["/evil"],
    }
    (copy / "resolved.json").write_text(json.dumps(described))
    outside = {path: seen for path, seen in files(tmp_path).items() if copy not in path.parents}
    for words in (["status"], ["figures"], ["report"], ["export", "--format", "latex"]):
        done = command(words[0], copy, *words[1:])
        assert done.code == 0, done.err
        assert "Traceback" not in done.err
    after = {path: seen for path, seen in files(tmp_path).items() if copy not in path.parents}
    assert {p for p in after if p != copy} == {p for p in outside if p != copy}
    page = (copy / "report.html").read_text()
    assert "<script>alert(1)" not in page
    assert "evil" in page
