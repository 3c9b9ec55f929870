"""What a network counts as in statistics: values for the lost ones, counts, and the measure."""

import pandas as pd

from analysis.trials import CELL

ACCURACIES = ("train_accuracy", "validation_accuracy", "test_accuracy", "best_test_accuracy")
LOSSES = ("train_loss", "validation_loss", "test_loss")

_FALLBACKS = ("test_loss", "validation_loss", "train_loss")
_SETTINGS = [
    "rule", "options", "bias", "lr", "hyperparameters", "steps", "batch_size", "momentum",
    "weight_decay", "optimizer", "schedule", "warmup", "loss", "dtype",
]  # fmt: skip
_TWINS = ["dataset", "depth", "width", "activation", "residual", "bias", "loss", "init_seed"]


def evaluated(df: pd.DataFrame) -> pd.DataFrame:
    """The evaluation rows, ready to be averaged: equal settings in a cell, no lost values.

    Raises:
        ValueError: if networks of one cell differ in more than their seeds.
    """
    rows = df[df["phase"].eq("evaluate")]
    _refuse_mixtures(rows)
    return substitute(rows)


def _refuse_mixtures(df: pd.DataFrame) -> None:
    variants = df.groupby(CELL)[_SETTINGS].nunique()
    mixed = variants[variants.gt(1).any(axis="columns")]
    if mixed.empty:
        return
    names = ", ".join(name for name in _SETTINGS if mixed[name].iloc[0] > 1)
    cell = ", ".join(f"{key} {value}" for key, value in zip(CELL, mixed.index[0], strict=True))
    raise ValueError(
        f"networks of one cell ({cell}) differ in {names}, so they must not be averaged: "
        "give each setting a label of its own"
    )


def substitute(df: pd.DataFrame) -> pd.DataFrame:
    """The frame with a finite value for every network that diverged or failed.

    Its accuracies become chance, its losses ten times the loss at the start: constants of the
    network, which stay as they are when rows are added. A failed network may not say its own;
    then chance is that of its data set, the start that of an equal network with the same seed.
    What the data do not have (a test set, say) stays null, and so do pending networks.
    """
    lost = df["status"].isin(["diverged", "failed"])
    floors = dict.fromkeys(ACCURACIES, floor(df, ACCURACIES[0]))
    floors |= dict.fromkeys(LOSSES, floor(df, LOSSES[0]))
    return df.assign(**{
        metric: df[metric].mask(lost & _is_measured(df, metric), value)
        for metric, value in floors.items()
    })  # fmt: skip


def floor(df: pd.DataFrame, metric: str) -> pd.Series:
    """The value of `metric` that the network of each row counts with when it is lost."""
    if metric in ACCURACIES:
        return _borrowed(df, "chance_accuracy", ["dataset"])
    return 10 * _borrowed(df, "initial_loss", _TWINS)


def _borrowed(df: pd.DataFrame, column: str, keys: list[str]) -> pd.Series:
    return df[column].fillna(df.groupby(keys)[column].transform("first"))


def _is_measured(df: pd.DataFrame, metric: str) -> pd.Series:
    """Whether the row's data set has the metric, as far as its finished networks tell."""
    finished = df["status"].eq("ok")
    having = finished & df[metric].notna()
    known = finished.groupby(df["dataset"]).transform("any")
    return ~known | having.groupby(df["dataset"]).transform("any")


def metric_of(df: pd.DataFrame, wanted: str) -> str:
    """`wanted` if the finished networks have it, else the first loss that they have.

    Losses are tried in the order test, validation, training: data without classes have no
    accuracy, and data without a test set no test loss.
    """
    finished = df[df["status"].eq("ok")]
    for metric in (wanted, *_FALLBACKS):
        if finished[metric].notna().any():
            return metric
    classes = df["chance_accuracy"].notna().any()
    return "test_loss" if wanted in ACCURACIES and not classes else wanted


def counts(df: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The networks wanted in each group, and how many of them diverged, failed or are pending."""
    states = ("diverged", "failed", "pending")
    flags = df[by].assign(networks=1, **{state: df["status"].eq(state) for state in states})
    return flags.groupby(by, as_index=False).sum()
