import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import probe
from orchestrator.doctor import judge
from rules.data import present


@pytest.fixture(scope="module")
def answer():
    """What this machine's Python answers to the probe, as a node's would."""
    words = [sys.executable, "-c", Path(probe.__file__).read_text(), "digits,fashion-mnist", "/tmp"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    return json.loads(done.stdout)


@pytest.fixture
def nodes(answer):
    """Three such nodes in order."""
    ray = {"ray_cpus": 2.0, "ray_gpus": 0.0, "skew": 0.01, "address": "10.0.0.1"}
    found = [copy.deepcopy(answer) | ray | {"name": name} for name in ("head", "two", "three")]
    for node in found:
        node["data"] = {"digits": True}
    return found


def test_a_node_says_what_it_has(answer):
    assert set(answer["versions"]) == {"ray", "torch", "numpy", "rulesweep"}
    assert answer["versions"]["rulesweep"] == "0.1.0"
    assert answer["data"] == {"digits": True, "fashion-mnist": present("fashion-mnist")}
    assert answer["storage"] == ""
    assert answer["threads"] >= 1
    assert answer["cpu"] in ("DEFAULT", "AVX2", "AVX512", "NO AVX")


def test_a_cluster_in_order_has_no_faults(nodes):
    assert list(judge(nodes)) == []


FAULTS = [
    ({"python": "3.9.1"}, "two: Python 3.9.1, but head has 3."),
    ({"versions": {"ray": "2.59.0"}}, "two: rulesweep is not installed"),
    ({"torch_error": "ImportError: libcuda"}, "two: torch cannot be imported: ImportError"),
    ({"ray_gpus": 4.0}, "two: Ray offers 4 GPUs and torch sees 0; install a torch with CUDA"),
    ({"skew": 75.2}, "two: its clock is 75 s ahead; set it by NTP"),
    ({"skew": -75.2}, "two: its clock is 75 s behind; set it by NTP"),
    ({"error": "sh: no python"}, "two: does not answer: sh: no python"),
]


@pytest.mark.parametrize(("found", "line"), FAULTS)
def test_what_would_let_a_study_fail_is_one_line(nodes, found, line):
    nodes[1] |= found
    (problem,) = judge(nodes)
    assert problem.startswith(line)


def test_a_node_with_another_torch_is_named(nodes):
    nodes[2]["versions"]["torch"] = "2.4.0"
    (problem,) = judge(nodes)
    assert problem.startswith("three: torch 2.4.0, but head has 2.")


def test_data_and_storage_matter_on_the_node_that_the_study_is_started_on(nodes):
    for node in nodes[1:]:
        node |= {"data": {"digits": False}, "storage": "no such host"}
    assert list(judge(nodes)) == []
    nodes[0] |= {"data": {"digits": False}, "storage": "no such host"}
    assert list(judge(nodes)) == [
        "head: data set digits is not there; rulesweep datasets fetch digits",
        "head: storage cannot be reached: no such host",
    ]
