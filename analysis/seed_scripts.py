"""What small scripts around such results print, draw and write: their table, figures and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import accuracy_vs_depth, depth_utility
from analysis.figure import save
from analysis.figures import split
from analysis.outcomes import evaluated, substitute
from analysis.seed_json import ARGS, FINAL, PROBES
from analysis.style import looks, style
from analysis.trials import CELL, load_trials, widths
from orchestrator.store import durable

_FIGURES = {"acc_vs_depth": accuracy_vs_depth, "depth_utility": depth_utility}
_MODES, _WITH_SIGNAL = ("bp", "dfa", "sdil"), ("dfa", "sdil")
_PLACE = ["dataset", "depth", "width", "activation", "residual", "init_seed"]


def seed_table(df: pd.DataFrame) -> str:
    """Accuracy over depth and alignment by layer, as the depth script prints them.

    A block a data set: mean and population standard deviation over networks of the rules
    labelled bp, dfa and sdil, and the gap of the latter two. As in the script, networks of one
    depth are taken together whatever their width, activation or residual connections.
    """
    rows = substitute(df[df["phase"].eq("evaluate")])
    depths = sorted(rows["depth"].unique().tolist())
    return "\n".join(
        line
        for dataset in sorted(rows["dataset"].unique())
        for line in _block(rows[rows["dataset"].eq(dataset)], dataset, depths)
    )


def _block(rows: pd.DataFrame, dataset: str, depths: list[int]) -> list[str]:
    head = [f"{'depth':>6s}", *(f"{mode:>18s}" for mode in _MODES), f"{'dfa->sdil gap':>14s}"]
    return [
        f"\n############ {rows['study'].iloc[0]} dataset={dataset} ############",
        "\n--- TEST ACCURACY vs DEPTH ---",
        " | ".join(head),
        *(_accuracy_line(rows[rows["depth"].eq(depth)], depth) for depth in depths),
        "\n--- DEPTH UTILITY: per-layer cos(r,-g) [input-side ... output-side] ---",
        *(line for depth in depths for line in _utility_lines(rows, depth)),
    ]


def _accuracy_line(rows: pd.DataFrame, depth: int) -> str:
    of_mode = {mode: rows.loc[rows["label"].eq(mode), "test_accuracy"] for mode in _MODES}
    found = {mode: values.dropna().tolist() for mode, values in of_mode.items()}
    gap = ""
    if found["dfa"] and found["sdil"]:
        gap = f"{_mean(found['sdil']) - _mean(found['dfa']):+.4f}"
    cells = (f"{_cell(found[mode]):>18s}" for mode in _MODES)
    return " | ".join([f"{depth:6d}", *cells, f"{gap:>14s}"])


def _cell(values: list[float]) -> str:
    if not values:
        return " n/a "
    mean = _mean(values)
    deviation = _mean([(value - mean) ** 2 for value in values]) ** 0.5
    return f"{mean:.4f}±{deviation:.3f}"


def _mean(values: list[float]) -> float:
    """The plain sum over the number: summed in another order it could round to other digits."""
    return sum(values) / len(values) if values else float("nan")


def _utility_lines(rows: pd.DataFrame, depth: int) -> list[str]:
    lines = []
    for mode in _WITH_SIGNAL:
        chosen = rows["depth"].eq(depth) & rows["label"].eq(mode) & rows["alignment"].notna()
        lists = [list(values) for values in rows.loc[chosen, "alignment"]]
        if lists:
            lines.append(_utility_line(f" d{depth:<2d} {mode:4s}", lists))
    return lines


def _utility_line(name: str, lists: list[list[float | None]]) -> str:
    means = [_layer_mean(lists, i) for i in range(len(lists[0]))]
    early = _mean(means[: max(1, len(means) // 3)])
    return f"{name} early3rd={early:+.3f} | " + " ".join(f"{value:+.2f}" for value in means)


def _layer_mean(lists: list[list[float | None]], layer: int) -> float:
    known = [values[layer] for values in lists if layer < len(values)]
    return _mean([value for value in known if value is not None])


def draw_seed_figures(folder: str | Path, prefix: str = "depth") -> list[Path]:
    """Draw `figs/PREFIX_DATASET_acc_vs_depth` and `..._depth_utility` in the folder of results.

    Each is a png, pdf and svg with its numbers as csv. Where files of one prefix differ in
    activation, residual connections or width, what has a figure of its own is in its name.
    """
    df = load_trials(folder, prefix)
    df = df.assign(widths=widths(df))
    of = looks(df["label"])
    written: list[Path] = []
    for dataset, rows in df.groupby("dataset"):
        for name, module in _FIGURES.items():
            for suffix, part in split(rows, module.SPLIT):
                stem = f"{prefix}_{_word(dataset)}_{name}{suffix}"
                with style():
                    plot = module.figure(part, of)
                    if plot:
                        written += save(plot.figure, Path(folder) / "figs" / stem, plot.data)
    return written


def write_seed_json(df: pd.DataFrame, folder: str | Path, prefix: str = "depth") -> list[Path]:
    """Write a table's evaluated networks as JSON files in both of the scripts' formats.

    `PREFIX_*.json` hold a network each. `PREFIX-probe_*.json` hold the probed networks of one
    place and seed, a mode for each label. Lost networks have the values that they count with,
    and a `status`; pending ones are left out, and so is the alignment of a network that has a
    layer without signal, since the scripts average whole lists.
    """
    rows = evaluated(df)
    rows = rows[rows["status"].ne("pending")]
    files = [(_stem(prefix, row), _network(row)) for row in _records(rows)]
    probed = rows[rows["probe_accuracy"].notna()]
    turn = probed.groupby([*CELL, "init_seed"]).cumcount().rename("turn")
    for _, group in probed.groupby([*_PLACE, turn]):
        networks = _records(group)
        shared = {name: networks[0][name] for name in _PLACE}
        files.append((_stem(f"{prefix}-probe", shared), _probed(networks)))
    return [_write(Path(folder), stem, content) for stem, content in _numbered(files)]


def _records(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    """The rows without what they do not know; a list with gaps is not known."""
    return [
        {name: value for name, value in row.items() if _is_known(value)}
        for row in rows.to_dict("records")
    ]


def _is_known(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return not any(pd.isna(v) for v in values if not isinstance(v, list))


def _named(row: Mapping[Any, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    return {key: row[column] for key, column in keys.items() if column in row}


def _args(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {**_named(row, ARGS), "residual": int(row["residual"])}


def _network(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {"args": _args(row), "final": {"test_acc": None, **_named(row, FINAL)}}


def _probed(networks: list[dict[Any, Any]]) -> dict[str, Any]:
    shared = {name: networks[0][name] for name in _PLACE}
    modes = {row["label"]: {"end2end_acc": None, **_named(row, PROBES)} for row in networks}
    return {"args": {**_args(shared), "modes": ",".join(modes)}, "probes": modes}


def _stem(prefix: str, row: Mapping[Any, Any]) -> str:
    """The name of a file: all that tells its network from others."""
    words = [_word(row["dataset"]), _word(row["label"]) if "label" in row else ""]
    words += [f"d{row['depth']}", f"w{row['width']}", row["activation"]]
    words += ["residual" if row["residual"] else "", f"s{row['init_seed']}"]
    words += [f"f{row['feedback_seed']}" if "feedback_seed" in row else ""]
    return "_".join([prefix, *filter(None, words)])


def _word(value: object) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", str(value)).strip("-.")


def _numbered(files: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    """The files, with a number where a name is taken: other labels may have the same letters."""
    times: dict[str, int] = {}
    for stem, content in files:
        times[stem] = times.get(stem, 0) + 1
        yield (stem if times[stem] == 1 else f"{stem}_{times[stem]}"), content


def _write(folder: Path, stem: str, content: Mapping[str, Any]) -> Path:
    text = json.dumps(content, indent=1, allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.json"
    durable(path, lambda file: file.write(text.encode()))
    return path
