"""Numbers, counts and lists of a report as they are read."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def listed(values: Iterable[object], last: str = "and") -> str:
    """`a, b and c`; numbers as they are read."""
    words = [number(value) for value in values]
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def number(value: object) -> str:
    """A number as it is read: thousands marked, no trailing zeros; text as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def noun(count: object, word: str) -> str:
    """The word, in the plural unless there is exactly one."""
    if count == 1:
        return word
    return f"{word}es" if word.endswith("ss") else f"{word}s"


def counted(count: object, word: str) -> str:
    """`1 seed`, `3 seeds`, `3,600 examples`."""
    return f"{number(count)} {noun(count, word)}"


def settings(values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> str:
    """Options as they are set: `feedback_scale = fan-in, scale = 1`."""
    pairs = values.items() if isinstance(values, Mapping) else values
    told = ((name, f"{v:g}" if isinstance(v, float) else str(v)) for name, v in pairs)
    return ", ".join(f"{name} = {value}" for name, value in told)


def decimals(*values: float) -> list[str]:
    """Numbers that stand together, with three decimals and without the zero before the point.

    Where all are tiny or one is large, they have three digits that count instead.
    """
    size = max((abs(value) for value in values if np.isfinite(value)), default=0.0)
    plain = size == 0 or 0.001 <= size < 1000
    return [_decimal(value, plain=plain) for value in values]


def _decimal(value: float, *, plain: bool) -> str:
    if not np.isfinite(value):
        return ""
    text = f"{value:.3f}" if plain else f"{value:.3g}"
    if abs(value) < 1 and plain:
        text = text.replace("0.", ".", 1)
    return text.removeprefix("-") if text == "-.000" else text.replace("-", "\N{MINUS SIGN}")


def probability(p: float) -> str:
    """A p-value with three decimals."""
    return "<.001" if p < 0.001 else decimals(p)[0]


def duration(seconds: float) -> str:
    """A time span as it is read: `42 s`, `3 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"
