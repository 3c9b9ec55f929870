"""How figures look: the plot style, and one colour and marker for a rule everywhere."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import matplotlib as mpl
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D

COLUMN_INCHES = 3.4
"""The width of a figure: one column of a two-column page."""

FONT = "DejaVu Sans"
"""It comes with Matplotlib, so that figures look the same everywhere."""

_STYLE: dict[Any, Any] = {
    "font.family": FONT,
    "font.size": 7,
    "axes.labelsize": 7,
    "axes.titlesize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.title_fontsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.2,
    "lines.markeredgewidth": 0.7,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.2,
    "text.parse_math": False,  # labels are the user's words: $ and _ mean themselves
    "text.usetex": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "rulesweep",
}


@contextmanager
def style() -> Iterator[None]:
    """The plot style, for as long as the context lasts."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # see `without_glyph`
        yield


def without_glyph(words: Iterable[str]) -> str:
    """The characters of some words that the font lacks: figures have boxes in their place."""
    known = get_font(findfont(FONT)).get_charmap()
    return "".join(dict.fromkeys(c for word in words for c in word if ord(c) not in known))


@dataclass(frozen=True)
class Look:
    """A rule's colour and marker."""

    color: str
    marker: str

    def handle(self) -> Line2D:
        """A line with a marker, to stand in a legend."""
        return Line2D([], [], color=self.color, marker=self.marker)


# Okabe and Ito's colours for the rules most often drawn together, Tol's muted ones for the rest.
_LOOKS = {
    "bp": Look("#333333", "o"),
    "fa": Look("#E69F00", "s"),
    "dfa": Look("#0072B2", "^"),
    "sdil": Look("#D55E00", "D"),
    "shallow": Look("#999999", "v"),
    "usf": Look("#56B4E9", "P"),
    "frsf": Look("#009E73", "X"),
    "brsf": Look("#CC79A7", "<"),
    "kp": Look("#882255", ">"),
    "wm": Look("#44AA99", "s"),
    "drtp": Look("#332288", "p"),
    "sdfa": Look("#88CCEE", "*"),
    "np": Look("#117733", "d"),
    "fdfa": Look("#AA4499", "8"),
    "ddtp": Look("#999933", "H"),
    "pepita": Look("#CC6677", "v"),
    "local-loss": Look("#CBB45F", "h"),
    "pc": Look("#661100", "^"),
}
_COLORS = tuple(look.color for look in _LOOKS.values())
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p", "*", "d", "8", "H")


def looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each distinct label, in order of appearance.

    Built-in rules have theirs. Any other label has a colour and a marker derived from its name,
    moved on to the next that no label here has, so that the same labels always look the same.
    """
    names = list(dict.fromkeys(labels))
    taken = {name: _LOOKS[name] for name in names if name in _LOOKS}
    for name in sorted(set(names) - set(taken)):
        colors = {look.color for look in taken.values()}
        markers = {look.marker for look in taken.values()}
        taken[name] = Look(_free(name, _COLORS, colors), _free(name, _MARKERS, markers))
    return {name: taken[name] for name in names}


def _free(name: str, choices: tuple[str, ...], used: set[str]) -> str:
    """The first unused choice, counted from a place that the name decides; else that place's."""
    start = int.from_bytes(sha256(name.encode()).digest()[:4]) % len(choices)
    turned = choices[start:] + choices[:start]
    return next((choice for choice in turned if choice not in used), turned[0])
