"""A run's study, as it was resolved, read from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from orchestrator import store


def declared(run: str | Path) -> dict[str, Any]:
    """The block `compare` of the run's study; empty where the folder has no study file.

    Raises:
        StoreError: the file is damaged.
    """
    path = store.opened(run) / "study.yaml"
    return dict(study_in(path).get("compare") or {}) if path.is_file() else {}


def study_in(path: Path) -> dict[str, Any]:
    """The study in a run's file, as it was resolved.

    Raises:
        StoreError: it cannot be read, or is no study.
    """
    try:
        study = yaml.safe_load(path.read_text(encoding="utf-8"))
        return {**study}
    except (OSError, TypeError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise store.StoreError(f"{path} cannot be read: {reason}; run the study again") from None
