"""Tables for a paper: which there are, and any of them as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import accuracy_vs_depth, comparisons, depth_utility, lr_sensitivity, probes
from analysis.study_file import declared
from analysis.trials import CELL, GROUP
from orchestrator.store import durable

CAPTIONS = {
    "accuracy": "Test accuracy, or loss where there are no classes, by depth: mean over init seeds "
                "(their number) and 95 % t interval. Lost networks count at chance.",
    "gap": "Test accuracy, or loss where there are no classes, minus the reference's, by depth: "
           "mean over init seeds (number of pairs) and 95 % interval.",
    "depth_utility": "Alignment of the signal with the negative gradient in the first third of the "
                     "hidden layers, by depth: mean over init seeds (their number) and 95 % t "
                     "interval.",
    "probes": "Accuracy of ridge probes and of the network, and what training adds to the probes "
              "of the first third of the hidden layers (gain, with 95 % t interval).",
    "comparisons": "Differences paired by init seed, with 95 % interval, sign-flip p, and p "
                   "adjusted by Holm over the table.",
    "rates": "Tuned learning rates and their ranges.",
}  # fmt: skip
"""What the tables of `tables` show."""

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&",
    "$": r"\$", "#": r"\#", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "−": "$-$",
}  # fmt: skip
_MINUS = re.compile(r"(?<![\w.)-])-(?=\.?\d)")


def latex(frame: pd.DataFrame, caption: str, label: str) -> str:
    """The frame as a table that needs the package booktabs; all texts are shown as they are.

    Numbers have three decimals; a column of positive ones, some too small for that, three digits.
    """
    columns = [_texts(frame[name]) for name in frame]
    sides = "".join("r" if _is_number(frame[name]) else "l" for name in frame)
    head = " & ".join(escaped(str(name)) for name in frame)
    rows = [" & ".join(cells) for cells in zip(*columns, strict=True)]
    return "\n".join([
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(caption)}}}",
        rf"\label{{{re.sub(r'[^A-Za-z0-9:_.-]+', '-', label)}}}",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
        *(rf"{_guarded(row)} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ])  # fmt: skip


def escaped(text: str) -> str:
    """The text with everything that LaTeX would take for an instruction written out."""
    plain = "".join(_ESCAPES.get(letter, letter) for letter in text)
    return _MINUS.sub("$-$", plain)


def _guarded(row: str) -> str:
    """A row that the end of the one before cannot take for its option."""
    return f"{{}}{row}" if row.startswith(("[", "*")) else row


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def _texts(values: pd.Series) -> list[str]:
    """The cells of a column; nothing where nothing is known."""
    if pd.api.types.is_bool_dtype(values):
        texts = values.map({True: "yes", False: "no"}).tolist()
    elif pd.api.types.is_float_dtype(values):
        small = values.min() > 0 and values.lt(0.0005).any()
        texts = [_number(value, ".3g" if small else ".3f") for value in values]
    else:
        texts = [escaped(str(value)) for value in values]
    return [text if known else "" for text, known in zip(texts, values.notna(), strict=True)]


def _number(value: float, digits: str) -> str:
    number, _, power = f"{value:{digits}}".partition("e")
    return escaped(number) + (rf" $\times 10^{{{int(power)}}}$" if power else "")


def tables(df: pd.DataFrame, compare: Mapping[str, Any] | None = None) -> dict[str, pd.DataFrame]:
    """The tables of a study by name, but for those it has nothing for; see `CAPTIONS`.

    `compare` is the study's block of that name. Of the columns that lead, those that the study
    does not sweep are left out.
    """
    found = {
        "accuracy": _accuracy(df),
        "gap": _gap(df),
        "depth_utility": _by_depth(depth_utility.summarise(df)),
        "probes": _probes(df),
        "comparisons": _comparisons(df, compare),
        "rates": _rates(df),
    }
    return {name: frame for name, frame in found.items() if len(frame)}


def write_tables(df: pd.DataFrame, run: str | Path, folder: str | Path) -> list[Path]:
    """Write every table as `NAME.tex` into the folder, with the run's declared comparisons."""
    found = tables(df, declared(run))
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [_write(frame, name, Path(folder) / f"{name}.tex") for name, frame in found.items()]


def _write(frame: pd.DataFrame, name: str, path: Path) -> Path:
    text = latex(frame, CAPTIONS[name], f"tab:{name}")
    durable(path, lambda file: file.write(text.encode()))
    return path


