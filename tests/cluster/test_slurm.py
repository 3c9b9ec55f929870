"""The SLURM scripts as they are shipped, with stand-ins for srun and scontrol."""

import os
import shutil
import subprocess
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
# The stand-in for srun: runs its command on every host of the job at once.
pids=()
for pid in $HOST_PIDS; do
  nsenter -t "$pid" -n -p -m -u -- env -C "$PWD" "$@" & pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
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


def batch(folder, script, **environment):
    """Run a batch script as SLURM would run it on the first node; what it printed."""
    settings = {
        "PATH": f"{folder}/stand-ins:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(folder),
        "SLURM_SUBMIT_DIR": str(folder),
        "SLURM_CPUS_PER_TASK": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", ROOT / "examples" / "clusters" / script, "study.yaml"],
        env=settings | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "study.yaml").write_text(STUDY)
    run(load_study(folder / "study.yaml"), folder / "run", inline=True)
    return table(folder / "run")


def test_the_script_with_ray_runs_a_study_over_its_nodes(lab, checkout, undisturbed):
    nodes = [lab.host(name, ray=False) for name in ("node1", "node2", "node3")]
    printed = batch(
        checkout,
        "slurm.sbatch",
        SLURM_JOB_ID="4711",
        SLURM_JOB_NUM_NODES="3",
        SLURM_JOB_NODELIST=",".join(node.address for node in nodes),
        HOST_PIDS=" ".join(str(node.pid) for node in nodes),
    )
    assert "[36/36]" in printed, printed
    assert "Traceback" not in printed
    assert table(checkout / "runs" / "batch") == undisturbed
    assert set(trials(checkout / "runs" / "batch")["host"].to_pylist()) == {
        "node1",
        "node2",
        "node3",
    }
    assert not list(checkout.glob(".rulesweep-token-*"))
    for node in nodes:
        assert "raylet" not in node.running()
        node.kill()


def test_the_script_for_an_array_trains_its_shards(lab, checkout, undisturbed):
    (checkout / "stand-ins" / "srun").write_text('#!/bin/sh\nexec "$@"\n')
    for task in ("1", "2", "5"):
        printed = batch(checkout, "slurm_array.sbatch", SLURM_ARRAY_TASK_ID=task)
        assert f"shard {task}/32 is done" in printed
    shards = sorted((checkout / "runs" / "batch" / "shards").iterdir())
    assert [path.name for path in shards] == ["0001-of-0032", "0002-of-0032", "0005-of-0032"]
    known = [row for row in table(checkout / "runs" / "batch") if row["status"] != "'pending'"]
    assert len(known) == 18
    assert all(row in undisturbed for row in known)
