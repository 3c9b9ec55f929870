"""The pump: campaigns in, packs out, rows back; the table is asked first. And the inline loop."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from time import monotonic
from typing import Any

import pyarrow as pa

from orchestrator.campaign import Answer, Campaign, Wanted, campaigns
from orchestrator.columns import SCHEMA, from_blob, notes_of, table_of
from orchestrator.grid import Grid
from orchestrator.pack_limit import most
from orchestrator.plan_rows import PlanRows
from orchestrator.store import Store
from orchestrator.trial import Pack, Trial
from rules.pack_size import in_groups

KILLS = 3
"""Workers that a pack of one may take with it before it counts as failed."""


@dataclass(frozen=True)
class Limits:
    """When a run stops though networks are missing; packs under way are always finished."""

    seconds: float = inf  # of the run, from when it begins
    failures: float = inf  # networks that failed in this run


NO_LIMITS = Limits()


@dataclass
class Live:
    """A campaign under way: what it wants now, and which of that is not in the table yet."""

    campaign: Campaign
    steps: Generator[list[Wanted], Sequence[Answer], None]
    wanted: list[Wanted] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Finished:
    """A pack that came back: what an observer is told."""

    pack: Pack
    phase: str
    statuses: tuple[str, ...]
    errors: tuple[str, ...]  # last lines of the failed ones' tracebacks
    seconds: float  # of training, for all its networks
    notes: tuple[str, ...] = ()  # of its worker, for the log


class Pump:
    """Hands out the packs that the table does not answer, and takes their rows.

    It knows nothing of Ray: whoever trains packs calls `take` and `give`. Rows are on the disk
    before a campaign learns of them, so whatever ends the process, the next run goes on.
    """

    def __init__(
        self,
        grid: Grid,
        store: Store,
        study_id: str,
        revision: str = "",
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.grid, self.store = grid, store
        self.plans = PlanRows(grid.study, study_id, store)
        self.replicas = grid.study.resources.replicas
        self.workers, self.revision, self.limits = 1, revision, limits
        self._began = monotonic()
        self.observe: Callable[[Finished], None] = lambda finished: None
        self.totals: Counter[tuple[str, str]] = Counter()  # networks by (label, phase)
        self.counts: Counter[tuple[str, str, str]] = Counter()  # by (label, phase, status)
        self.work: Counter[str] = Counter()  # operations by label, of all its networks
        self.worked: Counter[str] = Counter()  # and of those in the table
        self.changed: Counter[str] = Counter()  # rows of a user's rule that another file trained
        self.trained = 0  # networks whose rows came back since the pump was made
        self.failures = 0  # and of these, how many failed
        self.borrowed = 0  # networks whose rows came from another run
        self.stopped: list[str] = []  # campaigns all of whose points failed
        self._order = count()
        self._queue: list[tuple[float, int, Pack]] = []
        self._flying: set[str] = set()  # ids of trials that are queued or out
        self._out = 0  # packs out
        self._kills: Counter[str] = Counter()
        self._waiting: dict[str, list[tuple[Live, Wanted]]] = {}
        self._start(campaigns(grid))

    @property
    def finished(self) -> bool:
        """Whether every campaign has all that it wants."""
        return self._live == 0

    @property
    def missing(self) -> int:
        """Networks that the study wants and the table lacks, as far as can be known now."""
        return sum(self.totals.values()) - sum(self.counts.values())

    @property
    def closed(self) -> str:
        """The limit that ended the run, `failures` or `time`; empty while packs are handed out."""
        if self.failures >= self.limits.failures:
            return "failures"
        return "time" if monotonic() - self._began >= self.limits.seconds else ""

    def missing_of(self, label: str) -> int:
        """Networks of a rule that the study wants and the table lacks."""
        wanted = sum(n for (rule, _), n in self.totals.items() if rule == label)
        return wanted - sum(n for (rule, _, _), n in self.counts.items() if rule == label)

    def take(self) -> Pack | None:
        """The next pack, costliest first; None while every campaign waits, or when closed."""
        self.plans.write()
        if not self._queue or self.closed:
            return None
        self._split()
        _, _, pack = heapq.heappop(self._queue)
        self._out += 1
        return pack

    def give(self, pack: Pack, blob: bytes | None) -> None:
        """Take a pack's rows; None where its worker was lost."""
        self._out -= 1
        rows = from_blob(blob) if blob is not None else self._lost(pack)
        if not rows.num_rows:
            return
        revision = pa.array([self.revision] * rows.num_rows, pa.string())
        place = rows.schema.get_field_index("revision")
        notes, rows = notes_of(rows), rows.replace_schema_metadata(SCHEMA.metadata)
        self.store.add(rows.set_column(place, "revision", revision))
        ids = rows["trial"].to_pylist()
        self.trained += len(ids)
        phase = self._waiting[ids[0]][0][1].phase
        statuses = tuple(rows["status"].to_pylist())
        self.failures += statuses.count("failed")
        errors = tuple(e.strip().splitlines()[-1] for e in rows["error"].to_pylist() if e)
        seconds = sum(s or 0.0 for s in rows["seconds"].to_pylist())
        self._answered(ids)
        self.observe(Finished(pack, phase, statuses, errors, seconds, tuple(notes)))

    def _start(self, wanted: Sequence[Campaign]) -> None:
        for cell, phase, number in (size for campaign in wanted for size in campaign.sizes):
            self.totals[cell.rule.label, phase] += number
            self.work[cell.rule.label] += number * int(cell.cost)
        self.plans.outline(wanted)
        self._live = len(wanted)
        for campaign in wanted:
            self._advance(Live(campaign, campaign.run(self.store.asked.get(campaign.id, {}))), None)

    def _advance(self, live: Live, answers: Sequence[Answer] | None) -> None:
        """Move a campaign on for as long as the table answers what it wants."""
        while True:
            try:
                live.wanted = live.steps.send(answers) if answers is not None else next(live.steps)
            except StopIteration:
                self._live -= 1
                if live.wanted[0].phase == "tune":
                    self.stopped.append(live.wanted[0].trial.cell.rule.label)
                return
            self._ask_table(live)
            if live.missing:
                self._enqueue(live)
                return
            answers = [self.store.answers[w.trial.id] for w in live.wanted]

    def _ask_table(self, live: Live) -> None:
        """Plan what a campaign wants, count what the table knows of it, find what is missing."""
        self.borrowed += self.store.borrow(w.trial.id for w in live.wanted)
        known, live.missing = self.store.answers, set()
        for wanted in live.wanted:
            self.plans.note(live.campaign, wanted, known=True)
            if wanted.trial.id in known:
                self._serve(wanted, known[wanted.trial.id])
            else:
                live.missing.add(wanted.trial.id)

    def _enqueue(self, live: Live) -> None:
        cells: dict[str, list[Trial]] = {}
        for wanted in live.wanted:
            trial = wanted.trial
            if trial.id not in live.missing:
                continue
            self._waiting.setdefault(trial.id, []).append((live, wanted))
            if trial.id not in self._flying:
                self._flying.add(trial.id)
                cells.setdefault(trial.cell.content, []).append(trial)
        for trials in cells.values():
            for group in in_groups(len(trials), most(trials[0].cell, self.replicas)):
                self._push(Pack(tuple(trials[group.start : group.stop])))

    def _push(self, pack: Pack) -> None:
        heapq.heappush(self._queue, (-pack.cost, next(self._order), pack))

    def _split(self) -> None:
        """Halve the costliest packs of several networks while workers would be left without one."""
        idle = max(1, self.workers - self._out)
        while len(self._queue) < idle:
            several = [entry for entry in self._queue if len(entry[2].trials) > 1]
            if not several:
                return
            self._queue.remove(min(several))
            heapq.heapify(self._queue)
            for half in min(several)[2].halves():
                self._push(half)

    def put_back(self, pack: Pack) -> None:
        """Queue a pack again as it is: its node was lost, through no fault of its networks."""
        self._out -= 1
        self._push(Pack(pack.trials, pack.attempts + 1))

    def _lost(self, pack: Pack) -> pa.Table:
        """Queue the halves of a pack whose worker died; a killer on its own becomes a row."""
        again = Pack(pack.trials, pack.attempts + 1)
        if len(pack.trials) > 1:
            for half in again.halves():
                self._push(half)
            return table_of([])
        (trial,) = pack.trials
        self._kills[trial.id] += 1
        if self._kills[trial.id] < KILLS:
            self._push(again)
            return table_of([])
        error = f"the worker died {KILLS} times while it trained this network alone"
        return table_of([trial.coordinates | {"status": "failed", "error": error}])

    def _answered(self, ids: Sequence[str]) -> None:
        """Tell the campaigns that waited for these trials; those that have all they want go on."""
        waiters: dict[int, Live] = {}
        for trial_id in ids:
            self._flying.discard(trial_id)
            status = self.store.answers[trial_id]["status"]
            for live, wanted in self._waiting.pop(trial_id, []):
                self._count(wanted, status)
                live.missing.discard(trial_id)
                waiters[id(live)] = live  # two labels of one rule make campaigns of equal ids
        for live in waiters.values():
            if not live.missing:
                self._advance(live, [self.store.answers[w.trial.id] for w in live.wanted])

    def _serve(self, wanted: Wanted, answer: Answer) -> None:
        """Count a network that the table answers; note where a user has since edited its rule."""
        self._count(wanted, answer["status"])
        rule = wanted.trial.cell.rule
        if ":" in rule.name and answer["source"] not in (None, rule.source):
            self.changed[rule.name] += 1

    def _count(self, wanted: Wanted, status: str) -> None:
        cell = wanted.trial.cell
        self.counts[cell.rule.label, wanted.phase, status] += 1
        self.worked[cell.rule.label] += int(cell.cost)


def run_inline(pump: Pump, train_pack: Callable[[dict[str, Any]], bytes]) -> None:
    """Train every pack in this process, one after the other: for debuggers and a first look."""
    while (pack := pump.take()) is not None:
        pump.give(pack, train_pack(pack.as_dict()))
