"""From a run folder to a frame with one row a network, and its lists in long form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis import seed_json
from orchestrator import store

CELL: list[str] = ["label", "dataset", "depth", "width", "activation", "residual"]
"""The columns that, together, name a cell: one rule on one network and one data set."""

GROUP: list[str] = ["dataset", "activation", "residual"]
"""The columns of a cell that split figures, where a study sweeps them."""

NETWORK: list[str] = [
    "trial", "phase", "status", "rule", *CELL, "init_seed", "feedback_seed", "lr"
]  # fmt: skip
"""The columns that stay with a network in the long frames."""

CURVES = ("train_loss", "validation_loss", "test_loss", "test_accuracy", "alignment")
"""What is recorded during training; each has a list column `curve_<name>`."""

_DTYPES = {
    pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()
}  # fmt: skip


def load_trials(run: str | Path, prefix: str | None = None) -> pd.DataFrame:
    """The networks that the current study of a run, in a folder or at a URI, wants, one row each.

    With a prefix the folder is one of JSON files, `PREFIX_*.json`, instead: see `seed_json`.
    The columns are those of `store.COLUMNS`, then one `hp_<name>` a searched value, then
    `is_best`. A wanted network that has not been trained has the status `pending`.
    """
    return frame_of(store.trials(run) if prefix is None else seed_json.read(run, prefix))


def frame_of(table: pa.Table) -> pd.DataFrame:
    """The trial table as a frame: typed columns, searched values and `is_best` spread out."""
    df = pd.DataFrame({column.name: _series(table, column) for column in store.COLUMNS})
    return pd.concat([df, _searched(df), _is_best(df)], axis="columns")


def _series(table: pa.Table, column: store.Column) -> pd.Series:
    values = table[column.name]
    if pa.types.is_list(column.dtype):
        return pd.Series(values.to_pylist(), dtype="object")
    series: pd.Series = values.to_pandas(types_mapper=_DTYPES.get)
    return series


def _searched(df: pd.DataFrame) -> pd.DataFrame:
    texts = df["hyperparameters"].fillna("{}")
    read = {text: json.loads(text) for text in texts.unique()}
    values = [read[text] for text in texts]
    names = sorted({name for row in read.values() for name in row})
    return pd.DataFrame(
        {f"hp_{name}": [row.get(name, np.nan) for row in values] for name in names}, index=df.index
    )


def _is_best(df: pd.DataFrame) -> pd.Series:
    """Evaluation rows, and the tuning rows with the values that their cell is evaluated with."""
    keys = [*CELL, "hyperparameters"]
    evaluated = df["phase"].eq("evaluate")
    chosen = df.loc[evaluated, keys].dropna(subset="hyperparameters").drop_duplicates()
    found = df[keys].merge(chosen, how="left", indicator=True)["_merge"].eq("both")
    return (evaluated | found).astype("boolean").rename("is_best")


def layers(df: pd.DataFrame, column: str = "alignment") -> pd.DataFrame:
    """The list column `column` with one row a network and hidden layer.

    `layer` counts from 1 at the input side. Networks without a list have no row; a null in a
    list is NaN.
    """
    long = df.loc[df[column].notna(), [*NETWORK, column]].reset_index(drop=True).explode(column)
    layer = long.groupby(level=0).cumcount() + 1
    return long.assign(layer=layer).astype({column: "float64"}).reset_index(drop=True)


def curves(df: pd.DataFrame) -> pd.DataFrame:
    """What was recorded in training, one row a network and recorded `step`.

    `alignment` is a list over hidden layers. A curve that was not recorded is NaN.
    """
    recorded = df.loc[df["curve_step"].notna()].reset_index(drop=True)
    long = recorded[NETWORK].assign(step=recorded["curve_step"])
    for name in CURVES:
        long[name] = _filled(recorded[f"curve_{name}"], recorded["curve_step"])
    long = long.explode(["step", *CURVES], ignore_index=True)
    return long.astype({"step": "Int64", **dict.fromkeys(CURVES[:-1], "float64")})


def _filled(values: pd.Series, steps: pd.Series) -> pd.Series:
    pairs = zip(values, steps, strict=True)
    lists = [[np.nan] * len(step) if value is None else value for value, step in pairs]
    return pd.Series(lists, dtype=object, index=values.index)


def widths(df: pd.DataFrame) -> pd.Series:
    """What a line over depth holds fixed: a width, or `by depth` where each depth has its own.

    Depths of a group (data set, activation, residual) that all have one width belong to one
    line, also when these widths differ; where a depth has several, each width has its line, and
    so have the widths that were chosen to match a parameter count.
    """
    matched = df["parameter_target"].notna().rename("matched")
    keys = [*(df[name] for name in GROUP), matched]
    of_depth = df.groupby([*keys, df["depth"]])["width"].transform("nunique")
    single = of_depth.groupby(keys).transform("max").eq(1)
    varied = df.groupby(keys)["width"].transform("nunique").gt(1)
    plain: pd.Series = df["width"].astype("string")
    return plain.mask(single & varied, "by depth").rename("widths")


def at_edge(df: pd.DataFrame) -> pd.Series:
    """Whether the learning rate lies in the outer 5 % of its searched range, on a log scale.

    False where no range was searched or no rate is chosen yet.
    """
    low, high, lr = (np.log(df[name]) for name in ("lr_low", "lr_high", "lr"))
    margin = 0.05 * (high - low) + 1e-9
    flagged: pd.Series = lr.le(low + margin) | lr.ge(high - margin)
    return flagged.astype("boolean").rename("at_edge")
