"""The SLURM scripts as they are shipped, with stand-ins for srun and scontrol."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator import load_study, run
from orchestrator.columns import named
from orchestrator.store import trials

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]

STUDY = """
name: batch
task: {dataset: teacher, samples: 200, test_samples: 80, inputs: 8, outputs: 3, width: 8,
       targets: classes, validation: 0.25}
training: {steps: 100, batch_size: 16, record: 4}
rules: [bp, fa, dfa]
grid: {depth: [1, 2], width: 8, seeds: 2}
search: {lr: {low: 0.01, high: 0.3}, rounds: 2, points: 2, seeds: 1}
resources: {replicas: 1}
"""

ON_EVERY_HOST = """#!/bin/bash
# The stand-in for srun: runs its command on every host of the job at once, and passes a signal on
# to every process there, as SLURM does.
echo $$ > srun.pid
for pid in $HOST_PIDS; do
  { nsenter -t "$pid" -n -p -m -u -- env -C "$PWD" "$@" || echo $? > failed; } &
done
trap 'for pid in $HOST_PIDS; do nsenter -t "$pid" -p -m sh -c "kill -TERM -1"; done' TERM
until wait; do :; done
[ ! -e failed ] || exit "$(cat failed)"
"""


def table(folder):
    kept = [*named("coordinate", "result"), "phase", "label", "round", "point"]
    rows = trials(folder).select(kept).to_pylist()
    return sorted(({key: repr(row[key]) for key in kept} for row in rows), key=str)


@pytest.fixture
def checkout(lab):
    """A checkout on the shared disk with its environment made; where SLURM starts its jobs."""
    folder = lab.shared / "checkout"
    (folder / ".venv" / "bin").mkdir(parents=True)
    for command in ("python", "ray", "rulesweep"):
        (folder / ".venv" / "bin" / command).symlink_to(Path(shutil.which(command)))
    (folder / "study.yaml").write_text(STUDY)
    (folder / "stand-ins").mkdir()
    (folder / "stand-ins" / "scontrol").write_text('#!/bin/sh\necho "$3" | tr , "\\n"\n')
    (folder / "stand-ins" / "srun").write_text(ON_EVERY_HOST)
    for path in (folder / "stand-ins").iterdir():
        path.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def nodes(lab):
    """Three nodes of SLURM's, which know nothing of each other."""
    made = [lab.host(name, ray=False) for name in ("node1", "node2", "node3")]
    yield made
    for node in made:
        node.kill()


@pytest.fixture
def batch(checkout, nodes):
    """Starts the script as SLURM would on the first of its nodes."""
    settings = {
        "PATH": f"{checkout}/stand-ins:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(checkout),
        "OMP_NUM_THREADS": "1",
        "SLURM_SUBMIT_DIR": str(checkout),
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_JOB_NODELIST": ",".join(node.address for node in nodes),
        "HOST_PIDS": " ".join(str(node.pid) for node in nodes),
    }

    def start(job):
        words = ["bash", ROOT / "examples" / "clusters" / "slurm.sbatch", "study.yaml"]
        (checkout / "failed").unlink(missing_ok=True)
        with (checkout / "log").open("w") as log:
            return subprocess.Popen(
                words, env=settings | {"SLURM_JOB_ID": job}, stdout=log, stderr=log
            )

    return start


@pytest.fixture
def undisturbed(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    run(load_study(tmp_path / "study.yaml"), tmp_path / "run", inline=True)
    return table(tmp_path / "run")


def test_a_study_runs_over_all_nodes_of_a_job_and_goes_on_when_its_time_was_up(
    checkout, nodes, batch, undisturbed
):
    run, log = checkout / "runs" / "batch", checkout / "log"
    first = batch("4711")
    while len(list(run.glob("trials/part-*.parquet"))) < 8:
        assert first.poll() is None, log.read_text()
        time.sleep(0.05)
    os.kill(int((checkout / "srun.pid").read_text()), signal.SIGTERM)
    assert first.wait(timeout=120) != 0
    kept = trials(run)["status"].to_pylist().count("ok")
    assert 0 < kept < len(undisturbed)
    for node in nodes:  # what SLURM does next
        node.run("sh", "-c", "kill -KILL -1", check=False)
    assert batch("4712").wait(timeout=300) == 0, log.read_text()
    told = log.read_text()
    assert f"{kept} networks in the table" in told
    assert f"[{len(undisturbed)}/{len(undisturbed)}]" in told
    assert "Traceback" not in told
    assert table(run) == undisturbed
    assert set(trials(run)["host"].to_pylist()) == {node.name for node in nodes}
    assert not list(checkout.glob(".rulesweep-token-*"))
