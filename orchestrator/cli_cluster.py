"""The commands about clusters: check a cluster's file, examine a running cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli_options import console, printer
from orchestrator.yaml_file import StudyError

app = typer.Typer()
cluster_app = typer.Typer(
    help="Clusters: check a file before anything costs money, examine one that runs.",
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
