"""From a study file to a trial table: this package knows trials."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.driver import run
    from orchestrator.forecast import Plan, plan
    from orchestrator.retrain import Verdict, load_network, verify
    from orchestrator.spec import Study, load_study, study_from
    from orchestrator.telling import Result

__all__ = [
    "Plan",
    "Result",
    "Study",
    "Verdict",
    "load_network",
    "load_study",
    "plan",
    "run",
    "study_from",
    "verify",
]

_HOMES = {
    "orchestrator.driver": ("run",),
    "orchestrator.telling": ("Result",),
    "orchestrator.forecast": ("Plan", "plan"),
    "orchestrator.retrain": ("Verdict", "load_network", "verify"),
    "orchestrator.spec": ("Study", "load_study", "study_from"),
}


def __getattr__(name: str) -> Any:
    """Import on first use: reading a study file needs neither torch nor the table."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
