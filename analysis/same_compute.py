"""Rules that were given the same compute take unlike steps: telling so, and one clock for them."""

import pandas as pd

from analysis.stats import PLACE


def is_same_compute(df: pd.DataFrame) -> bool:
    """Whether rules take unlike numbers of steps at the same place of the grid."""
    return bool(df.groupby(PLACE)["steps"].nunique().gt(1).any())


def on_clock_of(networks: pd.DataFrame, reference: str) -> pd.DataFrame:
    """The networks with the reference's steps in the place of their own.

    Rules of one study record at the same shares of their training, so that the k-th recorded
    step of each stands for the same compute. Where they record otherwise nothing is changed.
    """
    of_reference = networks[networks["label"].eq(reference) & networks["curve_step"].notna()]
    clocks = {place: rows["curve_step"].iloc[0] for place, rows in of_reference.groupby(PLACE)}
    places = networks[PLACE].itertuples(index=False, name=None)
    steps, last = [], []
    for own, total, place in zip(networks["curve_step"], networks["steps"], places, strict=True):
        clock = clocks.get(place)
        alike = own is not None and clock is not None and len(own) == len(clock)
        steps.append(clock if alike else own)
        last.append(clock[-1] if alike and clock is not None else total)
    return networks.assign(
        curve_step=pd.Series(steps, networks.index, dtype=object),
        steps=pd.Series(last, networks.index, dtype="Int64"),
    )
