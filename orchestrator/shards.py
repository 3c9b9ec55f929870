"""A study dealt to independent jobs, each with a part of the run folder; and their merging."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.campaign import Campaign, campaigns
from orchestrator.folder import driven, held
from orchestrator.grid import Grid
from orchestrator.lease import Lease
from orchestrator.part_files import shard_folders
from orchestrator.store import Store, StoreError, current, opened
from orchestrator.yaml_file import StudyError, shown


@dataclass(frozen=True)
class Shard:
    """One of `count` independent jobs, numbered from 1."""

    number: int
    count: int

    @property
    def name(self) -> str:
        """Its folder's name inside the run folder's `shards`."""
        return f"{self.number:04d}-of-{self.count:04d}"

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def shard_of(text: str) -> Shard:
    """The shard that `3/32` names.

    Raises:
        StudyError: it names none.
    """
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise StudyError(
            [f"--shard {shown(text)}: should be NUMBER/COUNT, counted from 1, as 3/32"]
        )
    return Shard(int(found[1]), int(found[2]))


def share(grid: Grid, shard: Shard) -> Grid:
    """The shard's part of a study: whole campaigns, so that shards need nothing of each other.

    Costliest first, each to the shard with the least so far; the same on every machine. Campaigns
    with networks in common (one rule under two labels) stay together and train them once.
    """
    groups = sorted(_groups(campaigns(grid)), key=_cost, reverse=True)
    loads, mine = [0.0] * shard.count, set[str]()
    for group in groups:
        least = loads.index(min(loads))
        loads[least] += _cost(group)
        if least == shard.number - 1:
            mine |= {cell.content for campaign in group for cell in campaign.cells}
    kept = tuple(e for e in grid.evaluations if e.cell.content in mine)
    return replace(grid, evaluations=kept)


def _cost(group: Sequence[Campaign]) -> float:
    return sum(cell.cost * number for campaign in group for cell, _, number in campaign.sizes)


def _groups(found: Sequence[Campaign]) -> list[list[Campaign]]:
    """The campaigns, those that share a cell in one group."""
    groups: list[tuple[set[str], list[Campaign]]] = []
    for campaign in found:
        contents, members = {cell.content for cell in campaign.cells}, [campaign]
        apart = []
        for others, group in groups:
            if contents & others:
                contents, members = contents | others, group + members
            else:
                apart.append((others, group))
        groups = [*apart, (contents, members)]
    return [members for _, members in groups]


@dataclass(frozen=True)
class Merged:
    """What a merge did."""

    shards: int
    results: int  # rows of trained networks that the table has gained


def merge(run: str | Path) -> Merged:
    """Move the rows of all shards into the run's one table, and remove the shards' folders.

    It may be cut off at any time: rows are in the table before a shard's folder goes.

    Raises:
        StoreError: no run folder, or a shard is at work.
    """
    current(opened(run))
    with ExitStack() as stack:
        folder, mirror = stack.enter_context(driven(run))
        shards = shard_folders(folder)
        for shard in shards:
            stack.enter_context(_idle(shard))
            if mirror is not None:
                Lease(mirror.remote, mirror.id, f"shards/{shard.name}").refuse()
        store = Store(folder, owner=True, mirror=mirror)
        results = store.absorb(shards)
        if mirror is not None:
            mirror.clear("shards")
        shutil.rmtree(folder / "shards", ignore_errors=True)
    return Merged(len(shards), results)


def _idle(shard: Path) -> ExitStack:
    """Hold a shard's folder, so that it cannot be at work."""
    try:
        stack = ExitStack()
        stack.enter_context(held(shard))
    except StoreError as error:
        reason = str(error).partition(";")[0]
        raise StoreError(f"{reason}: a shard is at work; merge when it has ended") from None
    return stack
