"""What commands share: their options, and the console they print to."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from orchestrator.yaml_file import StudyError

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The study file.")]
Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, or the URI of one: s3://bucket/runs/quick."),
]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="The run folder, or a URI as s3://bucket/runs/quick; runs/<name> by default.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the file, repeatedly."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="RULESWEEP_DATA", help="Where data sets lie."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Packs trained at once.")]


def seconds_of(text: str | None) -> float:
    """The seconds of a time as 45s, 90m, 2h, 1d or 1h30m; without end where none is given.

    Raises:
        StudyError: it is no such time.
    """
    if text is None:
        return inf
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise StudyError([f'time "{text}" is not understood; write it as 45s, 90m, 2h or 1h30m'])
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def console() -> Console:
    """The console that commands print to."""
    return Console(soft_wrap=not sys.stdout.isatty())


def printer(screen: Console) -> Callable[[str], None]:
    """Prints lines as they are: no markup, no colours, no folding."""

    def say(line: str) -> None:
        screen.print(line, markup=False, highlight=False, soft_wrap=True)

    return say


def show(blocks: Iterable[RenderableType], screen: Console | None = None) -> None:
    """Print blocks of tables and text, one below the other."""
    screen = screen or console()
    for block in blocks:
        screen.print(block)
