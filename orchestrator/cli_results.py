"""The commands that read a run folder: status, figures, report, export, verify."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.cli_options import DataDir, RunFolder, console, printer, show

app = typer.Typer()


class Format(StrEnum):
    """What an export can write."""

    csv = "csv"
    parquet = "parquet"
    latex = "latex"
    seed_json = "seed-json"


@app.command("status")
def status_command(
    run: RunFolder,
    failed: Annotated[bool, typer.Option("--failed", help="Show every failure whole.")] = False,
) -> None:
    """Say how far a run is: networks by rule and phase, chosen rates, failures.

    Example: rulesweep status runs/quick
    """
    from orchestrator.show import status

    show(status(run, failed=failed))


@app.command("figures")
def figures_command(
    run: RunFolder,
    prefix: Annotated[
        str | None,
        typer.Option(help="RUN is a folder of PREFIX_*.json files, one a network; see the README."),
    ] = None,
) -> None:
    """Redraw the figures of a run from its table, and print the summary; trains nothing.

    Example: rulesweep figures runs/quick
    """
    if prefix is not None:
        _show_seed_figures(run, prefix)
        return
    from orchestrator.store import current

    current(run)
    show_figures(run, console())


def show_figures(folder: Path, screen: Console) -> None:
    """Draw a run's figures, say where they are, and print the summary table."""
    from analysis.figures import draw_all
    from orchestrator.show import summary

    say = printer(screen)
    for path in draw_all(folder):
        if path.suffix == ".png":
            say(f"figure {path}")
    show(summary(folder), screen)


def _show_seed_figures(folder: Path, prefix: str) -> None:
    from analysis.seed_scripts import draw_seed_figures, seed_table
    from analysis.trials import load_trials

    say = printer(console())
    say(seed_table(load_trials(folder, prefix)))
    for path in draw_seed_figures(folder, prefix):
        say(f"figure {path}")


@app.command("report")
def report_command(
    run: RunFolder,
    out: Annotated[Path | None, typer.Option(help="The page; RUN/report.html by default.")] = None,
) -> None:
    """Write one self-contained HTML page: question, protocol, tables, figures, provenance.

    Example: rulesweep report runs/quick
    """
    from analysis.report import write_report
    from orchestrator.store import current

    current(run)
    printer(console())(f"report {write_report(run, out)}")


@app.command("export")
def export_command(
    run: RunFolder,
    format: Annotated[Format, typer.Option(help="What to write.")] = Format.csv,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file, or for latex and seed-json the folder; inside RUN by default."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also results that the current study does not want.")
    ] = False,
) -> None:
    """Write the trial table as one file, its summaries as LaTeX tables, or a JSON file a network.

    Example: rulesweep export runs/quick --format csv
    """
    say = printer(console())
    if format in (Format.csv, Format.parquet):
        from orchestrator.store import export

        path = out or run / f"trials.{format}"
        rows = export(run, path, format.value, everything=everything)
        say(f"{path}: {rows} rows")
        return
    for path in _written(run, format, out or run / format.value):
        say(str(path))


def _written(run: Path, format: Format, folder: Path) -> list[Path]:
    from analysis.trials import load_trials

    df = load_trials(run)
    if format is Format.latex:
        from analysis.latex import write_tables

        return write_tables(df, run, folder)
    from analysis.seed_scripts import write_seed_json

    return write_seed_json(df, folder)


@app.command("merge")
def merge_command(run: RunFolder) -> None:
    """Make one table of a run that was trained in shards; again as often as you like.

    Example: rulesweep merge runs/depth
    """
    from orchestrator.shards import merge
    from orchestrator.store import trials

    done = merge(run)
    pending = trials(run)["status"].to_pylist().count("pending")
    printer(console())(
        f"{run}: {done.results} results of {done.shards} shards are in its table; "
        f"{pending} networks are missing; figures: rulesweep figures {run}"
    )


@app.command("verify")
def verify_command(
    run: RunFolder,
    sample: Annotated[int, typer.Option(min=1, help="How many rows.")] = 5,
    trial: Annotated[str | None, typer.Option(help="The id of one row instead.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Train rows of a run again, each alone in this process, and compare with the table.

    Example: rulesweep verify runs/quick --sample 5
    """
    from orchestrator.retrain import verify

    verdicts = verify(run, sample, trial, data_dir)
    say = printer(console())
    for v in verdicts:
        why = f" ({v.column} by {v.difference:.2g})" if v.column else ""
        say(f"{v.trial} {v.label} depth {v.depth} on {v.device}: {v.verdict}{why}")
    bad = sum(v.verdict == "different" for v in verdicts)
    say(f"{len(verdicts)} rows trained again, {bad} different")
    raise typer.Exit(int(bad > 0))
