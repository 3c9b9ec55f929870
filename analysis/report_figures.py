"""The figures of a report: their drawings made to live in a page, and their numbers in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pandas as pd
from markupsafe import Markup

from analysis.report_words import decimals

_PANEL = ("dataset", "activation", "residual", "widths", "contract", "metric", "quantity")
_ID = re.compile(r"(?<=#)[^\s)\"';]+")
_LINKS = ("href", "clip-path", "style", "fill", "mask", "filter")


@dataclass(frozen=True)
class Drawing:
    """A figure in a page: `kind` is the module that drew it, `words` are its numbers."""

    kind: str
    title: str
    words: str
    svg: Markup


def drawing(path: Path) -> Drawing:
    """The figure of an SVG file beside which its numbers lie."""
    title, words = title_of(path.stem), in_words(read_numbers(path.with_suffix(".csv")))
    svg = inline(path.read_text(encoding="utf-8"), path.stem, title, words)
    return Drawing(kind_of(path.stem), title, words, svg)


def kind_of(name: str) -> str:
    """The module behind a figure's file name, which may go on with what the study sweeps."""
    return name.partition("-")[0]


def title_of(name: str) -> str:
    """`Depth utility: mnist-1d, width 64` for `depth_utility-mnist-1d-width-64`."""
    kind, _, swept = name.partition("-")
    words = kind.replace("_", " ").replace("lr ", "learning-rate ").replace(" vs ", " over ")
    swept = (
        re.sub("(^|-)width-", ", width ", swept).removeprefix(", ").replace("by-depth", "by depth")
    )
    return f"{words[:1].upper()}{words[1:]}{': ' if swept else ''}{swept}"


def read_numbers(csv: Path) -> pd.DataFrame:
    """A figure's numbers, with labels such as `NA` and `1e3` left as they are."""
    texts = dict.fromkeys(("label", "reference"), str)
    return pd.read_csv(csv, dtype=texts, keep_default_na=False, na_values=[""])


def inline(svg: str, name: str, title: str, words: str) -> Markup:
    """An SVG file as an element of a page: scaled by its box, named, with ids of its own."""
    root = ET.fromstring(svg)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(key): value for key, value in element.attrib.items()}
    for unwanted in ("metadata", "style"):
        _remove(root, unwanted)
    _rename_ids(root, f"{_word(name)}-")
    ids = {part: f"{_word(name)}-{part}" for part in ("title", "desc")}
    root.attrib = {
        "viewBox": root.attrib["viewBox"], "role": "img", "class": "drawing",
        "aria-labelledby": ids["title"], "aria-describedby": ids["desc"],
    }  # fmt: skip
    for place, (tag, text) in enumerate({"title": title, "desc": words}.items()):
        told = ET.Element(tag, {"id": ids[tag]})
        told.text = text
        root.insert(place, told)
    return Markup(ET.tostring(root, encoding="unicode"))


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)


def _remove(root: ET.Element, tag: str) -> None:
    for parent in list(root.iter()):
        for child in parent.findall(tag):
            parent.remove(child)


def _rename_ids(root: ET.Element, prefix: str) -> None:
    """Prefix the ids that are referred to, and drop all others."""
    values = (value for e in root.iter() for key, value in e.attrib.items() if key in _LINKS)
    used = {found for value in values for found in _ID.findall(value)}
    known = {e.attrib["id"] for e in root.iter() if e.attrib.get("id") in used}
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own in known:
            element.attrib["id"] = f"{prefix}{own}"
        for key in set(_LINKS) & set(element.attrib):
            element.attrib[key] = _ID.sub(
                lambda found: f"{prefix}{found[0]}" if found[0] in known else found[0],
                element.attrib[key],
            )


