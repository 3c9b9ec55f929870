"""Plan rows: what a study wants, and why, noted as campaigns say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.campaign import Campaign, Wanted
from orchestrator.spec import Study
from orchestrator.store import Store


class PlanRows:
    """The plan rows that the table lacks; they are on the disk before what they want trains."""

    def __init__(self, study: Study, study_id: str, store: Store) -> None:
        self.study, self.study_id, self.store = study, study_id, store
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def outline(self, campaigns: Sequence[Campaign]) -> None:
        """Note all that the study will want, where the table has not all of it yet."""
        planned = sum(key[0] is None for key in self.store.planned[self.study_id])
        if planned < sum(number for campaign in campaigns for *_, number in campaign.sizes):
            for campaign in campaigns:
                for wanted in campaign.outline():
                    self.note(campaign, wanted, known=False)

    def note(self, campaign: Campaign, wanted: Wanted, *, known: bool) -> None:
        """Note a network, if the table has no such plan; its rate may be `known` or not yet."""
        trial = wanted.trial
        key = (
            trial.id if known else None,
            wanted.phase,
            campaign.id,
            wanted.round,
            wanted.point,
            *trial.cell.place,
            trial.init_seed,
            trial.feedback_seed,
        )
        if key not in self.store.planned[self.study_id] and key not in self._rows:
            row = self._row(campaign, wanted)
            unknown = {} if known else {"trial": None, "lr": None, "hyperparameters": None}
            self._rows[key] = row | unknown

    def _row(self, campaign: Campaign, wanted: Wanted) -> dict[str, Any]:
        rule, search = wanted.trial.cell.rule, self.study.search
        rate = {name: (low, high) for name, low, high in rule.space}.get("lr", (None, None))
        return wanted.trial.coordinates | {
            "study": self.study.name,
            "study_id": self.study_id,
            "campaign": campaign.id,
            "phase": wanted.phase,
            "round": wanted.round,
            "point": wanted.point,
            "parameter_target": wanted.target,
            "label": rule.label,
            "lr_low": rate[0],
            "lr_high": rate[1],
            "choose": search.choose,
            "status": "pending",
        }

    def write(self) -> None:
        """Put what was noted on the disk."""
        if self._rows:
            self.store.plan(self.study_id, self._rows)
            self._rows = {}
