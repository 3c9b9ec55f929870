"""The order in which a study's rows are read, whoever wrote them and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

AXES = ("dataset", "depth", "width", "activation", "residual")
ORDER = ("label", "campaign", "phase", "round", "point", *AXES, "init_seed", "feedback_seed")
NUMBERS = ("round", "point", "init_seed", "feedback_seed")


def in_order(rows: list[int], table: pa.Table, content: Mapping[str, Any]) -> list[int]:
    """Plan rows in the order of the study, whoever wrote them: shards do so in any order."""
    campaigns = {tuple(key): place for place, key in enumerate(content.get("campaigns", []))}
    cells = {tuple(key): place for place, key in enumerate(content.get("shapes", []))}
    if not campaigns:
        return rows
    part = table.select(ORDER).take(pa.array(rows, pa.int64()))
    columns = (pc.fill_null(part[name], -1) if name in NUMBERS else part[name] for name in ORDER)
    values = zip(*(column.to_pylist() for column in columns), strict=True)
    places = [
        (
            campaigns.get((label, campaign), -1),
            phase == "evaluate",
            round_,
            point,
            cells.get((label, *shape), -1),
            init_seed,
            feedback_seed,
        )
        for label, campaign, phase, round_, point, *shape, init_seed, feedback_seed in values
    ]
    return [row for _, row in sorted(zip(places, rows, strict=True))]
