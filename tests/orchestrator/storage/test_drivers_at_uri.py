import os
import re
import signal
import subprocess
import time

import pytest

from orchestrator import lease, run, study_from
from orchestrator.folder import driven
from orchestrator.mirror import Mirror
from orchestrator.remote import Remote
from orchestrator.shards import Shard, merge
from orchestrator.store import StoreError
from orchestrator.yaml_file import write


@pytest.fixture(scope="module")
def sixteen(mapping):
    """A study of 16 networks, trained one by one, each long enough to be hit."""
    return mapping(
        rules=["bp", "fa"],
        training={"steps": 60, "batch_size": 16, "record": 2},
        grid={"depth": 1, "width": 8, "seeds": 4},
        search={"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 2, "seeds": 1},
        measure={"probes": False},
        resources={"replicas": 1},
    )


@pytest.fixture(scope="module")
def undisturbed(sixteen, tmp_path_factory, table):
    """The table of that study in a folder, where nobody disturbed it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run(study_from(sixteen), folder, inline=True)
    return table(folder)


@pytest.fixture
def start(program, tmp_path, sixteen, uri):
    """Starts a driver of the study at the URI on a machine of that name, and ends it."""
    (tmp_path / "study.yaml").write_text(write(sixteen))
    started = []

    def run_study(machine):
        process = subprocess.Popen(
            [program, "run", "study.yaml", "--inline", "--out", uri],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"RULESWEEP_CACHE": str(tmp_path / f"cache of {machine}")},
        )
        started.append(process)
        return process

    yield run_study
    for process in started:
        process.kill()
        process.communicate()


def wait_for_parts(process, uri, number):
    """Wait until the process has put so many parts into the storage."""
    place = Remote(uri)
    while sum(name.startswith("trials/") for name in place.entries()) < number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_a_killed_driver_goes_on_from_an_empty_mirror(
    start, sixteen, storage, uri, machine, table, undisturbed
):
    storage.gate.disturb(seed=2, rate=0.1, delay=0.1)
    process = start("first")
    wait_for_parts(process, uri, 5)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    machine("second")
    study = study_from(sixteen)
    with pytest.raises(StoreError, match=f"is in use by process {process.pid} on .* since 20"):
        run(study, uri, inline=True)
    result = run(study, uri, inline=True, take_over=True)
    assert 0 < result.trained < 16
    assert result.trained + result.known == 16
    assert table(uri) == undisturbed


def test_a_lease_left_by_a_dead_driver_of_this_mirror_is_no_hindrance(uri, machine):
    mirror = Mirror(uri)
    lease.Lease(mirror.remote, mirror.id).take(over=False)
    with driven(uri):
        pass
    machine("second")
    lease.Lease(mirror.remote, mirror.id).take(over=False)
    with pytest.raises(StoreError, match="is in use by process"), driven(uri):
        pass


def test_a_driver_whose_run_is_taken_over_stops_at_its_next_put(
    start, sixteen, uri, machine, command, table, undisturbed
):
    first = start("first")
    wait_for_parts(first, uri, 4)
    first.send_signal(signal.SIGSTOP)
    machine("second")
    second = command("run", "study.yaml", "--inline", "--out", uri)
    assert (second.code, second.out) == (2, "")
    (line,) = second.err.splitlines()
    assert f"is in use by process {first.pid} on " in line
    assert line.endswith("take it over with --take-over, or give another with --out")
    with driven(uri, take_over=True):
        time.sleep(lease.FRESH)
        first.send_signal(signal.SIGCONT)
        _, errors = first.communicate()
    assert first.returncode == 2
    assert re.search(
        rf"^error: s3://.* was taken over by process {os.getpid()} on .* since .*; "
        "this driver stops, and nothing is lost$",
        errors.splitlines()[-1],
    )
    run(study_from(sixteen), uri, inline=True)
    assert table(uri) == undisturbed


def test_a_lease_that_nobody_renews_is_free_after_a_while(uri, machine, monkeypatch):
    remote = Mirror(uri).remote
    gone = lease.Lease(remote, "a machine that is gone")
    gone.take(over=False)
    with pytest.raises(StoreError, match="is in use by process"), driven(uri):
        pass
    monkeypatch.setattr(lease, "STALE", 0.0)
    with driven(uri):
        assert gone.content["token"] not in remote.read("lease.json").decode()
    assert set(remote.entries()) == set()


def test_a_lease_is_renewed_until_it_is_given_back_or_lost(uri, machine, monkeypatch):
    monkeypatch.setattr(lease, "RENEW", 0.05)
    with driven(uri) as (_, mirror):
        before = mirror.remote.modified("lease.json")
        while mirror.remote.modified("lease.json") == before:
            time.sleep(0.05)
        monkeypatch.setattr(lease, "FRESH", 0.0)
        lease.Lease(mirror.remote, "another").take(over=True)
        with pytest.raises(StoreError, match="was taken over by process"):
            mirror.guard()
        theirs = mirror.remote.read("lease.json")
    assert mirror.remote.read("lease.json") == theirs  # only one's own is given back


def test_a_folder_is_not_taken_over(small, tmp_path):
    with pytest.raises(StoreError, match=r"^--take-over: .* is a folder, whose lock"):
        run(small(), tmp_path / "run", inline=True, take_over=True)


def test_shards_at_a_uri_merge_into_the_undisturbed_table(
    sixteen, uri, machine, command, table, undisturbed
):
    study, found = study_from(sixteen), 0
    for number in (1, 2):
        machine(f"node {number}")
        found += run(study, uri, inline=True, shard=Shard(number, 2)).trained
    assert found == 16
    machine("desk")
    assert table(uri) == undisturbed
    assert (
        "2 shards have begun; when all are done: rulesweep merge s3://"
        in command("status", uri).out
    )
    busy = lease.Lease(Mirror(uri).remote, "a node", "shards/0002-of-0002")
    busy.take(over=False)
    with pytest.raises(StoreError, match="is in use by process"):
        merge(uri)
    busy.give_back()
    assert merge(uri).results == 16
    assert not [
        name for name in Remote(uri).entries() if name.startswith("shards/") and "trials" in name
    ]
    machine("another desk")
    assert table(uri) == undisturbed
    assert "shards have begun" not in command("status", uri).out