def in_words(numbers: pd.DataFrame) -> str:
    """A figure's numbers as sentences: `bp: .62 at depth 2, .60 at 6.`, a rule after the other.

    Of curves it tells the last step, of tried rates the chosen ones; the figure's table has all.
    """
    value = next((name for name in ("mean", "gap_mean", "gap") if name in numbers), None)
    told = numbers if value is None else numbers.rename(columns={value: "value"})
    if value is None or told["value"].isna().all():
        return "Its numbers are in its table."
    told = told[told["value"].notna()]
    if "chosen" in told:
        return f"The chosen rates. {_told(told[told['chosen'].astype(bool)])}"
    if "step" in told:
        return f"At the last recorded step. {_told(_last_steps(told))}"
    return _of_layers(told) if "layer" in told else _told(told)


def _of_layers(told: pd.DataFrame) -> str:
    """What sums up the layers of a network, where it is there, and then every layer."""
    layer = pd.to_numeric(told["layer"], errors="coerce")
    summed, single = told[layer.isna()], told.assign(layer=layer)[layer.notna()]
    by_layer = f"Layer by layer, from the input side. {_told(single)}"
    if summed.empty:
        return by_layer
    quantity = summed["quantity"].iloc[0] if "quantity" in summed else "early third of the layers"
    return f"The {quantity}. {_told(summed.drop(columns='layer'))} {by_layer}"


def _last_steps(told: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in ("label", "depth", "width", "quantity") if name in told]
    return told[told["step"].eq(told.groupby(keys)["step"].transform("max"))]


def _told(rows: pd.DataFrame) -> str:
    """A sentence for every rule, after the name of its part where there are several."""
    sentences = []
    for part, of_part in _split(rows, _PANEL):
        sentences += [f"For {', '.join(part)}:"] if part else []
        for names, line in _split(of_part, ("label", "reference"), always=2):
            sentences.append(f"{' against '.join(names)}: {_line(line)}.")
    return " ".join(sentences)


def _split(
    df: pd.DataFrame, by: Iterable[str], always: int = 0
) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """The parts by those columns that vary (the first `always` in any case), with their values."""
    names = [name for name in by if name in df]
    names = [
        name for i, name in enumerate(names) if i < always or len(df[name].dropna().unique()) > 1
    ]
    if not names:
        yield [], df
        return
    for key, part in df.groupby(names, sort=False, dropna=False):
        pairs: Iterable[tuple[str, Any]] = zip(names, key, strict=True)
        yield [_value_of(name, str(value)) for name, value in pairs if pd.notna(value)], part


def _value_of(name: str, value: str) -> str:
    if name == "residual":
        return "residual" if value == "True" else "plain"
    if name in ("metric", "quantity"):
        return value.replace("_", " ")
    return f"width {value}" if name == "widths" else value


def _line(rows: pd.DataFrame) -> str:
    """The numbers of one rule over depth, or over the layers of each depth."""
    if "depth" not in rows:
        return ", ".join(_numbers(rows))
    if "layer" not in rows:
        over = rows.sort_values("depth")
        places = [f"{depth:g}" for depth in over["depth"]]
        named = [f"depth {places[0]}", *places[1:]]
        pairs = zip(_numbers(over), named, strict=True)
        return ", ".join(f"{number} at {place}" for number, place in pairs)
    return "; ".join(
        f"at depth {depth:g} {', '.join(_numbers(part))}"
        for depth, part in rows.sort_values(["depth", "layer"]).groupby("depth")
    )


def _numbers(rows: pd.DataFrame) -> list[str]:
    """The numbers of marks, each with what else its mark shows."""
    pairs = zip(decimals(*rows["value"]), rows.to_dict("records"), strict=True)
    return [f"{number}{_notes(row)}" for number, row in pairs]


def _notes(row: Mapping[Any, Any]) -> str:
    """A chosen rate, and whether it lies at the edge of its range."""
    notes = [f"rate {row['lr']:.3g}"] if "chosen" in row else []
    if row.get("at_edge") is True:
        notes.append("at the edge of its range" if notes else "rate at the edge of its range")
    return f" ({', '.join(notes)})" if notes else ""