def _swept(frame: pd.DataFrame, names: Iterable[str] = (*GROUP, "widths")) -> list[str]:
    return [name for name in names if len(frame[name].unique()) > 1]


def _accuracy(df: pd.DataFrame) -> pd.DataFrame:
    return _by_depth(accuracy_vs_depth.summarise(df))


def _gap(df: pd.DataFrame) -> pd.DataFrame:
    table = accuracy_vs_depth.summary_table(df)
    names = {"gap": "mean", "gap_low": "low", "gap_high": "high", "gap_n": "n"}
    gaps = table[table["gap"].notna()].drop(columns=list(names.values()))
    return _by_depth(gaps.rename(columns=names).assign(n=lambda rows: rows["n"].astype("Int64")))


def _by_depth(summary: pd.DataFrame) -> pd.DataFrame:
    """Two rows a rule, the means and their intervals beneath, and a column a depth."""
    seen = summary[summary["n"].gt(0)]
    swept = _swept(seen) if len(seen) else []
    rows: list[dict[str, str]] = []
    for _, line in seen.groupby([*GROUP, "widths", "label"], sort=False):
        lead = {name: str(line[name].iloc[0]) for name in swept}
        cells = [(str(cell["depth"]), cell) for cell in line.to_dict("records")]
        rows.append(
            lead | {"rule": line["label"].iloc[0]} | {at: _mean(cell) for at, cell in cells}
        )
        rows.append({at: _interval(cell) for at, cell in cells})
    depths = [str(depth) for depth in sorted(seen["depth"].unique())]
    return pd.DataFrame(rows, columns=[*swept, "rule", *depths]).fillna("")


def _mean(cell: Mapping[Any, Any]) -> str:
    lost = cell["diverged"] + cell["failed"]
    return f"{cell['mean']:.3f} ({cell['n']}{f', {lost} lost' if lost else ''})"


def _interval(cell: Mapping[Any, Any]) -> str:
    return "" if pd.isna(cell["low"]) else f"[{cell['low']:.3f}, {cell['high']:.3f}]"


def _probes(df: pd.DataFrame) -> pd.DataFrame:
    """A row a cell: the probes of the input, the first and the last layer, network, gain."""
    summary = probes.summarise(df)
    gains = probes.early_gain(df)
    places: dict[str, Any] = {"input": 0, "layer 1": 1, "last layer": summary["depth"]}
    for name, layer in places.items():
        at = summary[summary["layer"].eq(layer)].rename(columns={"mean": name})
        gains = gains.merge(at[[*CELL, name]], on=CELL, how="left")
    whole = summary[[*CELL, "end_to_end_mean", "end_to_end_n"]].drop_duplicates()
    names = {"label": "rule", "end_to_end_mean": "network", "mean": "gain"}
    rows = gains.drop(columns="n").merge(whole, on=CELL)
    rows = rows.rename(columns=names | {"end_to_end_n": "n"})
    kept = ["rule", "depth", *places, "network", "gain", "low", "high", "n"]
    return rows[[*_swept(rows), *kept]]


def _comparisons(df: pd.DataFrame, compare: Mapping[str, Any] | None) -> pd.DataFrame:
    rows = comparisons.claims(comparisons.comparisons(df, compare))
    kept = ["label", "reference", "metric", "depth", "mean", "low", "high", "n", "p", "p_holm"]
    names = {"label": "rule", "p_holm": "Holm p"}
    return rows[[*_swept(rows), *kept, "claimed", "reason"]].rename(columns=names)


def _rates(df: pd.DataFrame) -> pd.DataFrame:
    """The tuned rates and other searched values, a row a cell; at_edge: the range is too small."""
    rows = lr_sensitivity.edges(df)
    others = [str(name) for name in df if str(name).startswith("hp_") and name != "hp_lr"]
    found = df[df["phase"].eq("evaluate")].groupby(CELL)[others].first().reset_index()
    kept = [*_swept(rows, GROUP), "label", "depth", "width", "lr", "lr_low", "lr_high", "at_edge"]
    names = {"label": "rule", "lr_low": "lr low", "lr_high": "lr high", "at_edge": "at edge"}
    names |= {name: name.removeprefix("hp_") for name in others}
    return rows.merge(found, on=CELL, how="left")[[*kept, *others]].rename(columns=names)
