"""The command line: each command parses, calls what Python users call, and prints."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.yaml_file import StudyError

app = typer.Typer(
    name="rulesweep",
    help="Sweeps of learning rules over depth, width and seed: tuned, paired, resumable.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
datasets_app = typer.Typer(
    help="The data sets there are, and getting them ahead of time.\n\nExample: rulesweep datasets",
    invoke_without_command=True,
)
app.add_typer(datasets_app, name="datasets")

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


class Format(StrEnum):
    """File formats of an export."""

    csv = "csv"
    parquet = "parquet"


def console() -> Console:
    """The console that commands print to."""
    return Console(soft_wrap=not sys.stdout.isatty())


@app.command("run")
def run_command(
    study: StudyFile,
    out: Out = None,
    address: Annotated[
        str, typer.Option(help="Ray: local starts one here; auto or HOST:PORT joins a cluster.")
    ] = "local",
    inline: Annotated[
        bool, typer.Option("--inline", help="Train in this process, without Ray.")
    ] = False,
    sets: Set = None,
    workers: Workers = None,
    data_dir: DataDir = None,
) -> None:
    """Train what the study wants and the table lacks; then draw the figures.

    Example: rulesweep run examples/quick.yaml --set grid.seeds=3
    """
    from orchestrator.progress import reporter
    from orchestrator.run import run
    from orchestrator.spec import load_study

    screen = console()
    result = run(
        load_study(study, sets or ()),
        out,
        address=address,
        inline=inline,
        workers=workers,
        data_dir=data_dir,
        source=study,
        reporter=reporter(screen),
    )
    say = _printer(screen)
    say(
        f"{result.folder}: {result.wanted} networks, {result.known} were in the table, "
        f"{result.trained} trained now, {result.diverged} diverged, {result.failed} failed"
    )
    for label in result.stopped:
        say(
            f"{label}: every point of a campaign failed, so it was not evaluated; "
            f"see rulesweep status {result.folder} --failed"
        )
    if result.interrupted:
        say(f"interrupted; go on with: {_again()}")
    elif result.trained or not (result.folder / "figures").is_dir():
        _show_figures(result.folder, screen)
    else:
        say(
            f"nothing to train; figures: {result.folder / 'figures'}, "
            f"redraw with: rulesweep figures {result.folder}"
        )
    raise typer.Exit(result.exit_code)


def _again() -> str:
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def _show_figures(folder: Path, screen: Console) -> None:
    from analysis.figures import draw_all
    from orchestrator.show import summary

    for path in draw_all(folder):
        if path.suffix == ".png":
            _printer(screen)(f"figure {path}")
    for block in summary(folder):
        screen.print(block)


@app.command("plan")
def plan_command(
    study: StudyFile,
    out: Out = None,
    sets: Set = None,
    workers: Workers = None,
    timing: Annotated[bool, typer.Option(help="Time a few steps for the estimate.")] = True,
    data_dir: DataDir = None,
) -> None:
    """Count what a study will train, and estimate the time; changes nothing.

    Example: rulesweep plan examples/quick.yaml
    """
    from orchestrator.plan import plan
    from orchestrator.show import planned
    from orchestrator.spec import load_study

    found = plan(
        load_study(study, sets or ()),
        out,
        workers=workers,
        measure=timing,
        data_dir=data_dir,
        source=study,
    )
    screen = console()
    for block in planned(found):
        screen.print(block)


@app.command("status")
def status_command(
    run: RunFolder,
    failed: Annotated[bool, typer.Option("--failed", help="Show every failure whole.")] = False,
) -> None:
    """Say how far a run is: networks by rule and phase, chosen rates, failures.

    Example: rulesweep status runs/quick
    """
    from orchestrator.show import status

    screen = console()
    for block in status(run, failed=failed):
        screen.print(block)


@app.command("figures")
def figures_command(run: RunFolder) -> None:
    """Redraw the figures of a run from its table, and print the summary; trains nothing.

    Example: rulesweep figures runs/quick
    """
    from orchestrator.store import current

    current(run)
    _show_figures(run, console())


@app.command("export")
def export_command(
    run: RunFolder,
    format: Annotated[Format, typer.Option(help="csv or parquet.")] = Format.csv,
    out: Annotated[
        Path | None, typer.Option(help="The file; RUN/trials.FORMAT by default.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also results that the current study does not want.")
    ] = False,
) -> None:
    """Write the trial table as one file.

    Example: rulesweep export runs/quick --format csv
    """
    from orchestrator.store import export

    path = out or run / f"trials.{format}"
    rows = export(run, path, format.value, everything=everything)
    _printer(console())(f"{path}: {rows} rows")


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
    from orchestrator.verify import verify

    verdicts = verify(run, sample, trial, data_dir)
    say = _printer(console())
    for v in verdicts:
        why = f" ({v.column} by {v.difference:.2g})" if v.column else ""
        say(f"{v.trial} {v.label} depth {v.depth} on {v.device}: {v.verdict}{why}")
    bad = sum(v.verdict == "different" for v in verdicts)
    say(f"{len(verdicts)} rows trained again, {bad} different")
    raise typer.Exit(int(bad > 0))


@app.command("rules")
def rules_command(
    name: Annotated[str | None, typer.Argument(help="One rule, told whole.")] = None,
) -> None:
    """List the learning rules: options, defaults, sources.

    Example: rulesweep rules sdil
    """
    from orchestrator.run import importable
    from orchestrator.show import rule, rules

    importable(None)
    screen = console()
    for block in [rule(name)] if name else rules():
        screen.print(block)


@datasets_app.callback()
def datasets_command(context: typer.Context) -> None:
    """The data sets there are, and getting them ahead of time.

    Example: rulesweep datasets
    """
    if context.invoked_subcommand is None:
        from orchestrator.show import datasets

        screen = console()
        for block in datasets():
            screen.print(block)


@datasets_app.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help="The data set.")], data_dir: DataDir = None
) -> None:
    """Get a data set ahead of time, for machines without internet.

    Example: rulesweep datasets fetch fashion-mnist
    """
    from rules.data import fetch

    fetch(name, data_dir)
    _printer(console())(f"{name}: ready")


def _printer(screen: Console) -> Callable[[str], None]:
    def say(line: str) -> None:
        screen.print(line, markup=False, highlight=False, soft_wrap=True)

    return say


def check_owner() -> None:
    """Refuse to run where another distribution owns one of our import names."""
    owners = packages_distributions()
    for name in ("rules", "orchestrator", "analysis"):
        found = set(owners.get(name, ()))
        if found != {"rulesweep"}:
            raise StudyError(
                [
                    f"package {name!r} belongs to {sorted(found) or 'no installed distribution'}; "
                    "install rulesweep in an environment of its own"
                ]
            )


def main() -> None:
    """Run a command; what the user can mend is one clear line and exit code 2."""
    try:
        check_owner()
        app()
    except (ValueError, RuntimeError) as error:
        if type(error).__name__ not in ERRORS:
            raise
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {line}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None


ERRORS = ("StudyError", "RuleError", "DataError", "StoreError", "ScheduleError")
"""Errors that are a message to the user, by name: importing them all would import Ray."""
