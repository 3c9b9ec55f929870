"""Tables about clusters: the nodes of one, the studies submitted to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from orchestrator.show import table

if TYPE_CHECKING:
    from orchestrator.cluster import Job

NODE = ("node", "address", "Ray", "Python", "torch", "rulesweep", "CPUs", "cores", "threads",
        "GPUs", "data", "storage", "clock")  # fmt: skip


def nodes(found: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """One line a node: versions, processors, data, storage, clock."""
    yield table("nodes", NODE, [_node(node) for node in found])


def _node(node: Mapping[str, Any]) -> list[object]:
    if node.get("error"):
        return [node["name"], node["address"], *["?"] * (len(NODE) - 2)]
    versions, data, storage = node["versions"], node["data"], node["storage"]
    return [
        node["name"],
        node["address"],
        *(versions["ray"], node["python"], versions["torch"], versions["rulesweep"]),
        f"{node['ray_cpus']:g}",
        node["cores"],
        node.get("threads"),
        ", ".join(node.get("gpus", [])) or "none",
        ", ".join(f"{name}: {'yes' if there else 'no'}" for name, there in data.items()) or "-",
        "-" if storage is None else "no" if storage else "yes",
        f"{node['skew']:+.1f} s",
    ]


def jobs(found: Sequence[Job]) -> Iterator[RenderableType]:
    """The studies submitted to a cluster, the newest first."""
    if not found:
        yield Text("no study was submitted to this cluster")
        return
    yield table(
        "jobs",
        ["job", "study", "status", "began", ""],
        [[job.id, job.study, job.status.lower(), _began(job), _told(job)] for job in found],
    )


def _began(job: Job) -> str | None:
    return f"{datetime.fromtimestamp(job.began):%Y-%m-%d %H:%M}" if job.began else None


def _told(job: Job) -> str:
    return job.message if job.status == "FAILED" else ""
