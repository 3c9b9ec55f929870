"""Versions that a cluster must share with this installation, and where a file has others."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

IMAGE = re.compile(r"^(?:.*/)?ray(?:-ml)?:(?P<tag>[^@]+)")
TAG = re.compile(r"^(?P<ray>\d+\.\d+\.\d+)(?:[.-][0-9a-f]+)?(?:-py(?P<python>\d{2,3}))?(?:-.*)?$")


@dataclass(frozen=True)
class Pins:
    """What the nodes must fit: this installation's versions, and what a study's worker takes."""

    ray: str
    rulesweep: str
    python: str  # as 3.11
    gpus: float = 0.0
    cpus: int = 1


def pins(gpus: float = 0.0, cpus: int = 1) -> Pins:
    """This installation's versions."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Pins(version("ray"), version("rulesweep"), python, gpus, cpus)


def flag(line: str, name: str) -> str | None:
    """The value of an option in a command line, as `--name=value` or `--name value`."""
    found = re.search(rf"{re.escape(name)}[= ]['\"]?([^\s'\"]+)", line)
    return found[1] if found else None


def images(places: Iterable[tuple[str, str]], pins: Pins) -> Iterator[str]:
    """Container images with another Ray or Python than they should have."""
    pythons: dict[str, str] = {}
    for place, image in places:
        found = IMAGE.match(image)
        if not found:
            continue  # an image of one's own: only the doctor can look inside
        tag = TAG.match(found["tag"])
        if tag is None:
            yield (
                f"{place}: {image} pins no version; "
                f"take rayproject/ray:{pins.ray}-py{pins.python.replace('.', '')}-cpu"
            )
            continue
        if tag["ray"] != pins.ray:
            yield f"{place}: Ray {tag['ray']}, but this rulesweep has {pins.ray}; take that tag"
        pythons[place] = tag["python"] or ""
    if len(set(pythons.values())) > 1:
        told = ", ".join(f"{place} py{python}" for place, python in pythons.items())
        yield f"docker: the images have unlike Pythons ({told}); take one for all"


def installs(place: str, line: str, pins: Pins) -> Iterator[str]:
    """A command that installs Ray, rulesweep or makes an environment of another version."""
    for name, wanted in (("ray", pins.ray), ("rulesweep", pins.rulesweep)):
        for found in re.finditer(rf"\b{name}(?:\[[\w,]*\])?==([\w.]+)", line):
            if found[1] != wanted:
                yield f"{place}: installs {name} {found[1]}; this rulesweep needs {wanted}"
    bare = re.search(r"\bpip3? install\b[^;&|]*[\s'\"]ray(\[[\w,]*\])?['\"]?(?=[\s;&|]|$)", line)
    if bare and not re.search(r"(-c|--constraint)[= ]", line):
        yield f"{place}: installs whatever Ray is newest; say ray=={pins.ray}"
    if "ray-wheels/latest" in line:
        yield f"{place}: installs a nightly of Ray; say ray=={pins.ray}"


def notes(text: str) -> Iterator[str]:
    """Places that the user has yet to fill in; comments may go on naming them."""
    for number, line in enumerate(text.splitlines(), start=1):
        content = line if line.startswith("#SBATCH") else line.partition("#")[0]
        for word in dict.fromkeys(re.findall(r"\bYOUR-[A-Z]+\b", content)):
            yield f"line {number}: fill in {word}"
