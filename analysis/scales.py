"""Axes of depth, learning rate and step: where rules stand, and which ticks are written."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullLocator,
)
from numpy.typing import NDArray

DEPTH = "depth (hidden layers)"
"""The name of the axis."""

SPREAD = 0.7
"""The part of a depth's room over which rules are dodged."""

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class DepthScale:
    """The depths of one panel: logarithmic where they span more than a factor of 16."""

    depths: tuple[int, ...]

    @property
    def is_log(self) -> bool:
        """Whether equal factors of depth, not equal steps, lie equally far apart."""
        return min(self.depths) > 0 and max(self.depths) > 16 * min(self.depths)

    @property
    def room(self) -> float:
        """The room of one depth on the axis: never more than to the next, nor than an eighth."""
        places = np.unique(self._places(self.depths))
        return float(min(*np.diff(places), np.ptp(places) / 8)) if len(places) > 1 else 1.0

    def dodged(self, depths: Sequence[int], share: float) -> NDArray[np.float64]:
        """The depths moved by `share` of the room that one of them has."""
        moved = self._places(depths) + share * self.room
        return np.exp2(moved) if self.is_log else moved

    def _places(self, depths: Sequence[int]) -> NDArray[np.float64]:
        places = np.asarray(depths, dtype=float)
        return np.log2(places) if self.is_log else places

    def label(self, ax: Axes) -> None:
        """Integer ticks at the depths, and room for what is dodged at both ends."""
        if self.is_log:
            ax.set_xscale("log", base=2)
        depths = sorted(set(self.depths))
        margin = 0.7 if len(depths) > 1 else 3
        ax.set_xlim(self.dodged(depths, -margin)[0], self.dodged(depths, margin)[-1])
        _integer_ticks(ax, FixedLocator(self._apart(depths)))
        ax.set_xlabel(DEPTH)

    def _apart(self, depths: list[int]) -> list[int]:
        """The depths whose ticks do not run into each other."""
        places = self._places(depths)
        kept = [0]
        for i in range(1, len(depths)):
            if places[i] - places[kept[-1]] >= np.ptp(places) / 15:
                kept.append(i)
        return [depths[i] for i in kept]


def shares(count: int) -> NDArray[np.float64]:
    """The dodge of each of `count` rules: even places around 0."""
    return SPREAD * (np.arange(count) - (count - 1) / 2) / max(count, 1)


def layer_axis(ax: Axes, depth: int) -> None:
    """Hidden layers from 1 to `depth`, the input side first."""
    layers = range(1, depth + 1)
    ax.set_xlim(0.5, depth + 0.5)
    _integer_ticks(ax, FixedLocator(layers if depth <= 5 else [1, (depth + 1) // 2, depth]))


def _integer_ticks(ax: Axes, locator: Locator) -> None:
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))


def log_ticks(ax: Axes, axis: str) -> None:
    """A log scale on `axis` (x or y) with plainly written powers of ten.

    Matplotlib's own labels are mathtext, which this project's style turns off.
    """
    ax.set(**{f"{axis}scale": "log"})
    ticks = ax.xaxis if axis == "x" else ax.yaxis
    low, high = ax.get_xlim() if axis == "x" else ax.get_ylim()
    narrow = high < 100 * low
    ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=4))
    ticks.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if narrow else power(x)))
    ticks.set_minor_locator(NullLocator())


def power(value: float) -> str:
    """A power of ten as text: 10⁻³."""
    return f"10{str(round(np.log10(value))).translate(_SUPERSCRIPT)}"


def step_axis(ax: Axes) -> None:
    """Few ticks, thousands written as k."""
    ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}")
    )
