"""The commands that tell what there is: rules, data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli_options import DataDir, console, printer, show

app = typer.Typer()
datasets_app = typer.Typer(
    help="The data sets there are, and getting them ahead of time.\n\nExample: rulesweep datasets",
    invoke_without_command=True,
)
app.add_typer(datasets_app, name="datasets")


@app.command("rules")
def rules_command(
    name: Annotated[str | None, typer.Argument(help="One rule, told whole.")] = None,
) -> None:
    """List the learning rules; or tell one: equation, options, ranges, cost, sources as BibTeX.

    Example: rulesweep rules sdil
    """
    from orchestrator.driver import importable
    from orchestrator.show_catalog import rule, rules

    importable(None)
    show([rule(name)] if name else rules())


@datasets_app.callback()
def datasets_command(context: typer.Context) -> None:
    """The data sets there are, and getting them ahead of time.

    Example: rulesweep datasets
    """
    if context.invoked_subcommand is None:
        from orchestrator.show_catalog import datasets

        show(datasets())


@datasets_app.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help="The data set.")], data_dir: DataDir = None
) -> None:
    """Get a data set ahead of time, for machines without internet.

    Example: rulesweep datasets fetch fashion-mnist
    """
    from rules.data import fetch

    fetch(name, data_dir)
    printer(console())(f"{name}: ready")
