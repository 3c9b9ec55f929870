"""How many packs a cluster's nodes can train at once, and which are gone: nodes come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from time import monotonic, sleep

from orchestrator.parts import MOST_SHARING

Node = Mapping[str, float]
"""A node's resources as Ray names them: CPU, GPU."""

UNIT = 10_000
"""Ray counts in ten-thousandths of a GPU."""

SECONDS_BETWEEN_LOOKS = 5
"""How old the count of the cluster's nodes may be."""

GRACE = 2
"""Seconds after which a worker that is gone counts as lost, and not its node: Ray tells late."""


class ScheduleError(RuntimeError):
    """A cluster that cannot run the study; the message is one line for the user."""


class Room:
    """How many packs the cluster can train at once: asked again and again, for nodes come and go.

    `look` gives the nodes that are alive, by id. `most` is what the user asked for. A joined
    cluster may yet grow to it, so there the answer is `most`, and packs that wait for a node are
    what makes an autoscaler start one. `gpus` is a share for each worker, or `auto`.
    """

    def __init__(
        self,
        look: Callable[[], Mapping[str, Node]],
        cpus: int,
        gpus: float | str,
        most: int | None,
        *,
        joined: bool,
    ) -> None:
        """Raises ScheduleError where no node can hold a worker, and none is awaited."""
        self._look, self._most, self._joined, self._looked = look, most, joined, -inf
        nodes = list(self._nodes().values())
        self.cpus = cpus
        self.gpus = share(nodes, cpus) if isinstance(gpus, str) else gpus
        if not any(map(self._fits, nodes)) and not (joined and most):
            has = ", ".join(f"{n.get('CPU', 0):g} cpus and {n.get('GPU', 0):g} gpus" for n in nodes)
            raise ScheduleError(
                f"resources: no node has {cpus} cpus and {self.gpus:g} gpus for a worker; the "
                f"nodes have {has}; if the cluster grows by itself, say to how many workers: "
                "--workers N"
            )

    def __call__(self) -> int:
        """The number of packs; at least one, which then waits for a node to come."""
        if self._joined and self._most:
            return self._most
        found = sum(map(self._fits, self._nodes().values()))
        return max(1, min(found, self._most or found))

    def nodes(self) -> frozenset[str]:
        """The ids of the nodes that are alive."""
        return frozenset(self._nodes())

    def lost_any(self, nodes: frozenset[str]) -> bool:
        """Whether one of these nodes has died; asked where a worker was lost, so it may wait."""
        for _ in range(GRACE if self._joined else 0):  # here there is one node only
            if nodes - set(self._look()):
                return True
            sleep(1)
        return False

    def _nodes(self) -> Mapping[str, Node]:
        if monotonic() - self._looked > SECONDS_BETWEEN_LOOKS:
            self._looked, self._seen = monotonic(), self._look()
        return self._seen

    def _fits(self, node: Node) -> int:
        by_cpu = int(node.get("CPU", 0) // self.cpus)
        share = round(self.gpus * UNIT)
        return min(by_cpu, int(node.get("GPU", 0) * UNIT) // share) if share else by_cpu


def share(nodes: Sequence[Node], cpus: int) -> float:
    """The share of a GPU where as many workers take one as the CPUs beside it allow, to a limit.

    On a cluster whose GPUs are yet to come, a quarter.
    """
    counts = [int(n.get("CPU", 0) // (cpus * n["GPU"])) for n in nodes if n.get("GPU")]
    sharing = min(max(1, *counts), MOST_SHARING) if counts else 4
    return UNIT // sharing / UNIT
