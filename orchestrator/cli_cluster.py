"""The commands about clusters: check a cluster's file, examine a running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli_options import Set, StudyFile, Workers, console, printer, show
from orchestrator.cli_results import show_figures
from orchestrator.yaml_file import StudyError

if TYPE_CHECKING:
    from orchestrator.jobs import JobServer

app = typer.Typer()
cluster_app = typer.Typer(
    help="Clusters: check a file before anything costs money, examine one that runs.\n\n"
    "Example: rulesweep cluster check cluster.yaml",
    no_args_is_help=True,
)
app.add_typer(cluster_app, name="cluster")
Study = Annotated[
    Path | None, typer.Option(metavar="STUDY.yaml", help="A study that the cluster is to run.")
]


@cluster_app.command("check")
def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="For ray up, KubeRay or SLURM.")],
    study: Study = None,
) -> None:
    """Check a cluster's file offline, as `ray up` would and for what `ray up` lets pass.

    Example: rulesweep cluster check cluster.yaml --study examples/depth.yaml
    """
    from orchestrator.cluster_file import check

    found = check(file, study)
    say = printer(console())
    for note in found.notes:
        say(f"note: {note}")
    if found.problems:
        raise StudyError(f"{file}: {problem}" for problem in found.problems)
    say(f"{file}: nothing wrong for {found.kind}")


@cluster_app.command("doctor")
def doctor_command(
    address: Annotated[str, typer.Option(help="auto or HOST:PORT, on one of its nodes.")] = "auto",
    study: Study = None,
    storage: Annotated[
        str | None, typer.Option(help="Where results are to go; RULESWEEP_RUNS by default.")
    ] = None,
) -> None:
    """Ask every node of a running cluster what it has; exit code 1 where a study would fail.

    Example: rulesweep cluster doctor --address auto --study examples/depth.yaml
    """
    from orchestrator.doctor import examine
    from orchestrator.show_cluster import nodes

    found = examine(address, study, storage)
    show(nodes(found.nodes))
    say = printer(console())
    for note in found.notes:
        say(f"note: {note}")
    for problem in found.problems:
        say(f"fault: {problem}")
    say(f"{len(found.nodes)} nodes, {len(found.problems)} faults")
    raise typer.Exit(int(bool(found.problems)))


Address = Annotated[
    str,
    typer.Option(envvar="RULESWEEP_ADDRESS", help="Of the cluster's dashboard."),
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="As rulesweep jobs lists them.")]
LOCAL = "http://127.0.0.1:8265"


@app.command("submit")
def submit_command(
    study: StudyFile,
    address: Address = LOCAL,
    out: Annotated[
        str | None, typer.Option(help="The run folder on the cluster, or its URI.")
    ] = None,
    sets: Set = None,
    workers: Workers = None,
    follow: Annotated[bool, typer.Option(help="Print its lines until it ends.")] = True,
) -> None:
    """Run a study on a cluster, from outside: sends the study and the code of your own rules.

    Results go to the folder or bucket that the cluster names in RULESWEEP_RUNS. ^C leaves the
    job running, and so does a closed laptop.

    Example: rulesweep submit examples/depth.yaml --address http://127.0.0.1:8265
    """
    from orchestrator.jobs import JobServer, submit

    words = [*(["--out", out] if out else []), *(["--workers", str(workers)] if workers else [])]
    server = JobServer(address)
    job = submit(server, study, sets or (), words)
    line = f"job {job} runs at {address}"
    if follow:
        _follow(server, job, line)
    else:
        printer(console())(line)


@app.command("jobs")
def jobs_command(
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Follow this one.")] = None,
    address: Address = LOCAL,
) -> None:
    """List the studies submitted to a cluster; or follow one, from its first line on.

    Example: rulesweep jobs depth-1f3a9c --address http://127.0.0.1:8265
    """
    from orchestrator.jobs import JobServer
    from orchestrator.show_cluster import jobs

    server = JobServer(address)
    if job is not None:
        _follow(server, job)
    show(jobs(server.jobs()))


@app.command("stop")
def stop_command(job: JobId, address: Address = LOCAL) -> None:
    """End a submitted study: what was trained is written, and submitting it again goes on.

    Example: rulesweep stop depth-1f3a9c --address http://127.0.0.1:8265
    """
    from orchestrator.jobs import JobServer, stop

    ended = stop(JobServer(address), job)
    printer(console())(f"job {job} {ended.status.lower()}; submit it again to go on")


@app.command("fetch")
def fetch_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A URI, or HOST:FOLDER by ssh.")],
    out: Annotated[Path | None, typer.Option(help="Where to; runs/<its name> by default.")] = None,
    figures: Annotated[bool, typer.Option(help="Draw its figures here.")] = True,
) -> None:
    """Bring a run home from a cluster: its table, and its figures.

    Example: rulesweep fetch s3://bucket/rulesweep/depth
    """
    from orchestrator.bring_home import fetch
    from orchestrator.store import trials

    folder, screen = fetch(run, out), console()
    statuses = trials(folder, ["status"])["status"].to_pylist()
    pending = statuses.count("pending")
    printer(screen)(f"{folder}: {len(statuses)} networks, {pending} pending")
    if figures:
        show_figures(folder, screen)


def _follow(server: JobServer, job: str, *first: str) -> None:
    """Print lines, then a job's until it ends, and end as it did; ^C from here on leaves it."""
    from orchestrator.jobs import follow

    say = printer(console())
    try:
        for line in first:
            say(line)
        code = follow(server, job, say)
    except KeyboardInterrupt:
        say(f"job {job} goes on; follow it with rulesweep jobs {job}, end it with rulesweep stop")
        code = 0
    raise typer.Exit(code)
