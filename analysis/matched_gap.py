"""How far a rule stays behind another, network by network, at matched or at fixed widths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t

from analysis import stats
from analysis.outcomes import LOSSES, evaluated, floor
from analysis.same_compute import on_clock_of
from analysis.trials import GROUP

MATCHED = "matched"
"""How the contract begins under which every depth has the same number of parameters."""

ALONE = "one init seed: no standard error"
"""What a summary notes where nothing tells how far the mean would move with other seeds."""

LINE = ["label", "reference", "metric", *GROUP, "contract"]
"""The columns that name one line over depth: a pair of rules, and what all depths share."""

_SIZE = ["parameter_count", "parameter_target"]
_STATE = ["value", "start", "lost"]
_NETWORK = ["label", *stats.PLACE, *_SIZE, "init_seed", "feedback_seed", "step", *_STATE]
_ROWS = [
    "label", "reference", "metric", *stats.PLACE, *_SIZE, "contract", "init_seed", "feedback_seed",
    "step", "value", "reference_value", "gap", "progress", "gap_fraction", "lost", "reference_lost",
]  # fmt: skip
_SUMMARY = [
    *LINE, "depth", "width", *_SIZE, "parameter_count_error", "step", "rows", "init_seeds",
    "gap_mean", "gap_sem", "gap_low", "gap_high", "gap_fraction_mean", "gap_fraction_sem",
    "gap_fraction_low", "gap_fraction_high", "lost", "reference_lost", "note",
]  # fmt: skip
_TREND = [
    *LINE, "quantity", "step", "depths", "slope", "low", "high", "sd", "init_seeds",
    "seeds_needed", "note",
]  # fmt: skip


def pairs(df: pd.DataFrame) -> list[tuple[str, str]]:
    """Every label with the one it is compared to: that of bp, or else the study's first."""
    labels = df["label"].unique().tolist()
    of_bp = df.loc[df["rule"].eq("bp"), "label"].unique().tolist()
    reference = [*of_bp, *labels][:1]
    return [(label, reference[0]) for label in labels if label not in reference]


def gap_rows(
    df: pd.DataFrame, pair: tuple[str, str] = ("fa", "bp"), metric: str = "train_loss"
) -> pd.DataFrame:
    """One row a network of the first rule, its partner of the second, and recorded step.

    Partners share the cell and the init seed, and the feedback seed where both rules draw one;
    a reference without feedback serves every feedback seed. `gap` is the first rule's `value`
    minus the reference's; `progress` is how far the reference has come since its start, and
    `gap_fraction` the gap as a part of it, null where there is none. From the step at which it
    diverged a network counts with its substitute, a failed one throughout (`lost`).

    `contract` says what all depths share: `matched` (the parameter count; with several targets
    `matched 5376`) or `width 64`. A network that is on two such lines has a row in each.
    """
    networks = on_clock_of(evaluated(df[df["label"].isin(pair)]), pair[1])
    parts = [_over_steps(part, metric) for _, part in networks.groupby("dataset")]
    if not parts:
        return pd.DataFrame(columns=_ROWS)
    long = pd.concat(parts, ignore_index=True)
    first, second = (long[long["label"].eq(label)] for label in pair)
    keys = [*stats.PLACE, "init_seed", "step"]
    keys += ["feedback_seed"] if _draws(first) and _draws(second) else []
    both = first.merge(second.drop(columns=_SIZE), on=keys, suffixes=("", "_reference"))
    if both.empty:
        return pd.DataFrame(columns=_ROWS)
    both = both.rename(columns={f"{name}_reference": f"reference_{name}" for name in _STATE})
    if "feedback_seed_reference" in both:
        both["feedback_seed"] = both["feedback_seed"].fillna(both["feedback_seed_reference"])
    named = both.assign(reference=pair[1], metric=metric)
    return _on_lines(_with_gaps(named, is_loss=metric in LOSSES))[_ROWS]


