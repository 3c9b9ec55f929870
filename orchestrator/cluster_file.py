"""Checking a cluster's file before anything costs money: offline, one line a fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator import batch_script, launch_file, manifest
from orchestrator.pins import Pins, notes, pins
from orchestrator.spec import load_study
from orchestrator.yaml_file import StudyError, parse, read_text


@dataclass(frozen=True)
class Findings:
    """What a check of a cluster's file found."""

    kind: str  # what the file was taken for
    problems: tuple[str, ...]  # each a line: place, fault, mend
    notes: tuple[str, ...]  # what is yet to be filled in


def check(path: Path, study: Path | None = None) -> Findings:
    """Check a file for `ray up`, a KubeRay manifest or a SLURM script, offline.

    With `study`, also that some node can hold one of its workers.

    Raises:
        StudyError: the file or the study cannot be read.
    """
    text = read_text(path, "cluster")
    resources = load_study(study).resources if study is not None else None
    wanted = pins(resources.least_gpus, resources.cpus) if resources else pins()
    if text.startswith("#!"):
        found = tuple(batch_script.problems(text, wanted))
        return Findings("SLURM batch script", found, tuple(notes(text)))
    tree = parse(text, str(path))
    if not isinstance(tree, dict):
        raise StudyError(
            [f"{path}: no cluster file: should be a mapping for `ray up` or KubeRay, or a script"]
        )
    if "apiVersion" in tree or "kind" in tree:
        return Findings("KubeRay", tuple(manifest.problems(tree, wanted)), tuple(notes(text)))
    return Findings("ray up", tuple(_launch(tree, wanted)), tuple(notes(text)))


def _launch(tree: Mapping[str, object], wanted: Pins) -> Iterator[str]:
    """Our own rules, then Ray's: what ours has named already is not said again."""
    ours = list(launch_file.problems(tree, wanted))
    yield from ours
    if any(": unknown key" in line for line in ours):
        return
    from orchestrator.cluster import refusal  # Ray takes seconds to import

    problem = refusal(dict(tree))
    if problem is not None and not _said(problem, ours):
        yield problem


def _said(problem: str, ours: list[str]) -> bool:
    """Whether one of our own lines is about the key that Ray complains of."""
    names = set(re.findall(r"'(\w+)'", problem))
    return any(line.partition(":")[0] in names for line in ours)
