"""A user's own modules: which of them a study needs, and taking them to machines without them."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.spec import Study
from orchestrator.yaml_file import StudyError
from rules import catalog

OURS = ("rules", "orchestrator", "analysis")
LEFT_OUT = ("__pycache__", ".git", "runs", "data", ".venv", "*.npz", "*.parquet")
MOST = 20 * 2**20
"""Bytes that a study's own code may have: more is data that was put beside it."""


def own_modules(study: Study, folders: Sequence[str]) -> dict[str, Path]:
    """The top-level modules, by name, that the study's own rules and data sets were made of.

    Those of `folders` that are imported once the study's rules and data sets are: what they
    import there themselves comes along.

    Raises:
        RuleError, StudyError: a rule or a data set that cannot be imported.
    """
    for choice in study.rules:
        catalog.find(choice.name)
    for name in dict.fromkeys(name for block in study.blocks for name in block.dataset):
        if ":" in name:
            _import(name)
    places = {Path(folder).resolve() for folder in folders}
    found = {name: _root(name) for name in dict(sys.modules) if "." not in name}
    return {
        name: root
        for name, root in found.items()
        if root is not None and root.parent in places and name not in OURS
    }


def _import(name: str) -> None:
    try:
        importlib.import_module(name.partition(":")[0])
    except Exception as error:  # a user's module may raise anything
        what = f"{type(error).__name__}: {error}"
        raise StudyError([f'data set "{name}" cannot be imported: {what}']) from error


def _root(name: str) -> Path | None:
    """The file or the folder of a top-level module."""
    module = sys.modules[name]
    if getattr(module, "__path__", None):
        return Path(next(iter(module.__path__))).resolve()
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def stage(modules: Mapping[str, Path], folder: Path) -> list[Path]:
    """Copy the modules' code into a folder, without data, runs and caches; the copies.

    Raises:
        StudyError: a module that is too large to be code.
    """
    copies = []
    for name, root in sorted(modules.items()):
        copy = folder / root.name
        if root.is_dir():
            shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy(root, copy)
        size = sum(path.stat().st_size for path in [copy, *copy.rglob("*")] if path.is_file())
        if size > MOST:
            raise StudyError(
                [
                    f"module {name}: {root} has {size / 2**20:.0f} MB, too much to be sent as "
                    f"code (at most {MOST // 2**20} MB); keep data outside it"
                ]
            )
        copies.append(copy)
    return copies
