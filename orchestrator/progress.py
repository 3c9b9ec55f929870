"""How a run shows itself: a live table on a terminal, one line a finished pack elsewhere."""

from __future__ import annotations

import time
from collections import Counter, deque

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.sweep import Finished, Pump

PHASES = ("tune", "evaluate")


def duration(seconds: float) -> str:
    """A time span in the words of a clock: `42 s`, `3 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Pace:
    """How fast a run goes, and how long it will still take."""

    def __init__(self, pump: Pump) -> None:
        self.pump, self.began = pump, time.monotonic()
        self.before = sum(pump.counts.values())
        self.spent: Counter[str] = Counter()  # microseconds of training by label
        self.done: Counter[str] = Counter()  # operations of these

    def add(self, finished: Finished) -> None:
        """Take a pack's time into account."""
        label = finished.pack.cell.rule.label
        self.spent[label] += int(1e6 * finished.seconds)
        self.done[label] += int(finished.pack.cost)

    @property
    def networks_a_second(self) -> float:
        """Networks finished a second of wall time, since the run began."""
        return (sum(self.pump.counts.values()) - self.before) / (time.monotonic() - self.began)

    @property
    def left(self) -> float | None:
        """Seconds left at the pace of every rule so far; None before the first pack."""
        if not self.done:
            return None
        everyone = sum(self.spent.values()) / sum(self.done.values())
        seconds = 0.0
        for label, work in self.pump.work.items():
            pace = self.spent[label] / self.done[label] if self.done[label] else everyone
            seconds += max(0, work - self.pump.worked[label]) * pace / 1e6
        return seconds / max(1, self.pump.workers)

    def __str__(self) -> str:
        left = self.left
        ahead = f"about {duration(left)} left" if left is not None else "workers are starting"
        return f"{self.networks_a_second:.1f} networks/s, {ahead}"


class Lines:
    """One line for every finished pack: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def began(self, pump: Pump) -> None:
        self.pump, self.pace = pump, Pace(pump)
        self._say(f"{sum(pump.counts.values())} networks in the table, {pump.missing} to train")

    def packed(self, finished: Finished) -> None:
        self.pace.add(finished)
        cell, statuses = finished.pack.cell, Counter(finished.statuses)
        told = ", ".join(f"{n} {status}" for status, n in statuses.items())
        done, total = sum(self.pump.counts.values()), sum(self.pump.totals.values())
        self._say(
            f"[{done}/{total}] {cell.rule.label} {finished.phase} depth {cell.network.depth} "
            f"width {cell.network.width} {cell.task.dataset}: {told} "
            f"in {finished.seconds:.1f} s; {self.pace}"
        )
        for error in finished.errors:
            self._say(f"  failed: {error}")

    def ended(self) -> None: ...

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveTable:
    """A table that stays in place: a bar for every rule and phase, pace, last failures."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.failures: deque[str] = deque(maxlen=3)
        self.live: Live | None = None

    def began(self, pump: Pump) -> None:
        self.pump, self.pace = pump, Pace(pump)
        self.live = Live(console=self.console, get_renderable=self._render, refresh_per_second=4)
        self.live.start()

    def packed(self, finished: Finished) -> None:
        self.pace.add(finished)
        cell = finished.pack.cell
        self.failures.extend(
            f"{cell.rule.label} depth {cell.network.depth}: {error}" for error in finished.errors
        )

    def ended(self) -> None:
        if self.live is not None:
            self.live.stop()

    def _render(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("rule", *PHASES, "diverged", "failed"):
            table.add_column(heading)
        for label in dict.fromkeys(label for label, _ in self.pump.totals):
            bars = [self._bar(label, phase) for phase in PHASES]
            table.add_row(
                Text(label), *bars, *(self._number(label, s) for s in ("diverged", "failed"))
            )
        lines = [Text(line, style="red") for line in self.failures]
        return Group(table, Text(str(self.pace)), *lines)

    def _bar(self, label: str, phase: str) -> RenderableType:
        total = self.pump.totals[label, phase]
        if not total:
            return Text("-")
        done = sum(n for (l, p, _), n in self.pump.counts.items() if (l, p) == (label, phase))
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total, done, width=18), Text(f"{done}/{total}"))
        return row

    def _number(self, label: str, status: str) -> Text:
        n = sum(n for (l, _, s), n in self.pump.counts.items() if (l, s) == (label, status))
        return Text(str(n) if n else "", style="yellow" if status == "diverged" else "red")


def reporter(console: Console) -> Lines | LiveTable:
    """The reporter that suits the console."""
    return LiveTable(console) if console.is_terminal else Lines(console)
