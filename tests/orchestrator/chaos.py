"""Faults at random over one study on a cluster of three nodes: is a row lost, does one differ?

    python tests/orchestrator/chaos.py --minutes 10

Kills workers, nodes and drivers, interrupts drivers, damages parts of the table; runs the study
again after each end, lets it finish, and compares its table with that of an undisturbed run.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import orchestrator.ray_settings  # noqa: F401 - they must stand before Ray is imported
from orchestrator import run, study_from
from orchestrator.columns import named
from orchestrator.store import trials
from orchestrator.yaml_file import write

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
PROGRAM = Path(sys.executable).with_name("rulesweep")
SHARED = {
    "task": {"dataset": "teacher", "samples": 400, "test_samples": 200, "inputs": 16, "outputs": 4,
             "width": 16, "targets": "classes", "validation": 0.25},
    "rules": ["bp", "fa", "dfa", "sdil"],
    "resources": {"replicas": 8},
}  # fmt: skip
LARGE = SHARED | {
    "name": "chaos",
    "training": {"steps": 1500, "batch_size": 32, "record": 4},
    "grid": {"depth": [1, 2, 4], "width": 32, "seeds": 8},
    "search": {"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 4, "seeds": 2},
}  # 288 networks
SMALL = SHARED | {
    "name": "chaos",
    "training": {"steps": 200, "batch_size": 32, "record": 4},
    "grid": {"depth": [1, 3], "width": 16, "seeds": 3},
    "search": {"lr": {"low": 0.01, "high": 1.0}, "rounds": 1, "points": 3, "seeds": 1},
}  # 48 networks


class Chaos:
    """A cluster of our own, a study on it, and what befell them."""

    def __init__(self, study: dict[str, object], folder: Path, chance: random.Random) -> None:
        from ray.cluster_utils import Cluster  # after our settings: a cluster with a token

        self.study, self.folder, self.chance = study, folder, chance
        (folder / "study.yaml").write_text(write(study))
        self.cluster = Cluster(initialize_head=True, head_node_args=NODE | {"num_cpus": 0})
        for _ in range(3):
            self.cluster.add_node(**NODE)
        self.faults: Counter[str] = Counter()
        self.driver: subprocess.Popen[bytes] | None = None
        self.rounds = 0

    def start(self) -> None:
        """Start or restart the driver; where it left the study finished, in a new run folder."""
        if self.driver is not None and self.driver.returncode == 0:
            self.rounds += 1
        words = ["run", "study.yaml", "--out", f"run{self.rounds}", "--retry", "failed"]
        words += ["--address", self.cluster.address]
        with (self.folder / "driver.log").open("ab") as log:
            self.driver = subprocess.Popen(
                [PROGRAM, *words], cwd=self.folder, stdout=log, stderr=log
            )

    def strike(self) -> None:
        """One fault, of a kind drawn at random."""
        kinds = [self.kill_worker, self.kill_node, self.kill_driver, self.interrupt, self.damage]
        fault = self.chance.choices(kinds, weights=[8, 2, 2, 2, 1])[0]
        if fault():
            self.faults[fault.__name__.replace("_", " ")] += 1

    def kill_worker(self) -> bool:
        workers = descendants(os.getpid(), "ray::PackTrial", "ray::ResourceTrainable")
        if workers:
            os.kill(self.chance.choice(workers), signal.SIGKILL)
        return bool(workers)

    def kill_node(self) -> bool:
        nodes = sorted(self.cluster.worker_nodes, key=lambda node: node.node_id)
        self.cluster.remove_node(self.chance.choice(nodes), allow_graceful=False)
        self.cluster.add_node(**NODE)
        return True

    def kill_driver(self) -> bool:
        return self._end_driver(signal.SIGKILL)

    def interrupt(self) -> bool:
        return self._end_driver(self.chance.choice([signal.SIGINT, signal.SIGTERM]))

    def damage(self) -> bool:
        """Cut or flip a part of the table while nobody writes it."""
        self._end_driver(signal.SIGTERM)
        parts = sorted((self.folder / f"run{self.rounds}" / "trials").glob("part-*.parquet"))
        if not parts:
            return False
        part = self.chance.choice(parts)
        content = bytearray(part.read_bytes())
        content[self.chance.randrange(len(content))] ^= self.chance.randrange(1, 256)
        part.write_bytes(content[: self.chance.choice([len(content), len(content) // 2])])
        return True

    def _end_driver(self, number: signal.Signals) -> bool:
        assert self.driver is not None
        if self.driver.poll() is not None:
            return False
        self.driver.send_signal(number)
        self.driver.wait(timeout=120)
        return True

    def go(self, seconds: float, pause: float) -> None:
        """Strike for so long, then let the study come to its end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.driver is None or self.driver.poll() is not None:
                self.start()
            time.sleep(self.chance.expovariate(1 / pause))
            self.strike()
        while self.driver is None or self.driver.wait() != 0:
            self.start()


def descendants(pid: int, *names: str) -> list[int]:
    """The processes under this one whose command starts with one of these names."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            children.setdefault(int(stat.read_text().rpartition(") ")[2].split()[1]), []).append(
                int(stat.parent.name)
            )
        except OSError:  # it has ended
            continue
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return [p for p in found[1:] if command_of(p).startswith(names)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def table(folder: Path) -> dict[str, str]:
    """The rows of a run by what each is for, as text."""
    columns = [*named("coordinate", "result"), "phase", "label", "round", "point"]
    rows = trials(folder).select(columns).to_pylist()
    keys = [str([row[k] for k in ("label", "trial", "phase", "round", "point")]) for row in rows]
    return dict(zip(keys, map(repr, rows), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--pause", type=float, default=8, help="mean seconds between faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="48 networks instead of 288")
    return trial(parser.parse_args())


def trial(given: argparse.Namespace) -> int:
    """Disturb a study, compare it with the undisturbed one, and print what came out."""
    study = SMALL if given.small else LARGE
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = Path(temporary)
        run(study_from(study), folder / "undisturbed", inline=True)
        wanted = table(folder / "undisturbed")
        chaos = Chaos(study, folder, random.Random(given.seed))
        try:
            chaos.go(60 * given.minutes, given.pause)
        finally:
            if chaos.driver is not None:
                chaos.driver.kill()
            chaos.cluster.shutdown()
        lost = differing = 0
        for number in range(chaos.rounds + 1):
            found = table(folder / f"run{number}")
            lost += sum("'status': 'pending'" in row for row in found.values())
            lost += len(wanted.keys() - found.keys())
            differing += sum(found[key] != wanted[key] for key in found.keys() & wanted.keys())
    for kind, count in sorted(chaos.faults.items()):
        print(f"{kind:12} {count}")
    print(
        f"{chaos.rounds + 1} runs of {len(wanted)} networks; "
        f"rows lost {lost}, differing {differing}"
    )
    return int(bool(lost or differing))


if __name__ == "__main__":
    raise SystemExit(main())
