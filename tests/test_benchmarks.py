"""The benchmarks run; what they measure is for quiet machines."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def check(module: str, *words: str) -> None:
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sections_without_ray_give_their_numbers(tmp_path):
    """Those that start no Ray: it would be minutes."""
    names, file = ["packing", "shares", "table"], tmp_path / "numbers.json"
    check("benchmarks", "--quick", "--only", ",".join(names), "--out", str(file))
    sections = json.loads(file.read_text())["sections"]
    assert list(sections) == names
    for section in sections.values():
        assert section["error"] is None
        assert all(
            number["low"] <= number["value"] <= number["high"] for number in section["numbers"]
        )


def test_the_gpus_benchmark_runs_on_a_cpu(tmp_path):
    file = tmp_path / "numbers.json"
    check("benchmarks.gpu", "--seconds", "0.01", "--budget", "2", "--out", str(file))
    first, *_ = json.loads(file.read_text())["rows"]
    assert first["device"] == "cpu"
    assert first["networks_steps_a_second"] > 0
    assert first["megabytes_counted"] > 0.2  # weights, their momentum, a batch
