"""What commands share: their options, and the console they print to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The study file.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as runs/quick.")]
Out = Annotated[Path | None, typer.Option(help="The run folder; runs/<name> by default.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the file, repeatedly."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(envvar="RULESWEEP_DATA", help="Where data sets lie."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Packs trained at once.")]


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
