"""Results kept as JSON files, one a network or one a set of probed networks, as a trial table.

A file `PREFIX_*.json` holds `{"args": {dataset, mode, depth, seed, ...}, "final": {test_acc,
cos_r_negg, ...}}` or `{"args": ..., "probes": {mode: {end2end_acc, layer_probe_acc}}}`. Other
keys are allowed everywhere. `analysis.seed_scripts` writes such files.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from orchestrator import store
from orchestrator.columns import SCHEMA, table_of

ARGS = {
    "dataset": "dataset", "mode": "label", "depth": "depth", "seed": "init_seed",
    "width": "width", "act": "activation", "residual": "residual", "eta": "lr",
    "batch_size": "batch_size", "momentum": "momentum", "feedback_seed": "feedback_seed",
    "rule": "rule",
}  # fmt: skip
"""What `args` may say of a network, and the column that holds it."""

FINAL = {
    "test_acc": "test_accuracy", "cos_r_negg": "alignment", "test_loss": "test_loss",
    "train_loss": "train_loss", "initial_loss": "initial_loss", "chance_acc": "chance_accuracy",
    "status": "status",
}  # fmt: skip
"""What `final` may say of it."""

PROBES = {
    "end2end_acc": "test_accuracy", "layer_probe_acc": "probe_accuracy",
    "layer_probe_acc_untrained": "probe_accuracy_untrained",
    "input_probe_acc": "probe_accuracy_input", "eta": "lr", "feedback_seed": "feedback_seed",
    "rule": "rule", "chance_acc": "chance_accuracy",
}  # fmt: skip
"""What an entry of `probes` may say of the network of its mode."""

_NEEDED = ("dataset", "mode", "depth")
_STRICT = (*_NEEDED, "seed", "test_acc", "cos_r_negg", "end2end_acc", "layer_probe_acc")
_DEFAULTS = {"width": 256, "activation": "tanh", "residual": False, "init_seed": 0}
_KINDS = {"string": "text", "int64": "a whole number", "double": "a number", "bool": "a flag"}


def read(folder: str | Path, prefix: str) -> pa.Table:
    """The networks in the folder's files `PREFIX_*.json` as evaluated rows, in order of path.

    The mode is label and rule. A seed that is not given is 0; width, activation and residual
    are then 256, tanh and none. Null is what was not measured. NaN is named on stderr and
    counts as null; a damaged file is named there and skipped.

    Raises:
        StoreError: the folder has no such file.
    """
    paths = sorted(path for path in Path(folder).glob("*.json") if _belongs(path, prefix))
    if not paths:
        raise store.StoreError(f"no runs with prefix {prefix}_ in {folder}")
    return table_of([row for path in paths for row in _rows_in(path, prefix)])


def _belongs(path: Path, prefix: str) -> bool:
    return path.name.startswith(f"{prefix}_")


def _rows_in(path: Path, prefix: str) -> list[dict[str, Any]]:
    try:
        parts = list(_networks(json.loads(path.read_text(encoding="utf-8"))))
        rows = [_row(args, found, keys, path) for args, found, keys in parts]
    except (OSError, ValueError, RecursionError) as error:
        sys.stderr.write(f"rulesweep: {path} is left out, it cannot be read: {error}\n")
        return []
    names = [path.stem if len(rows) == 1 else f"{path.stem}/{row['label']}" for row in rows]
    return [row | {"study": prefix, "trial": name} for row, name in zip(rows, names, strict=True)]


def _networks(content: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, str]]]:
    """The args and the results of every network in a file, and what the results' keys mean."""
    args = _mapping(content, "args")
    if "probes" not in content:
        yield args, _mapping(content, "final"), FINAL
        return
    probes = _mapping(content, "probes")
    for mode in probes:
        yield {**args, "mode": mode}, _mapping(probes, mode), PROBES


def _mapping(content: Any, key: str) -> dict[str, Any]:
    found = content.get(key) if isinstance(content, dict) else None
    if not isinstance(found, dict):
        raise ValueError(f"{key!r} should be a mapping; got {_shown(found)}")
    return found


def _row(
    args: Mapping[str, Any], found: Mapping[str, Any], keys: Mapping[str, str], path: Path
) -> dict[str, Any]:
    missing = [key for key in _NEEDED if args.get(key) is None]
    if missing:
        raise ValueError(f"args lack {', '.join(missing)}")
    known = _known(args, ARGS, path) | _known(found, keys, path)
    row = {"phase": "evaluate", "status": "ok", **_DEFAULTS, "rule": known["label"], **known}
    if row["status"] not in ("ok", "diverged", "failed"):
        row["status"] = "ok"
    drawn = None if row["rule"] == "bp" else row["init_seed"]
    return {"feedback_seed": drawn, **row}


def _known(values: Mapping[str, Any], keys: Mapping[str, str], path: Path) -> dict[str, Any]:
    """The values by column. One of the wrong kind is damage, or ignored where it is an extra."""
    found: dict[str, Any] = {}
    for key, column in keys.items():
        try:
            value = _value(values.get(key), SCHEMA.field(column).type)
        except TypeError as error:
            if key in _STRICT:
                raise ValueError(f"{key} {error}") from None
            continue
        found[column] = _finite(value, f"{path}: {key}")
    return {column: value for column, value in found.items() if value is not None}


def _value(value: Any, kind: pa.DataType) -> Any:
    """The value as its column holds it; an empty list is nothing."""
    if pa.types.is_list(kind) and isinstance(value, list):
        return [_value(one, kind.value_type) for one in value] or None
    name = str(kind)
    if value is None or (name == "string" and isinstance(value, str)):
        return value
    if name == "bool" and value in (0, 1):
        return bool(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if name == "int64" and is_whole:
        return value
    if name == "double" and (is_whole or isinstance(value, float)):
        return float(value)
    raise TypeError(f"should be {_KINDS.get(name, 'a list of numbers')}; got {_shown(value)}")


def _finite(value: Any, where: str) -> Any:
    """The value without NaN and infinity, which are named; null in their places."""
    values = value if isinstance(value, list) else [value]
    kept = [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
    if kept != values:
        odd = next(v for v, k in zip(values, kept, strict=True) if v is not k)
        sys.stderr.write(f"rulesweep: {where} is {odd} and is left out\n")
    return kept if isinstance(value, list) else kept[0]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
