"""The command line: each command parses, calls what Python users call, and prints."""

from __future__ import annotations

import errno
import shlex
import sys
from enum import StrEnum
from importlib.metadata import packages_distributions
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator import cli_catalog, cli_cluster, cli_results
from orchestrator.cli_options import (
    DataDir,
    Out,
    Set,
    StudyFile,
    Workers,
    console,
    printer,
    seconds_of,
    show,
)
from orchestrator.yaml_file import StudyError

if TYPE_CHECKING:
    from orchestrator.spec import Study
    from orchestrator.telling import Result

app = typer.Typer(
    name="rulesweep",
    help="Sweeps of learning rules over depth, width and seed: tuned, paired, resumable.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Retry(StrEnum):
    """Which finished networks train again."""

    FAILED = "failed"


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
    keep_changed: Annotated[
        bool,
        typer.Option("--keep-changed", help="Accept rows of your own rules trained by older code."),
    ] = False,
    retry: Annotated[
        Retry | None, typer.Option(help="Train networks again whose rows say so.")
    ] = None,
    reuse: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Take finished rows from another run's table."),
    ] = None,
    max_failures: Annotated[
        int | None, typer.Option(min=1, help="Stop once so many networks failed in this run.")
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Stop after a time as 90m or 2h; packs are finished."),
    ] = None,
    preflight: Annotated[
        bool, typer.Option(help="Try every rule on a worker first, in a moment.")
    ] = True,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Train one of N shares of the study: job arrays."),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="Take a run at a URI from the driver that holds it."),
    ] = False,
) -> None:
    """Train what the study wants and the table lacks; then draw the figures.

    Exit codes: 0 all done, 1 some networks failed, 2 bad input, 130 stopped before the end.

    Example: rulesweep run examples/quick.yaml --set grid.seeds=3 --time-budget 2h
    """
    from orchestrator.driver import run
    from orchestrator.progress import reporter
    from orchestrator.shards import shard_of
    from orchestrator.spec import load_study
    from orchestrator.sweep import Limits

    screen = console()
    limits = Limits(seconds_of(time_budget), max_failures or inf)
    wanted = load_study(study, sets or ())
    result = run(
        wanted,
        out,
        address=address,
        inline=inline,
        workers=workers,
        data_dir=data_dir,
        source=study,
        reporter=reporter(screen),
        keep_changed=keep_changed,
        retry_failed=retry is not None,
        reuse=reuse,
        limits=limits,
        preflight=preflight,
        shard=shard_of(shard) if shard is not None else None,
        take_over=take_over,
    )
    _tell(result, screen, shard)
    if address == "local" and not result.interrupted and result.seconds >= LONG:
        _tell_time(wanted, result, data_dir, screen)
    raise typer.Exit(result.exit_code)


LONG = 60.0
"""Seconds of a run from which on its time is held against a plan's, which takes some to measure."""


def _tell_time(study: Study, result: Result, data_dir: Path | None, screen: Console) -> None:
    """How long the networks took, and what a plan would have said: whether to believe the next."""
    from orchestrator.forecast import expected
    from orchestrator.progress import duration

    planned = expected(study, result, data_dir)
    printer(screen)(
        f"training took {duration(result.seconds)} on {result.workers} workers; "
        f"planned: {duration(planned)} ({planned / result.seconds:.0%} of it)"
    )


def _tell(result: Result, screen: Console, shard: str | None) -> None:
    """How the run ended, and its figures or how to go on."""
    say = printer(screen)
    say(
        f"{result.name}: {result.wanted} networks, {result.known} were in the table, "
        + (f"{result.reused} came from another run, " if result.reused else "")
        + f"{result.trained} trained now, {result.diverged} diverged, {result.failed} failed"
    )
    for label in result.stopped:
        say(
            f"{label}: every point of a campaign failed, so it was not evaluated; "
            f"see rulesweep status {result.name} --failed"
        )
    if result.interrupted:
        reasons = {"time": "the time budget is used up", "failures": "too many networks failed"}
        say(f"{reasons.get(result.closed, 'interrupted')}; go on with: {_again()}")
    elif shard is not None:
        say(f"shard {shard} is done; when all are: rulesweep merge {result.name}")
    elif result.trained or _stale(result.folder):
        cli_results.show_figures(result.folder, screen)
        if result.uri:
            from orchestrator.mirror import Mirror

            Mirror(result.uri).publish("figures")
    else:
        say(
            f"nothing to train; figures: {result.folder / 'figures'}, "
            f"redraw with: rulesweep figures {result.name}"
        )


def _stale(folder: Path) -> bool:
    """Whether the figures are missing, or older than what the folder's study asks for."""
    figures = folder / "figures"
    study = folder / "resolved.json"
    return not figures.is_dir() or figures.stat().st_mtime < study.stat().st_mtime


def _again() -> str:
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


@app.command("plan")
def plan_command(
    study: StudyFile,
    out: Out = None,
    sets: Set = None,
    workers: Workers = None,
    timing: Annotated[bool, typer.Option(help="Time a few steps for the estimate.")] = True,
    price: Annotated[
        str | None, typer.Option(metavar="RATE", help="As 1.2/gpu-hour or 0.05/cpu-hour.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Count what a study will train, and estimate the time and the cost; changes nothing.

    Example: rulesweep plan examples/quick.yaml --price 0.05/cpu-hour
    """
    from orchestrator.forecast import plan
    from orchestrator.price import price_of
    from orchestrator.show import planned
    from orchestrator.spec import load_study

    loaded = load_study(study, sets or ())
    rate = price_of(price, loaded.resources) if price is not None else None
    found = plan(
        loaded,
        out,
        workers=workers,
        measure=timing,
        data_dir=data_dir,
        source=study,
    )
    show(planned(found, rate))


app.add_typer(cli_results.app)
app.add_typer(cli_catalog.app)
app.add_typer(cli_cluster.app)


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
        app(prog_name="rulesweep")
    except OSError as error:
        where = error.filename2 or error.filename
        if where is None and error.errno not in (errno.ENOSPC, errno.EROFS, errno.EDQUOT):
            raise
        sys.stderr.write(f"error: {where or 'a file'}: {error.strerror}\n")
        raise SystemExit(2) from None
    except (ValueError, RuntimeError) as error:
        if type(error).__name__ not in ERRORS:
            raise
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {line}\n")
        raise SystemExit(2) from None


ERRORS = (
    "PreflightError",
    "StudyError",
    "RuleError",
    "DataError",
    "StoreError",
    "ScheduleError",
    "ClusterError",
)
"""Errors that are a message to the user, by name: importing them all would import Ray."""
