"""The command: run the sections, show their numbers, and keep them in a file."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.sections import SECTIONS, run_section
from benchmarks.sizes import add_arguments, sizes_from

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run what the arguments ask for; 1 where a section failed."""
    given = _parser().parse_args()
    sizes, where = sizes_from(given), machine()
    print(described(where))
    sections = {name: run_section(name, sizes) for name in given.only}
    report = {"machine": where, "sizes": asdict(sizes), "sections": sections}
    path = given.out or RESULTS / f"{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
    failed = [name for name, section in sections.items() if section["error"]]
    print(f"\nwritten to {path}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return int(bool(failed))


def _parser() -> ArgumentParser:
    parser = ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: sizes say nothing")
    parser.add_argument(
        "--only",
        type=_sections,
        default=tuple(SECTIONS),
        help=f"some of {','.join(SECTIONS)}; or their letters, a to h",
    )
    parser.add_argument("--out", type=Path, help="the JSON file; benchmarks/results/<date>.json")
    add_arguments(parser)
    return parser


def _sections(text: str) -> tuple[str, ...]:
    letters = dict(zip("abcdefgh", SECTIONS, strict=True))
    names = tuple(letters.get(word, word) for word in text.split(","))
    unknown = set(names) - set(SECTIONS)
    if unknown:
        raise ArgumentTypeError(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return names


def machine() -> dict[str, Any]:
    """The machine, the versions, the revision, and how busy it is before anything starts."""
    from orchestrator.folder import environment

    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return environment() | {
        "command": ["python", "-m", "benchmarks", *sys.argv[1:]],
        "memory_gb": round(pages * page / 2**30, 1),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def described(where: dict[str, Any]) -> str:
    """The machine in two lines."""
    libraries = ", ".join(f"{k} {v}" for k, v in where["libraries"].items())
    return (
        f"{where['processor']}, {where['cpus']} cores, {where['memory_gb']} GB; load "
        f"{where['load'][0]}; {where['started']}; git {where['git']}\n"
        f"python {where['python']}, {libraries}"
    )


if __name__ == "__main__":
    sys.exit(main())
