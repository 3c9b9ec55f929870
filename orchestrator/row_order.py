"""The order in which a study's rows are read, whoever wrote them and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

AXES = ("dataset", "depth", "width", "activation", "residual")
ORDER = ("label", "campaign", "phase", "round", "point", *AXES, "init_seed", "feedback_seed")


def in_order(rows: list[int], table: pa.Table, content: Mapping[str, Any]) -> list[int]:
    """Plan rows in the order of the study, whoever wrote them: shards do so in any order."""
    campaigns = {tuple(key): place for place, key in enumerate(content.get("campaigns", []))}
    cells = {tuple(key): place for place, key in enumerate(content.get("shapes", []))}
    part = table.select(ORDER).take(pa.array(rows, pa.int64())).to_pylist()

    def place(row: dict[str, Any]) -> tuple[int, ...]:
        shape = (row["label"], *(row[axis] for axis in AXES))
        numbers = [row[name] for name in ("round", "point")]
        seeds = [row[name] for name in ("init_seed", "feedback_seed")]
        return (
            campaigns.get((row["label"], row["campaign"]), -1),
            int(row["phase"] == "evaluate"),
            *(-1 if number is None else number for number in numbers),
            cells.get(shape, -1),
            *(-1 if seed is None else seed for seed in seeds),
        )

    places = [place(row) for row in part] if campaigns else []
    return [row for _, row in sorted(zip(places, rows, strict=True))] if campaigns else rows
