"""Runs that stop early, try again, or take rows from another run."""

from math import inf

import pytest

from orchestrator.cli_options import seconds_of
from orchestrator.store import StoreError
from orchestrator.sweep import Limits
from orchestrator.telling import Silent
from orchestrator.yaml_file import StudyError

SEEDS = {"depth": 1, "width": 8, "seeds": 6}
FAILS = """
if {seeds} & set(trace.streams.seeds) and Path("{mark}").exists():
    raise ValueError("for now")
"""


@pytest.fixture
def failing(small, own_rule, tmp_path):
    """A study whose networks of seeds 1 and 3 fail for as long as the file `mark` exists."""
    mark = tmp_path / "mark"
    mark.touch()
    rule = own_rule("fails_for_now", FAILS.format(seeds={1, 3}, mark=mark))
    study = small(rules=["bp", rule], grid=SEEDS, search={"lr": 0.1}, resources={"replicas": 1})
    return study, mark


def test_failed_networks_train_again_when_asked(failing, train, statuses, table):
    study, mark = failing
    assert train(study).exit_code == 1
    assert statuses("run") == {"ok": 10, "failed": 2}
    assert train(study).trained == 0
    again = train(study, retry_failed=True)
    assert (again.trained, again.exit_code) == (2, 1)
    mark.unlink()
    again = train(study, retry_failed=True)
    assert (again.known, again.trained, again.exit_code) == (10, 2, 0)
    train(study, folder="undisturbed")
    assert table("run") == table("undisturbed")


def test_a_run_stops_once_too_many_networks_failed(failing, train, statuses, table):
    study, _ = failing
    result = train(study, limits=Limits(failures=1))
    assert (result.interrupted, result.closed, result.exit_code) == (True, "failures", 1)
    assert statuses("run")["failed"] == 1
    assert statuses("run")["pending"] > 0
    result = train(study, limits=Limits(failures=2))  # those of this run count
    assert (result.interrupted, result.failed, result.exit_code) == (False, 2, 1)


class OutOfTime(Silent):
    """Lets the time be over when the first pack is back."""

    def began(self, pump):
        self.pump = pump

    def packed(self, finished):
        self.pump.limits = Limits(seconds=0)


def test_a_run_stops_when_its_time_is_over_and_goes_on_later(small, train, table):
    result = train(small(), limits=Limits(seconds=0))
    assert (result.trained, result.interrupted, result.closed) == (0, True, "time")
    assert result.exit_code == 130
    result = train(small(), reporter=OutOfTime())
    assert (result.trained, result.closed) == (3, "time")
    assert train(small(), limits=Limits(seconds=3600)).exit_code == 0
    train(small(), folder="undisturbed")
    assert table("run") == table("undisturbed")


def test_the_command_line_says_why_it_stopped_and_how_to_go_on(mapping, command, tmp_path):
    import yaml

    (tmp_path / "study.yaml").write_text(yaml.safe_dump(mapping()))
    done = command("run", "study.yaml", "--inline", "--time-budget", "0s")
    assert done.code == 130
    assert "the time budget is used up; go on with: rulesweep run study.yaml" in done.out
    done = command("run", "study.yaml", "--time-budget", "soon")
    assert done.code == 2
    assert done.err.startswith('error: time "soon" is not understood; write it as 45s, 90m')


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("90m", 5400), ("2h", 7200), ("1h30m", 5400), ("0.5d", 43200), (None, inf)],
)
def test_times_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "2 h", "h", "1h30", "-1h", "1..5h", "2w"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(StudyError, match="is not understood"):
        seconds_of(text)


def test_rows_of_another_run_are_taken(small, train, finished, table, results):
    bigger = small(grid={"depth": [1, 2, 3], "width": 8, "seeds": 3}, name="bigger")
    result = train(bigger, reuse=finished)
    assert (result.known, result.reused) == (0, 32)
    assert result.trained == 2 * (2 * 1 + 6 + 3)
    train(bigger, folder="undisturbed")
    assert table("run") == table("undisturbed")
    assert results("run") == results("undisturbed")  # nothing that the study does not want
    again = train(bigger, reuse=finished)
    assert (again.known, again.reused, again.trained) == (32 + 22, 0, 0)


def test_failed_rows_of_another_run_are_not_taken(failing, train, statuses):
    study, mark = failing
    train(study)
    mark.unlink()
    result = train(study, folder="second", reuse="run")
    assert (result.reused, result.trained, result.exit_code) == (10, 2, 0)
    assert statuses("second") == {"ok": 12}


def test_rows_of_a_rule_whose_file_has_changed_are_not_taken(failing, train, own_rule):
    study, mark = failing
    mark.unlink()
    train(study)
    own_rule("fails_for_now", "pass  # edited")
    with pytest.raises(StoreError, match="were trained by another version of its file"):
        train(study, folder="second", reuse="run")


def test_another_run_must_be_one(small, train, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="empty is no run folder"):
        train(small(), reuse=tmp_path / "empty")
    assert not list((tmp_path / "run").glob("trials/*"))
