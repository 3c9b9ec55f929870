"""Examining a running cluster: what every node has, and what of that would let a study fail."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator import cluster, schedule
from orchestrator.spec import load_study

SKEW = 60.0
"""Seconds by which a node's clock may differ: buckets refuse requests at 15 minutes."""

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Examined:
    """A cluster, node by node, and its faults."""

    nodes: tuple[Facts, ...]
    problems: tuple[str, ...]  # each a line: a study would fail
    notes: tuple[str, ...]  # each a line: it would not, but look


def examine(address: str, study: Path | None = None, storage: str | None = None) -> Examined:
    """Ask every node of the cluster at `address` what it has.

    Args:
        address: `auto` or HOST:PORT, on a node of the cluster.
        study: a study's file: can a node hold its workers, are its data on this node?
        storage: where results are to go; RULESWEEP_RUNS by default.

    Raises:
        ScheduleError: no cluster there, or one that refuses.
        StudyError: the study cannot be read.
    """
    found = load_study(study) if study is not None else None
    names = [name for b in found.blocks for name in b.dataset if ":" not in name] if found else []
    place = storage if storage is not None else os.environ.get("RULESWEEP_RUNS", "")
    schedule.start(address)
    try:
        nodes = cluster.probe([",".join(dict.fromkeys(names)), place])
    finally:
        schedule.stop()
    problems = list(judge(nodes))
    if found is not None:
        problems += _room(nodes, found.resources.cpus, found.resources.least_gpus)
    return Examined(tuple(nodes), tuple(problems), tuple(_notes(nodes)))


def judge(nodes: Sequence[Facts]) -> Iterator[str]:
    """What would let a study fail, node by node; the first is the one the study is started on."""
    here = nodes[0]
    for node in nodes:
        if node.get("error"):
            yield f"{node['name']}: does not answer: {node['error']}"
        elif node["versions"].get("rulesweep") is None:
            yield f"{node['name']}: rulesweep is not installed; see docs/clusters.md"
        else:
            yield from _node(node, here)
    if here.get("error"):
        return
    for data in [name for name, there in here.get("data", {}).items() if not there]:
        yield f"{here['name']}: data set {data} is not there; rulesweep datasets fetch {data}"
    if here.get("storage"):
        yield f"{here['name']}: storage cannot be reached: {here['storage']}"


def _node(node: Facts, here: Facts) -> Iterator[str]:
    """A worker must compute what the driver would: the same versions, and GPUs that work."""
    name, seen = node["name"], len(node.get("gpus", ()))
    theirs = {"Python": node["python"], **node["versions"]}
    if not here.get("error"):
        ours = {"Python": here["python"], **here["versions"]}
        unlike = [what for what in ours if theirs.get(what) != ours[what]]
        yield from (f"{name}: {w} {theirs[w]}, but {here['name']} has {ours[w]}" for w in unlike)
    if node.get("torch_error"):
        yield f"{name}: torch cannot be imported: {node['torch_error']}"
    elif node["ray_gpus"] > seen:
        offers = f"Ray offers {node['ray_gpus']:g} GPUs and torch sees {seen}"
        yield f"{name}: {offers}; install a torch with CUDA, or mend the GPU's driver"
    if abs(node["skew"]) > SKEW:
        way = "ahead" if node["skew"] > 0 else "behind"
        yield f"{name}: its clock is {abs(node['skew']):.0f} s {way}; set it by NTP"


def _room(nodes: Sequence[Facts], cpus: int, gpus: float) -> Iterator[str]:
    able = [n for n in nodes if n["ray_cpus"] >= cpus and n["ray_gpus"] >= min(gpus, 1.0)]
    if not able:
        yield (
            f"no node has {cpus} CPUs and {gpus:g} GPU for a worker of the study; where nodes "
            "come when they are needed, start it with --workers N"
        )


def _notes(nodes: Sequence[Facts]) -> Iterator[str]:
    """What changes last digits or speed, and lets nothing fail."""
    kinds = {str(node["cpu"]) for node in nodes if node.get("cpu")}
    if len(kinds) > 1:
        told = ", ".join(sorted(kinds))
        yield f"the nodes' processors differ ({told}): rows agree closely, not always bit for bit"
    for node in nodes:
        if not node.get("error") and node["ray_cpus"] > node["cores"]:
            yield (
                f"{node['name']}: Ray offers {node['ray_cpus']:g} CPUs of {node['cores']} cores; "
                "workers will wait for each other"
            )
