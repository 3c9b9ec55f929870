"""Means, paired differences and their intervals, with the init seed as the unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.trials import CELL

PLACE: list[str] = [name for name in CELL if name != "label"]
"""The columns in which two rules must agree to be compared."""

_RESAMPLES = 9999  # at least 2^13, which keeps the sign flips of 13 seeds exact
_BOOTSTRAP_FROM = 20


@dataclass(frozen=True)
class Mean:
    """A mean over init seeds with its 95 % interval; the bounds are NaN where n < 2."""

    mean: float
    low: float
    high: float
    sem: float
    n: int


@dataclass(frozen=True)
class Difference:
    """A mean paired difference, its 95 % interval, and its sign-flip p.

    `method` says what the interval is: `t`, `BCa`, or `none` where n < 2.
    """

    mean: float
    low: float
    high: float
    n: int
    p: float
    method: str


def mean_interval(values: ArrayLike) -> Mean:
    """The mean with its t interval; NaN bounds for one value, all NaN for none."""
    x = np.asarray(values, dtype=float)
    n = len(x)
    if n < 2:
        return Mean(float(x[0]) if n else np.nan, np.nan, np.nan, np.nan, n)
    mean, sem = float(x.mean()), float(x.std(ddof=1) / np.sqrt(n))
    half = float(stats.t.ppf(0.975, n - 1)) * sem
    return Mean(mean, mean - half, mean + half, sem, n)


def paired_difference(a: ArrayLike, b: ArrayLike) -> Difference:
    """The mean of a - b, where equal places hold equal seeds; see `difference_of`."""
    return difference_of(np.asarray(a, dtype=float) - np.asarray(b, dtype=float))


def difference_of(differences: ArrayLike) -> Difference:
    """The mean of paired differences, one a seed.

    The interval is that of the paired t test below 20 seeds and BCa from there on: resampling
    few values covers too little.
    """
    d = np.asarray(differences, dtype=float)
    t, p = mean_interval(d), sign_flip_p(d)
    if t.n < 2:
        return Difference(t.mean, np.nan, np.nan, t.n, p, "none")
    if t.n < _BOOTSTRAP_FROM or np.ptp(d) == 0:
        return Difference(t.mean, t.low, t.high, t.n, p, "t")
    low, high = _bca(d)
    return Difference(t.mean, low, high, t.n, p, "BCa")


def _bca(d: NDArray[np.float64]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    found = stats.bootstrap((d,), np.mean, n_resamples=_RESAMPLES, method="BCa", rng=rng)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def sign_flip_p(d: ArrayLike) -> float:
    """The two-sided p of the mean of `d` under random signs; NaN for no values.

    Exact up to 13 values (8,192 sign patterns), from 9,999 seeded random patterns above. The
    least p of n values is 2 / 2^n, so that fewer than 6 cannot reach .05.
    """
    x = np.asarray(d, dtype=float)
    if len(x) < 2:
        return 1.0 if len(x) else np.nan
    rng = np.random.default_rng(0)
    found = stats.permutation_test(
        (x,), np.mean, permutation_type="samples", n_resamples=_RESAMPLES, rng=rng
    )
    return float(found.pvalue)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Holm's adjusted p of one family; NaN stays NaN and is no member of the family."""
    adjusted = np.array(p, dtype=float)
    known = ~np.isnan(adjusted)
    if known.any():
        adjusted[known] = multipletests(adjusted[known], method="holm")[1]
    return adjusted


def seed_means(df: pd.DataFrame, metric: str, by: Sequence[str] = CELL) -> pd.DataFrame:
    """One row a group and init seed: `metric` averaged over feedback seeds, nulls left out."""
    known = df[df[metric].notna()]
    return known.groupby([*by, "init_seed"])[metric].mean().reset_index()


def cell_means(df: pd.DataFrame, metric: str, by: Sequence[str] = CELL) -> pd.DataFrame:
    """One row a group: mean over init seeds, low, high, sem and n (init seeds)."""
    groups = seed_means(df, metric, by).groupby(list(by))[metric].agg(list)
    return _each(groups, mean_interval, Mean)


def compare(
    df: pd.DataFrame, metric: str, pairs: Iterable[tuple[str, str]], by: Sequence[str] = PLACE
) -> pd.DataFrame:
    """One row a place and pair (label, reference) of rules: label - reference, paired by seed.

    Seeds that only one of the two has are left out. `p_holm` takes all returned rows as one
    family.
    """
    seeds = seed_means(df, metric, ["label", *by])
    parts = [paired(seeds, metric, pair, by) for pair in pairs]
    keys = ["label", "reference", *by]
    groups = pd.concat(parts, ignore_index=True).groupby(keys)["d"].agg(list)
    rows = _each(groups, difference_of, Difference)
    return rows.assign(p_holm=holm(rows["p"]))


def paired(
    seeds: pd.DataFrame, metric: str, pair: tuple[str, str], by: Sequence[str] = PLACE
) -> pd.DataFrame:
    """One row a place and init seed that both rules of the pair have: their difference, `d`.

    `seeds` are the seed means by label and place.
    """
    rule, reference = (seeds[seeds["label"].eq(label)] for label in pair)
    both = rule.merge(
        reference.drop(columns="label"), on=[*by, "init_seed"], suffixes=("", "_reference")
    )
    return both.assign(reference=pair[1], d=both[metric] - both[f"{metric}_reference"])


def _each(
    groups: pd.Series, statistic: Callable[[ArrayLike], Mean | Difference], kind: type
) -> pd.DataFrame:
    """One row a group: its keys, then the fields of the statistic of its list of values."""
    kinds = {"int": "int64", "float": "float64"}
    dtypes = {field.name: kinds.get(str(field.type), "object") for field in fields(kind)}
    values = pd.DataFrame([asdict(statistic(values)) for values in groups], columns=list(dtypes))
    values = values.astype(dtypes)  # no groups have no dtypes of their own
    return pd.concat([groups.index.to_frame(index=False), values], axis="columns")
