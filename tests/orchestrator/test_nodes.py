"""A cluster whose nodes come, go and die: three Ray nodes on this machine."""

import subprocess
import time

import pytest

from orchestrator import run, schedule, study_from
from orchestrator.preflight import PreflightError
from orchestrator.store import Store
from orchestrator.yaml_file import write

pytestmark = [pytest.mark.ray, pytest.mark.slow]

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster():
    """A head without room for workers, and two nodes of one worker each."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args=NODE | {"num_cpus": 0})
    made.add_node(**NODE)
    made.add_node(**NODE, num_gpus=2)  # a number only: Ray does not look for them
    yield made
    made.shutdown()


SLOW = """
import time
Path("{folder}", "seen", str(os.getppid())).touch()  # the parent of a worker is its node's raylet
if not Path("{folder}", "hurry").exists():
    time.sleep(0.2)
"""


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def test_a_lost_nodes_packs_go_on_elsewhere_and_a_node_that_joins_is_used(
    cluster, mapping, own_rule, program, table, tmp_path
):
    (tmp_path / "seen").mkdir()
    study = mapping(
        rules=["bp", own_rule("slow_here", SLOW.format(folder=tmp_path))],
        resources={"replicas": 1},
        grid={"depth": [1, 2], "width": 8, "seeds": 6},
    )
    (tmp_path / "study.yaml").write_text(write(study))
    words = [program, "run", "study.yaml", "--out", "run", "--address", cluster.address]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as driver:
        wait_for(lambda: len(nodes_seen(tmp_path)) == 2 and len(answers(tmp_path)) >= 4)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(**NODE, num_gpus=2)
        wait_for(lambda: len(nodes_seen(tmp_path)) == 3)
        (tmp_path / "hurry").touch()
        printed, _ = driver.communicate(timeout=200)
    assert driver.returncode == 0, printed.decode()
    run(study_from(study), "inline", inline=True)
    assert table("run") == table("inline")


def nodes_seen(folder):
    return list((folder / "seen").iterdir())


def answers(folder):
    return Store(folder / "run").answers


def test_what_no_node_has_is_said_at_once(cluster, small, tmp_path):
    with pytest.raises(schedule.ScheduleError, match="no node has 1 cpus and 3 gpus") as refused:
        run(small(resources={"gpus": 3}), tmp_path / "run", address=cluster.address)
    assert "--workers N" in str(refused.value)
    with pytest.raises(schedule.ScheduleError, match="no node has 2 cpus and 0 gpus"):
        run(small(resources={"cpus": 2}), tmp_path / "run", address=cluster.address)


def test_a_node_whose_torch_finds_no_gpu_is_found_before_anything_trains(cluster, small, tmp_path):
    with pytest.raises(PreflightError, match=r"rule bp: .*(CUDA|NVIDIA)"):
        run(small(resources={"gpus": 0.5}), tmp_path / "run", address=cluster.address)
    assert Store(tmp_path / "run").answers == {}


DIES = "if 'default_worker' in sys.argv[0]:\n    os._exit(1)"
FAR = "import sys\nif 'default_worker' in sys.argv[0]:\n    raise ImportError('not on this node')\n"


def test_rules_that_kill_workers_or_are_not_there_are_found_before_anything_trains(
    cluster, small, own_rule, tmp_path
):
    dies = own_rule("dies_always", "import sys\n" + DIES) | {"label": "dies"}
    far = own_rule("far_away") | {"label": "far"}
    module = tmp_path / "far_away.py"
    module.write_text(FAR + module.read_text())
    with pytest.raises(PreflightError) as refused:
        run(small(rules=["bp", dies, far]), tmp_path / "run", address=cluster.address)
    assert "rule dies: the worker that tried it died" in str(refused.value)
    assert "rule far: " in str(refused.value)
    assert "not on this node" in str(refused.value)
    assert "rule bp" not in str(refused.value)
    assert Store(tmp_path / "run").answers == {}
