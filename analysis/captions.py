"""What a figure says in words: what it shows, over how many seeds, and what went missing."""

from collections.abc import Iterable

import pandas as pd

from analysis.outcomes import ACCURACIES
from analysis.same_compute import is_same_compute
from analysis.trials import widths


def title(df: pd.DataFrame) -> str:
    """The data set and network that all rows share."""
    row = df.iloc[0]
    words = [row["dataset"], row["activation"], "residual" if row["residual"] else ""]
    lines = widths(df).unique()
    if len(lines) == 1:
        words.append("widths matched" if lines[0] == "by depth" else f"width {lines[0]}")
    words.append("same compute" if is_same_compute(df) else "")
    return ", ".join(word for word in words if word)


def pending(df: pd.DataFrame) -> str:
    """How much of the table is missing; empty where nothing is."""
    missing = int(df["status"].eq("pending").sum())
    return f"INCOMPLETE: {missing} of {len(df)} networks pending." if missing else ""


def seeds(n: pd.Series, kind: str = "init") -> str:
    """The number of seeds behind the means: `5 init seeds`, or `1 to 5` where it differs."""
    low, high = int(n[n.gt(0)].min()), int(n.max())
    number = str(high) if low == high else f"{low} to {high}"
    return f"{number} {kind} seed{'' if high == 1 else 's'}"


def means(n: pd.Series, mark: str = "bars") -> str:
    """What the lines are, and the marks of their intervals; one seed has no interval."""
    interval = f"with 95 % t interval ({mark}) " if n.max() > 1 else ""
    return f"Mean {interval}over {seeds(n)}"


def lost(summary: pd.DataFrame, substitute: str) -> str:
    """How many networks diverged or failed, which rules', and what they count as."""
    words = [_lost(summary, state) for state in ("diverged", "failed")]
    found = "; ".join(word for word in words if word)
    if not found:
        return f"None of {int(summary['networks'].sum())} diverged."
    return f"{found}; {substitute}."


def _lost(summary: pd.DataFrame, state: str) -> str:
    total = int(summary[state].sum())
    if not total:
        return ""
    by_rule = summary.groupby("label", sort=False)[state].sum()
    which = ", ".join(f"{label} {count}" for label, count in by_rule[by_rule.gt(0)].items())
    return f"{total} of {int(summary['networks'].sum())} {state} ({which})"


def substituted(metric: str) -> str:
    """What a lost network counts as."""
    return "counted at chance" if metric in ACCURACIES else "counted at 10 times the initial loss"


def named(prefix: str, labels: Iterable[str]) -> str:
    """`prefix` and the labels, or nothing where there are none."""
    names = list(labels)
    return f"{prefix}: {', '.join(names)}." if names else ""
