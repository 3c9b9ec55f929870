"""A run as one page of HTML that needs nothing else: question, protocol, results, provenance."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from analysis import figures
from analysis.report_figures import Drawing, drawing
from analysis.report_losses import divergences, failures
from analysis.report_protocol import bibtex, protocol, question
from analysis.report_results import tables
from analysis.report_tables import Table
from analysis.report_words import counted, duration, listed, number
from analysis.study_file import study_in
from analysis.trials import frame_of
from orchestrator import store

_PLAIN_BYTES = 4_000_000
_NUMBERS = {".csv": "text/csv;charset=utf-8", ".json": "application/json"}
_KINDS = _NUMBERS | {".bib": "application/x-bibtex;charset=utf-8"}
_TITLES = {
    "accuracy_vs_depth": "Accuracy over depth",
    "lr_sensitivity": "Learning rates",
    "gap_vs_depth": "Gap over depth",
}


@dataclass(frozen=True)
class Download:
    """A file inside the page: the link that holds it, and what it is called."""

    name: str
    url: str
    size: str


@dataclass(frozen=True)
class Section:
    """One analysis in the page: figures and tables under a heading."""

    kind: str
    heading: str
    lead: str
    drawings: list[Drawing]
    tables: list[Table]


def write_report(run: str | Path, out: str | Path | None = None) -> Path:
    """Write the run's report, by default to `report.html` in its folder; the path written.

    An incomplete run is reported as far as it goes, and the page says so at its top. Equal tables
    give equal reports.

    Raises:
        StoreError: no run folder, one without its study, or a folder in the page's place.
    """
    run = store.opened(run)
    path = run / "report.html" if out is None else Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise store.StoreError(f"{path} is a folder; name a file for the page")
    page = render(run)
    store.durable(path, lambda file: file.write(page.encode()))
    return path


def render(run: Path) -> str:
    """The page as text."""
    study, df = _study(run), frame_of(store.trials(run))
    resolved = store.current(run)
    cells, sources = resolved["cells"], resolved.get("sources", {})
    with TemporaryDirectory() as folder:
        paths = figures.draw_frame(df, Path(folder), study["compare"])
        drawn = [drawing(path) for path in paths if path.suffix == ".svg"]
        csv = Path(folder) / "trials.csv"
        store.export(run, csv, "csv")
        numbers = [csv, *(path for path in paths if path.suffix in _NUMBERS)]
        files = [download(path.name, path.read_bytes()) for path in numbers]
    if works := bibtex(sources):
        files.append(download("sources.bib", works.encode()))
    return _environment().get_template("report.html.j2").render(
        name=study["name"],
        question=question(study, cells),
        pending=pending(df),
        facts=facts(df),
        protocol=protocol(study, cells, sources),
        sections=sections(drawn, tables(df, study["compare"])),
        lost=[table for table in (divergences(df), failures(df)) if table.rows],
        provenance=provenance(df, environment_in(run / "environment.json")),
        files=files,
    )  # fmt: skip


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("analysis", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _study(run: Path) -> dict[str, Any]:
    """The run's study, as it was resolved."""
    store.current(run)
    return {"compare": {}, **study_in(run / "study.yaml")}


def environment_in(path: Path) -> dict[str, Any]:
    """What a JSON file says of a run's environment; nothing where it is missing or damaged."""
    try:
        said = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
    kinds = {"libraries": dict, "command": list, "cpus": int}
    return {name: value for name, value in said.items() if isinstance(value, kinds.get(name, str))}


def download(name: str, content: bytes) -> Download:
    """A file as a link that holds it; large ones are compressed."""
    kind = _KINDS[Path(name).suffix]
    if len(content) > _PLAIN_BYTES:
        name, kind = f"{name}.gz", "application/gzip"
        content = gzip.compress(content, mtime=0)
    url = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    return Download(name, url, f"{max(1, round(len(content) / 1000)):,} kB")


def pending(df: pd.DataFrame) -> str:
    """How much of the table is missing, by rule; empty where nothing is."""
    missing = df[df["status"].eq("pending")]
    if missing.empty:
        return ""
    by_rule = missing.groupby("label", sort=False).size()
    which = ", ".join(f"{label} {number(int(count))}" for label, count in by_rule.items())
    return f"{number(len(missing))} of {counted(len(df), 'network')} pending ({which})."


def facts(df: pd.DataFrame) -> list[tuple[str, str]]:
    """The run in numbers: what was wanted, what came of it, and what it took."""
    states = {state: number(int(df["status"].eq(state).sum())) for state in _STATES}
    cells = df.loc[df["phase"].eq("evaluate"), ["label", "depth", "width", "dataset"]]
    return [
        ("networks", number(len(df))),
        *((_STATES[state], count) for state, count in states.items()),
        ("rules", number(cells["label"].nunique())),
        ("training time", duration(float(df["seconds"].sum()))),
    ]


_STATES = {"ok": "finished", "diverged": "diverged", "failed": "failed"}


def sections(drawn: list[Drawing], made: list[Table]) -> list[Section]:
    """Figures and tables by the analysis that they come from."""
    kinds = dict.fromkeys([*(each.kind for each in drawn), *(table.kind for table in made)])
    return [
        Section(
            kind,
            _TITLES.get(kind, kind.replace("_", " ").capitalize()),
            _lead(kind),
            [each for each in drawn if each.kind == kind],
            [table for table in made if table.kind == kind],
        )
        for kind in kinds
    ]


def _lead(kind: str) -> str:
    """What an analysis asks, in the words of its module."""
    module = vars(figures).get(kind)
    said = (module.__doc__ or "").strip() if module else ""
    head = said.partition("\n")[0].partition(":")[0].rstrip(".")
    return f"{head}." if head else ""


def provenance(df: pd.DataFrame, environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the numbers come from: machine, software, revision, command, times."""
    libraries = environment.get("libraries") or {}
    versions = {"python": environment.get("python"), **libraries}
    software = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    cpus = environment.get("cpus")
    machine = [environment.get("processor"), counted(cpus, "core") if cpus else ""]
    found = {
        "Command": " ".join(map(str, environment.get("command") or [])),
        "Git revision": _git(str(environment.get("git") or ""), df),
        "Software": software,
        "Host": listed(_known(df, "host") or [environment.get("host") or ""]),
        "Machine": ", ".join(str(word) for word in machine if word),
        "Platform": str(environment.get("platform") or ""),
        "Devices": listed(_known(df, "device")),
        "Started": str(environment.get("started") or ""),
        "Last network": _time(df["finished"].max()),
        "Study": listed(_known(df, "study_id")),
    }
    return [(name, text) for name, text in found.items() if text]


def _git(revision: str, df: pd.DataFrame) -> str:
    """The revisions that networks were trained at, a + where files had changed."""
    return listed([text for text in _known(df, "revision") if text] or [revision])


def _known(df: pd.DataFrame, column: str) -> list[str]:
    return [str(value) for value in df[column].dropna().unique()]


def _time(seconds: float) -> str:
    if pd.isna(seconds):
        return ""
    return datetime.fromtimestamp(float(seconds), UTC).isoformat(timespec="seconds")
