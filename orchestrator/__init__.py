"""From a study file to a trial table: this package knows trials."""

from typing import Any

__all__ = ["Plan", "Result", "Study", "load_study", "plan", "run", "study_from", "verify"]

_HOMES = {
    "Study": "orchestrator.spec",
    "load_study": "orchestrator.spec",
    "study_from": "orchestrator.spec",
    "Plan": "orchestrator.plan",
    "plan": "orchestrator.plan",
    "load_network": "orchestrator.verify",
    "Result": "orchestrator.run",
    "run": "orchestrator.run",
    "verify": "orchestrator.verify",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the study file needs neither torch nor the table."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
