"""A measured number with its spread and its aim, and the table that shows many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Number:
    """One measured quantity: its samples, its unit, and what it should be."""

    name: str
    samples: tuple[float, ...]
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def value(self) -> float:
        """The median of the samples."""
        return median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest sample."""
        return min(self.samples), max(self.samples)

    @property
    def met(self) -> bool | None:
        """Whether the value is as it should be; None where nothing is asked of it."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        low, high = self.spread
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "low": low,
            "high": high,
            "samples": list(self.samples),
            "at_least": self.at_least,
            "at_most": self.at_most,
            "met": self.met,
        }


def number(
    name: str, samples: float | Iterable[float], unit: str = "", **aim: float | None
) -> Number:
    """A Number from one sample or from many."""
    values = (samples,) if isinstance(samples, int | float) else tuple(samples)
    return Number(name, tuple(map(float, values)), unit, **aim)


def table(numbers: Sequence[Number]) -> str:
    """The numbers as lines of text: name, median, unit, spread, aim."""
    rows = [(n.name, _text(n.value), n.unit, _spread(n), _aim(n)) for n in numbers]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"  {name:<{widths[0]}}  {value:>{widths[1]}} {unit:<{widths[2]}}  {low_high:<{widths[3]}}"
        f"  {aim}".rstrip()
        for name, value, unit, low_high, aim in rows
    )


def _text(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _spread(shown: Number) -> str:
    low, high = map(_text, shown.spread)
    return f"{low} to {high}" if len(shown.samples) > 1 else ""


def _aim(shown: Number) -> str:
    if shown.met is None:
        return ""
    wanted = (
        f"at most {shown.at_most:g}" if shown.at_least is None else f"at least {shown.at_least:g}"
    )
    return f"aim: {wanted}, {'met' if shown.met else 'MISSED'}"
