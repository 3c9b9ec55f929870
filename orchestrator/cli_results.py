"""The commands that read a run folder: status, figures, report, export, verify."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.cli_options import DataDir, Run, console, printer, show

app = typer.Typer()

BESIDE = "inside RUN, or for a URI in the current folder,"


class Format(StrEnum):
    """What an export can write."""

    csv = "csv"
    parquet = "parquet"
    latex = "latex"
    seed_json = "seed-json"


@app.command("status")
def status_command(
    run: Run,
    failed: Annotated[bool, typer.Option("--failed", help="Show every failure whole.")] = False,
) -> None:
    """Say how far a run is: networks by rule and phase, chosen rates, failures.

    Example: rulesweep status runs/quick
    """
    from orchestrator.show import status
    from orchestrator.store import opened

    show(status(opened(run), failed=failed, name=run))


@app.command("figures")
def figures_command(
    run: Run,
    prefix: Annotated[
        str | None,
        typer.Option(help="RUN is a folder of PREFIX_*.json files, one a network; see the README."),
    ] = None,
) -> None:
    """Redraw the figures of a run from its table, and print the summary; trains nothing.

    Those of a run at a URI are drawn into its local copy.

    Example: rulesweep figures runs/quick
    """
    if prefix is not None:
        _show_seed_figures(run, prefix)
        return
    from orchestrator.store import current, opened

    folder = opened(run)
    current(folder)
    show_figures(folder, console())


def show_figures(folder: Path, screen: Console) -> None:
    """Draw a run's figures, say where they are, and print the summary table."""
    from analysis.figures import draw_all
    from orchestrator.show import summary

    say = printer(screen)

    def tell(path: Path) -> None:
        if path.suffix == ".png":
            say(f"figure {path}")

    draw_all(folder, tell=tell)
    show(summary(folder), screen)


def _show_seed_figures(folder: str, prefix: str) -> None:
    from analysis.seed_scripts import draw_seed_figures, seed_table
    from analysis.trials import load_trials

    say = printer(console())
    say(seed_table(load_trials(folder, prefix)))
    for path in draw_seed_figures(folder, prefix):
        say(f"figure {path}")


@app.command("report")
def report_command(
    run: Run,
    out: Annotated[Path | None, typer.Option(help=f"The page; {BESIDE} by default.")] = None,
) -> None:
    """Write one self-contained HTML page: question, protocol, tables, figures, provenance.

    Example: rulesweep report runs/quick
    """
    from analysis.report import write_report
    from orchestrator.store import current, opened

    folder = opened(run)
    current(folder)
    page = write_report(folder, out or _beside(run) / "report.html")
    printer(console())(f"report {page}")


@app.command("export")
def export_command(
    run: Run,
    format: Annotated[Format, typer.Option(help="What to write.")] = Format.csv,
    out: Annotated[
        Path | None,
        typer.Option(help=f"The file, or for latex and seed-json the folder; {BESIDE} by default."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also results that the current study does not want.")
    ] = False,
) -> None:
    """Write the trial table as one file, its summaries as LaTeX tables, or a JSON file a network.

    Example: rulesweep export runs/quick --format csv
    """
    from orchestrator.store import export, opened

    say, folder = printer(console()), opened(run)
    if format in (Format.csv, Format.parquet):
        path = out or _beside(run) / f"trials.{format}"
        rows = export(folder, path, format.value, everything=everything)
        say(f"{path}: {rows} rows")
        return
    for path in _written(folder, format, out or _beside(run) / format.value):
        say(str(path))


def _beside(run: str) -> Path:
    """Where a page or an export of a run goes unless told otherwise."""
    from orchestrator.remote import is_uri

    return Path() if is_uri(run) else Path(run)


def _written(run: Path, format: Format, folder: Path) -> list[Path]:
    from analysis.trials import load_trials

    df = load_trials(run)
    if format is Format.latex:
        from analysis.latex import write_tables

        return write_tables(df, run, folder)
    from analysis.seed_scripts import write_seed_json

    return write_seed_json(df, folder)


@app.command("merge")
def merge_command(run: Run) -> None:
    """Make one table of a run that was trained in shards; again as often as you like.

    Example: rulesweep merge runs/depth
    """
    from orchestrator.shards import merge
    from orchestrator.store import trials

    done = merge(run)
    pending = trials(run, ["status"])["status"].to_pylist().count("pending")
    printer(console())(
        f"{run}: {done.results} results of {done.shards} shards are in its table; "
        f"{pending} networks are missing; figures: rulesweep figures {run}"
    )


@app.command("verify")
def verify_command(
    run: Run,
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
