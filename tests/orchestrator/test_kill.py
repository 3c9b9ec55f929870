import contextlib
import os
import random
import re
import shlex
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator import load_study, run, study_from
from orchestrator.folder import held
from orchestrator.store import trials
from orchestrator.yaml_file import write

AGENT = re.compile(r"^ray::\w*Agent|\0[^\0 ]*/agent(/main)?\.py\0")
"""The command line of one of Ray's agents, after and before it names itself."""


@pytest.fixture(scope="module")
def forty(mapping):
    """A study of 42 networks, trained one by one, each long enough to be hit."""
    return mapping(
        rules=["bp", "fa", "dfa"],
        training={"steps": 80, "batch_size": 16, "record": 4},
        grid={"depth": [1, 3], "width": 8, "seeds": 3},
        search={"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 2, "seeds": 1},
        measure={"probes": False},
        resources={"replicas": 1},
    )


@pytest.fixture(scope="module")
def undisturbed(forty, tmp_path_factory, table):
    """The table of that study where nobody disturbed it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run(study_from(forty), folder, inline=True)
    found = table(folder)
    assert len(found) == 42
    return found


@pytest.fixture
def start(program, tmp_path, forty):
    """Starts the command on the study in a process of its own; ends those that still run."""
    (tmp_path / "study.yaml").write_text(write(forty))
    started = []

    def run_study(*words, **arguments):
        process = subprocess.Popen(
            [program, "run", "study.yaml", "--out", "run", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            **arguments,
        )
        started.append(process)
        return process

    yield run_study
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def count(folder):
    return len(list((folder / "trials").glob("part-*.parquet")))


def wait_for_parts(process, folder, number):
    """Wait until the process has written so many parts of the table."""
    while count(folder) < number:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.002)


def descendants(pid):
    """The processes that a process started, and theirs, with their births."""
    children, born = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(") ")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
            born[int(path.parent.name)] = fields[19]
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return {(child, born[child]) for child in found[1:]}


def agents_of(processes):
    """Those that are Ray's agents, which take a minute to notice that a driver is gone."""
    return {process for process in processes if AGENT.search(command_line(process[0]))}


def command_line(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def program_of(pid):
    return command_line(pid).partition("\0")[0]


def lives(pid, birth):
    """Whether that very process still runs."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return fields[19] == birth and fields[0] != "Z"
    return False


def ended(processes):
    """Whether all of them end by themselves within a minute."""
    for _ in range(600):
        if not any(lives(*process) for process in processes):
            return True
        time.sleep(0.1)
    kill(processes)
    return False


def kill(processes):
    for pid, birth in processes:
        if lives(pid, birth):
            os.kill(pid, signal.SIGKILL)


def finish(folder):
    """Run the study again, to its end, in this process."""
    return run(load_study(folder.parent / "study.yaml"), folder, inline=True)


def test_a_killed_driver_goes_on_where_it_was(start, tmp_path, table, undisturbed):
    folder, chance, parts = tmp_path / "run", random.Random(7), 0
    for _ in range(3):
        process = start("--inline")
        wait_for_parts(process, folder, parts + chance.randint(2, 9))
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        parts = count(folder)
        trials(folder)  # can be read at any time
    result = finish(folder)
    assert 0 < result.trained < 42
    assert result.trained + result.known == 42
    assert table(folder) == undisturbed


@pytest.mark.ray
@pytest.mark.slow
def test_a_killed_driver_of_ray_goes_on_and_leaves_no_process(start, tmp_path, table, undisturbed):
    folder = tmp_path / "run"
    process = start("--workers", "2")
    wait_for_parts(process, folder, 6)
    started = descendants(process.pid)
    agents = agents_of(started)
    assert len(started) > 3
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert ended(started - agents)
    kill(agents)
    process = start("--workers", "2")
    wait_for_parts(process, folder, count(folder) + 6)
    process.send_signal(signal.SIGTERM)
    started = descendants(process.pid)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert "interrupted; go on with: rulesweep run study.yaml --out run --workers 2" in output
    assert ended(started)
    result = finish(folder)
    assert 0 < result.trained < 36
    assert table(folder) == undisturbed


KILLS_ITS_DRIVER = """
mark = Path("{folder}") / "killed"
if trace.step == 7 and not trace.measuring and not mark.exists():
    mark.touch()
    os.kill(int(Path("{folder}/run/.lock").read_text().split()[1]), signal.SIGKILL)
    __import__("time").sleep(60)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_long_pack_goes_on_where_it_was_when_its_driver_was_killed(
    start, tmp_path, mapping, own_rule, train, table
):
    study = mapping(
        rules=[own_rule("kills_its_driver", KILLS_ITS_DRIVER.format(folder=tmp_path))],
        training={"steps": 12, "batch_size": 16, "record": [3, 9]},
        grid={"depth": 2, "width": 8, "seeds": 5},
        search={"lr": 0.1},
    )
    (tmp_path / "study.yaml").write_text(write(study))
    process = start("--workers", "1", env=os.environ | {"RULESWEEP_STATE_SECONDS": "0"})
    started = set()
    while not (tmp_path / "killed").exists():
        assert process.poll() is None, process.communicate()[0]
        started |= descendants(process.pid)  # none any more once it is killed
        time.sleep(0.01)
    assert process.wait() == -signal.SIGKILL
    assert len(started) > 3
    agents = agents_of(started)
    assert ended(started - agents)
    kill(agents)
    assert set(trials("run")["status"].to_pylist()) == {"pending"}
    (left,) = Path("run/checkpoints").glob("*.checkpoint")
    assert finish(tmp_path / "run").trained == 5
    assert set(trials("run")["continued_step"].to_pylist()) == {7}
    assert not left.parent.exists()
    train(study_from(study), "undisturbed")
    assert set(trials("undisturbed")["continued_step"].to_pylist()) == {None}
    assert table("run") == table("undisturbed")


def test_a_driver_whose_raylet_was_killed_ends_and_goes_on(start, tmp_path, table, undisturbed):
    """Ray ends the driver's process from C++, so nothing of ours can say why."""
    folder = tmp_path / "run"
    process = start("--workers", "1")
    wait_for_parts(process, folder, 3)
    raylets = {p for p in descendants(process.pid) if program_of(p[0]).endswith("/raylet")}
    assert len(raylets) == 1
    kill(raylets)
    process.communicate(timeout=200)
    result = finish(folder)
    assert (process.returncode != 0) == (result.trained > 0)  # unless it was faster than Ray
    assert table(folder) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_signals_in_a_row_lose_nothing(start, tmp_path, table, undisturbed, number):
    folder = tmp_path / "run"
    process = start("--inline")
    wait_for_parts(process, folder, 6)
    process.send_signal(number)
    time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=100)
    assert process.returncode != 0
    finish(folder)
    assert table(folder) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_go_on(start, tmp_path, table, undisturbed, number):
    folder, words = (
        tmp_path / "run",
        ["--inline", "--set", "search.rounds=2", "--set", "compare={}"],
    )
    process = start(*words)
    wait_for_parts(process, folder, 8)
    process.send_signal(number)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in output
    (again,) = re.findall("interrupted; go on with: (.*)", output)
    assert shlex.split(again) == ["rulesweep", "run", "study.yaml", "--out", "run", *words]
    statuses = set(trials(folder)["status"].to_pylist())
    assert statuses == {"ok", "pending"}
    assert "interrupted" in (folder / "run.log").read_text()


@contextlib.contextmanager
def ignored():
    """As a shell starts its background jobs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def blocked():
    """As Ray starts the jobs that are submitted to it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("sigint", [ignored, blocked])
def test_a_run_started_with_sigint_held_back_can_be_ended(start, tmp_path, sigint):
    with sigint():
        process = start("--inline")
    wait_for_parts(process, tmp_path / "run", 4)
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; go on with: rulesweep run study.yaml" in output


INTERRUPTING = """
import signal


def data():
    # tests that a shell runs in the background start with this signal ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)
"""


def test_an_interrupt_before_training_leaves_nothing(program, tmp_path, mapping):
    (tmp_path / "interrupting.py").write_text(INTERRUPTING)
    (tmp_path / "study.yaml").write_text(write(mapping(task={"dataset": "interrupting:data"})))
    before = set(tmp_path.iterdir())
    words = [program, "run", "study.yaml", "--inline"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == before


def test_a_second_driver_of_a_folder_is_refused(start, command, tmp_path):
    process = start("--inline")
    wait_for_parts(process, tmp_path / "run", 3)
    process.send_signal(signal.SIGSTOP)
    try:
        second = command("run", "study.yaml", "--inline", "--out", "run")
    finally:
        process.send_signal(signal.SIGCONT)
    assert (second.code, second.out) == (2, "")
    assert second.err == (
        f"error: run folder run is in use by process {process.pid} on {socket.gethostname()}; "
        "wait for it, stop it, or give another with --out\n"
    )
    process.kill()
    process.wait()
    with held(tmp_path / "run"):  # the lock went with the process
        pass


class PowerCutError(BaseException):
    """The end of a process, wherever it is."""


def suddenly_ended(study, folder):
    """Whether the power was cut before the study was trained."""
    try:
        run(study, folder, inline=True)
    except PowerCutError:
        return True
    return False


def test_every_flush_to_the_disk_may_be_the_last(small, monkeypatch, table, capsys):
    study = small(
        rules=["fa"],
        grid={"depth": 1, "width": 8, "seeds": 2},
        search={"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 2, "seeds": 1},
    )
    run(study, "undisturbed", inline=True)
    flush, flushes, cut = os.fsync, 0, True
    while cut:
        flushes += 1
        left = iter(range(flushes))

        def last_flush(file, left=left):
            if next(left, None) is None:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    os.ftruncate(file, os.fstat(file).st_size // 2)
                raise PowerCutError
            flush(file)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", last_flush)
            cut = suddenly_ended(study, f"cut {flushes}")
        run(study, f"cut {flushes}", inline=True)
        assert table(f"cut {flushes}") == table("undisturbed")
        assert capsys.readouterr().err == ""  # no part was found damaged
    assert flushes > 15
