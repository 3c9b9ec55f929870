"""Axes of depth, learning rate and step: where rules stand, and which ticks are written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from numpy.typing import NDArray

SPREAD = 0.7
"""The part of the least distance between two depths over which rules are dodged."""

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
    def gap(self) -> float:
        """The least distance between two depths, in places of the axis."""
        places = np.unique(self._places(self.depths))
        return float(np.diff(places).min()) if len(places) > 1 else 1.0

    def dodged(self, depths: Sequence[int], share: float) -> NDArray[np.float64]:
        """The depths moved by `share` of the least distance between two of the panel."""
        moved = self._places(depths) + share * self.gap
        return np.exp2(moved) if self.is_log else moved

    def _places(self, depths: Sequence[int]) -> NDArray[np.float64]:
        places = np.asarray(depths, dtype=float)
        return np.log2(places) if self.is_log else places

    def label(self, ax: Axes) -> None:
        """Integer ticks at the depths, and room for what is dodged at both ends."""
        if self.is_log:
            ax.set_xscale("log", base=2)
        ends = [min(self.depths)], [max(self.depths)]
        ax.set_xlim(self.dodged(ends[0], -0.6)[0], self.dodged(ends[1], 0.6)[0])
        integer_ticks(ax, self.depths)
        ax.set_xlabel("depth (hidden layers)")


def shares(count: int) -> NDArray[np.float64]:
    """The dodge of each of `count` rules: even places around 0."""
    return SPREAD * (np.arange(count) - (count - 1) / 2) / max(count, 1)


def integer_ticks(ax: Axes, values: Iterable[int], most: int = 10) -> None:
    """A tick at every value, or at round integers where these are more than `most`."""
    places = sorted(set(values))
    few = FixedLocator(places) if len(places) <= most else MaxNLocator(most // 2, integer=True)
    ax.xaxis.set_major_locator(few)
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
    ticks.set_minor_formatter(NullFormatter())


def power(value: float) -> str:
    """A power of ten as text: 10⁻³."""
    return f"10{str(round(np.log10(value))).translate(_SUPERSCRIPT)}"


def step_axis(ax: Axes) -> None:
    """Few ticks, thousands written as k."""
    ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}")
    )
