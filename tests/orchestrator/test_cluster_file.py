import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator import batch_script, cluster, launch_file, manifest
from orchestrator.cluster_file import check
from orchestrator.pins import Pins
from orchestrator.yaml_file import parse, write

ROOT = Path(__file__).parents[2]
SHIPPED = ["cluster.yaml", *(f"examples/clusters/{name}" for name in (
    "gcp.yaml", "local.yaml", "kuberay-rayjob.yaml", "slurm.sbatch", "slurm_array.sbatch",
))]  # fmt: skip
AWS, GCP, LOCAL, KUBERAY, SLURM, ARRAY = SHIPPED


@pytest.fixture(autouse=True)
def checkout(tmp_path, monkeypatch):
    """A checkout with its wheel made and its token generated; the tests may break its files."""
    shutil.copytree(ROOT / "examples" / "clusters", tmp_path / "examples" / "clusters")
    shutil.copy(ROOT / "cluster.yaml", tmp_path)
    (tmp_path / "dist").mkdir()
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").touch()
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("file", SHIPPED)
def test_a_shipped_file_passes_and_opens_with_ten_lines_for_a_newcomer(command, file):
    done = command("cluster", "check", file)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith(f"{file}: nothing wrong for ")
    opening = [line for line in Path(file).read_text().splitlines()[:11] if line.startswith("# ")]
    assert len(opening) >= 9
    assert any("1. " in line for line in opening)


def test_no_cluster_file_is_left_out():
    folder = ROOT / "examples" / "clusters"
    files = {f"examples/clusters/{p.name}" for p in folder.iterdir() if p.name != "Dockerfile"}
    assert files | {"cluster.yaml"} == set(SHIPPED)


def test_what_is_to_be_filled_in_is_said(command):
    out = command("cluster", "check", AWS).out
    assert out.count("fill in YOUR-AMI") == 2
    assert out.count("fill in YOUR-BUCKET") == 1


STUDY = """
name: demanding
task: {dataset: digits}
rules: [bp]
grid: {depth: 1, width: 8, seeds: 1}
resources: {gpus: 0.5, cpus: 2}
"""

BROKEN = [
    (AWS, "max_workers: 8   ", "max_worker: 8   ", 'max_worker: unknown key; did you mean "max_wo'),
    (AWS, "cluster_name: rulesweep\n", "", "cluster_name: missing; give it one"),
    (AWS, "setup_commands:\n", "head_setup_commands_:\n", "setup_commands: missing; without it"),
    (AWS, "127.0.0.1 --auto", "0.0.0.0 --auto", "the dashboard, which runs anyone's code, is open"),
    (AWS, "    --dashboard-host=127.0.0.1 ", "    ", "the dashboard, which runs anyone's code, is "
     "not kept to loopback"),
    (AWS, "RAY_AUTH_MODE=token RAY", "RAY", "head_start_ray_commands: Ray starts without a token"),
    (AWS, "RAY_AUTH_MODE=token RAY", "RAY", "worker_start_ray_commands: Ray starts without a tok"),
    (AWS, "RAY_USAGE_STATS_ENABLED=0 ray", "ray", "head_start_ray_commands: Ray would report usa"),
    (AWS, '  "~/.ray/auth_token": ~/.ray/auth_token\n', "", "the token does not reach the nodes"),
    (AWS, '"~/rulesweep": dist', '"~/rulesweep": dist2', 'no such file or folder "dist2"; give on'),
    (AWS, "ray:2.60.0", "ray:2.59.0", "docker.image: Ray 2.59.0, but this rulesweep has 2.60.0"),
    (AWS, "ray:2.60.0-py311-cpu", "ray:latest", "docker.image: rayproject/ray:latest pins no ver"),
    (AWS, "image: ray", "worker_image: rayproject/ray:2.60.0-py312-gpu\n  image: ray",
     "docker: the images have unlike Pythons"),
    (AWS, "pip install boto3", "pip install -U 'ray[default]' boto3", "installs whatever Ray is"),
    (AWS, "pip install boto3", "pip install ray==2.1.0", "installs ray 2.1.0; this rulesweep"),
    (AWS, "  - pip install -c", "  - pip download -c", "nothing installs rulesweep on the worker"),
    (AWS, "GPU: 1", "TPU: 1", "the study wants 0.5 GPU a worker and no node type has one"),
    (AWS, "CPU: 4", "CPU: 1", "the study wants 2 CPUs a worker and the largest node type has 1"),
    (AWS, "s3://YOUR-BUCKET", "/data", "RULESWEEP_RUNS=/data/rulesweep is on the head's disk"),
    (AWS, "RULESWEEP_RUNS", "OTHER", "results would stay on the head's disk and end with it"),
    (AWS, "head_node_type: head", "head_node_type: heat", "`ray up` refuses it: `head_node_"),
    (AWS, "CPU: 4", "CPU: 4.5", "available_node_types.gpu.resources.CPU: `ray up` refuses it: 4.5"),
    (AWS, "type: aws", "type: awz", "provider.type: `ray up` refuses it: Unsupported node provid"),
    (AWS, "min_workers: 0", "min_workers: 9", "smaller than the sum of `min_workers`"),
    (AWS, "  - ray stop\n", "", "should begin with ray stop"),
    (AWS, " --autoscaling-config=~/ray_bootstrap_config.yaml", "", "no workers would start; say"),
    (LOCAL, "--port=6379\n", "--port=6379 --node-ip-address=$RAY_HEAD_IP\n", "RAY_HEAD_IP is emp"),
    (LOCAL, " RAY_enable_autoscaler_v2=0", "", "leaves one of worker_ips out; say RAY_enable_"),
    (LOCAL, "head_ip: 192", "head: 192", "Please supply a `head_ip` and list of `worker_ips`"),
    (GCP, "idle_timeout_minutes: 5", "", "idle_timeout_minutes: missing; say when idle workers"),
    (KUBERAY, "rayVersion: 2.60.0", "rayVersion: 2.9.0", "rayVersion: 2.9.0; this rulesweep has"),
    (KUBERAY, "authOptions: {mode: token}", "suspend: false", "Ray starts without a token; say"),
    (KUBERAY, " --workers 32", "", "no worker is there at the start; say to how many: --workers"),
    (KUBERAY, "ClusterIP", "LoadBalancer", "serviceType: LoadBalancer opens the dashboard"),
    (KUBERAY, 'nvidia.com/gpu: "1"', "", "no pod has one; give one limits: {nvidia.com/gpu"),
    (KUBERAY, "maxReplicas: 8", "", "maxReplicas: missing; cap the group"),
    (KUBERAY, "shutdownAfterJobFinishes: true", "", "or the pods go on costing"),
    (SLURM, "RAY_AUTH_MODE=token ", "", "Ray starts without a token; add export RAY_AUTH_MODE"),
    (SLURM, '_TASK" -- ', '_TASK" --dashboard-host=0.0.0.0 -- ', "is open on 0.0.0.0"),
    (SLURM, '_TASK" -- ', '_TASK" --include-dashboard=false -- ', "workers refuse options of"),
    (SLURM, "srun ray", "ray", "should run on every node; say srun ray symmetric-run"),
    (SLURM, "node=1", "node=2", "#SBATCH --ntasks-per-node: should be 1"),
    (SLURM, '"$study" --address "${hosts[0]}:$port"', '"$study"', "rulesweep run: should join the"),
    (SLURM, "partition", "partition", "the study wants 0.5 GPU a worker and the job asks for none"),
    (ARRAY, "--array=1-32", "--array=0-31", "#SBATCH --array=0-31: should be 1-32, one task for"),
    (ARRAY, " --inline", "", "rulesweep run --shard: trains without Ray; say --inline"),
    (ARRAY, "--cpus-per-task=1", "--cpus-per-task=1", "1, but the study wants 2 a worker; raise"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "line"), BROKEN)