def _with_gaps(both: pd.DataFrame, *, is_loss: bool) -> pd.DataFrame:
    gap = both["value"] - both["reference_value"]
    forward = both["reference_value"] - both["reference_start"]
    progress = -forward if is_loss else forward
    fraction = gap / progress.where(progress.gt(0))
    return both.assign(gap=gap, progress=progress, gap_fraction=fraction)


def _draws(networks: pd.DataFrame) -> bool:
    return bool(networks["feedback_seed"].notna().any())


def _over_steps(networks: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The networks of one data set with a row a recorded step; none where nothing is known."""
    recorded = (step for steps in networks["curve_step"].dropna() for step in steps)
    grid = sorted({*recorded, *networks["steps"].dropna()})
    curves: list[dict[int, float]] = [
        dict(zip(steps, values, strict=True)) if steps is not None and values is not None else {}
        for steps, values in zip(networks["curve_step"], networks[f"curve_{metric}"], strict=True)
    ]
    values = [[curve.get(step, np.nan) for step in grid] for curve in curves]
    long = networks.assign(
        worst=floor(networks, metric),
        start=[curve.get(0, np.nan) for curve in curves],
        lost=networks["status"].isin(["diverged", "failed"]).astype(bool),
        step=pd.Series([grid] * len(networks), networks.index, dtype=object),
        value=pd.Series(values, networks.index, dtype=object),
    ).explode(["step", "value"], ignore_index=True)
    long = long.dropna(subset="step").astype({"step": "int64", "value": "float64"})
    held = ~long["lost"] | long["step"].le(long["diverged_step"]).fillna(False).astype(bool)
    value = long["value"].where(held & np.isfinite(long["value"]))
    value = value.fillna(long["worst"].where(long["lost"]))
    return long.assign(value=value).loc[value.notna(), _NETWORK]


def _on_lines(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with their contract; those that belong to two lines stand there twice.

    That is a matched network whose width the study also holds fixed, and a fixed one whose
    parameter count is the target: the reference network is both.
    """
    is_matched = rows["parameter_target"].notna()
    matched, fixed = rows[is_matched], rows[~is_matched]
    widths = fixed[[*GROUP, "width"]].drop_duplicates()
    targets = matched[[*GROUP, "parameter_target"]].drop_duplicates()
    as_fixed = matched.merge(widths, on=[*GROUP, "width"]).assign(parameter_target=None)
    as_matched = fixed.drop(columns="parameter_target").merge(targets, on=GROUP)
    exact = as_matched["parameter_count"].eq(as_matched["parameter_target"])
    on_target = _joined(matched, as_matched[exact], ["parameter_target", "depth"])
    at_width = _joined(fixed, as_fixed, ["width", "depth"])
    several = on_target.groupby(GROUP)["parameter_target"].transform("nunique").gt(1)
    target = " " + on_target["parameter_target"].astype("string")
    on_target = on_target.assign(contract=MATCHED + target.where(several, ""))
    at_width = at_width.assign(contract="width " + at_width["width"].astype("string"))
    return _joined(on_target, at_width)


def _joined(a: pd.DataFrame, b: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """The rows of both, ordered by these columns and else as they were."""
    parts = [part.astype({"parameter_target": "Int64"}) for part in (a, b) if len(part)]
    rows = pd.concat(parts, ignore_index=True) if parts else a
    return rows.sort_values(list(by), kind="stable") if by else rows


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a contract, depth and recorded step of `gap_rows`: means, errors and counts.

    `gap_mean` is over rows. `gap_sem` is the standard deviation of the init seeds' means over
    the root of their number, `gap_low` and `gap_high` their 95 % t interval; so for
    `gap_fraction`. `parameter_count_error` is signed, and null where the width was given.
    `lost` and `reference_lost` count rows whose network diverged or failed.
    """
    keys = [*LINE, "depth", "step"]
    if rows.empty:
        return pd.DataFrame(columns=_SUMMARY)
    cells = rows.groupby(keys, sort=False).agg(
        width=("width", "first"), parameter_count=("parameter_count", "first"),
        parameter_target=("parameter_target", "first"), rows=("gap", "size"),
        gap_mean=("gap", "mean"), gap_fraction_mean=("gap_fraction", "mean"),
        lost=("lost", "sum"), reference_lost=("reference_lost", "sum"),
    ).reset_index()  # fmt: skip
    for quantity in ("gap", "gap_fraction"):
        names = {name: f"{quantity}_{name}" for name in ("sem", "low", "high", "n")}
        of_seeds = stats.cell_means(rows, quantity, keys).rename(columns=names)
        cells = cells.merge(of_seeds.drop(columns="mean"), on=keys, how="left")
    cells = cells.rename(columns={"gap_n": "init_seeds"})
    error = cells["parameter_count"] - cells["parameter_target"]
    note = np.where(cells["init_seeds"].eq(1), ALONE, "")
    return cells.assign(parameter_count_error=error, note=note)[_SUMMARY]


def at_horizon(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, of networks or of a summary, at the last step of their line."""
    return rows[rows["step"].eq(rows.groupby(LINE)["step"].transform("max"))]


def early_step(steps: pd.Series) -> int | None:
    """The recorded step nearest to 40 % of the horizon, if any lies before it."""
    horizon = steps.max()
    between = sorted({int(step) for step in steps if 0 < step < horizon})
    return min(between, key=lambda step: abs(step - 0.4 * horizon), default=None)


def trend(rows: pd.DataFrame, quantity: str = "gap") -> pd.DataFrame:
    """Whether the gap at the horizon grows with depth: one row a line of two depths or more.

    `slope` is per doubling of depth: the mean over init seeds of each seed's least-squares slope,
    with its t interval and their standard deviation; a seed must have every depth.
    `seeds_needed` is roughly how many init seeds would show a trend of this size: see `note`.
    """
    last = at_horizon(rows[rows[quantity].notna()]) if len(rows) else rows
    found = []
    for key, line in last.groupby(LINE, sort=False):
        means = line.pivot_table(quantity, "init_seed", "depth").dropna()
        if means.size and means.shape[1] > 1:
            about = {"quantity": quantity, "step": line["step"].max(), "depths": means.shape[1]}
            found.append(dict(zip(LINE, key, strict=True)) | about | _growth(means))
    return pd.DataFrame(found, columns=_TREND).astype({"seeds_needed": "Int64"})


def _growth(means: pd.DataFrame) -> dict[str, float | str | None]:
    """The statistics of the slopes of a table with a row an init seed and a column a depth."""
    doublings = np.log2(means.columns.to_numpy(dtype=float))
    slopes = np.polyfit(doublings, means.to_numpy(dtype=float).T, 1)[0]
    of_seeds, sd = stats.mean_interval(slopes), _spread(slopes)
    needed = seeds_needed(of_seeds.mean, sd)
    return {
        "slope": of_seeds.mean, "low": of_seeds.low, "high": of_seeds.high, "sd": sd,
        "init_seeds": of_seeds.n, "seeds_needed": needed, "note": _advice(needed, of_seeds.n),
    }  # fmt: skip


def _spread(slopes: NDArray[np.float64]) -> float:
    return float(slopes.std(ddof=1)) if len(slopes) > 1 else np.nan


def seeds_needed(mean: float, sd: float) -> int | None:
    """The fewest seeds whose 95 % t interval, at this mean and spread, excludes 0; or None.

    Rough: at that number about half of all studies would exclude it, for four in five take twice
    as many; and mean and spread of a few seeds are themselves uncertain.
    """
    if not np.isfinite(sd) or mean == 0:
        return None
    n = max(2, int((1.9599 * sd / mean) ** 2))
    while t.ppf(0.975, n - 1) * sd / np.sqrt(n) >= abs(mean):
        n += 1
    return n


def _advice(needed: int | None, seeds: int) -> str:
    if seeds < 2:
        return ALONE
    if needed is None:
        return "no trend to size a study by"
    return (
        f"rough: were the trend and its spread as seen here, {needed} init seeds would exclude 0 "
        f"in about half of all studies, {2 * needed} in about four of five"
    )