def test_a_broken_file_fails_with_the_line_that_mends_it(file, old, new, line):
    study, text = Path("study.yaml"), Path(file).read_text()
    study.write_text(STUDY)
    assert old in text
    Path(file).write_text(text.replace(old, new))
    problems = check(Path(file), study).problems
    assert any(line in problem for problem in problems), problems
    assert all("\n" not in problem for problem in problems)


def test_a_fault_is_one_line_and_exit_code_2(command):
    path = Path(AWS)
    path.write_text(path.read_text().replace("cluster_name: rulesweep\n", ""))
    done = command("cluster", "check", AWS)
    assert done.code == 2
    assert done.err == (
        "error: cluster.yaml: cluster_name: missing; give it one, as cluster_name: rulesweep\n"
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("- a\n- b\n", "no cluster file: should be a mapping"),
        ("a: [\n", "line 2, column 1"),
        ("#!/bin/bash\necho\n", "no #SBATCH line: is it a SLURM batch script?"),
        ("kind: Pod\n", "kind: should be RayJob or RayCluster; got Pod"),
    ],
)
def test_what_is_no_cluster_file_is_refused(command, tmp_path, content, line):
    (tmp_path / "other.yaml").write_text(content)
    done = command("cluster", "check", "other.yaml")
    assert done.code == 2
    assert line in done.err
    assert "Traceback" not in done.err


PINS = Pins("2.60.0", "0.1.0", "3.11", gpus=0.5, cpus=2)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TREES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def places(tree, path=()):
    """The path of every value in a tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in inner:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def with_value(tree, path, value):
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


@pytest.mark.parametrize("file", [AWS, LOCAL, KUBERAY])
@settings(max_examples=25)
@given(data=st.data())
def test_no_tree_gives_a_traceback(file, data):
    tree = parse((ROOT / file).read_text(), file)
    for _ in range(data.draw(st.integers(1, 3))):
        with_value(tree, data.draw(st.sampled_from(list(places(tree)))), data.draw(TREES))
    kind = manifest if file == KUBERAY else launch_file
    for line in kind.problems(tree, PINS):
        assert isinstance(line, str)
    if file != KUBERAY:
        assert "\n" not in (cluster.refusal(tree) or "")


@settings(max_examples=25)
@given(tree=st.dictionaries(st.sampled_from(launch_file.KNOWN) | st.text(), TREES))
def test_no_mapping_passes_for_a_cluster_by_chance(tree):
    assert list(launch_file.problems(tree, PINS))
    assert list(manifest.problems(tree, PINS))


@settings(max_examples=25)
@given(text=st.text() | st.from_regex(r"(#SBATCH --[a-z]+=[0-9a-z-]*\n){3}srun rulesweep run .*"))
def test_no_script_gives_a_traceback(text):
    assert all(isinstance(line, str) for line in batch_script.problems(text, PINS))


def test_a_tree_written_as_yaml_is_checked_as_the_file_is(tmp_path):
    tree = parse((ROOT / LOCAL).read_text(), LOCAL)
    (tmp_path / "again.yaml").write_text(write(tree))
    assert check(tmp_path / "again.yaml").problems == ()
