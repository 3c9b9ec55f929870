"""Orders and splits of examples as pure functions of seeds, the same on every machine."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from rules.dataset import DataError

Index = NDArray[np.int64]


def philox(*key: object) -> np.random.Philox:
    """The counter-based stream of these words (Philox; Salmon et al., 2011)."""
    digest = sha256("/".join(map(str, key)).encode()).digest()
    return np.random.Philox(key=int.from_bytes(digest[:16], "little"))


def permutation(count: int, *key: object) -> Index:
    """A permutation of range(count), int64 (count,), that the words of `key` fix.

    Sorts raw 64-bit words, since numpy promises the same words for ever, but not that its own
    `permutation` will go on to use them in the same way.
    """
    return np.argsort(philox(*key).random_raw(count), kind="stable")


def order(seed: int, epoch: int, count: int) -> Index:
    """The order in which an epoch goes through `count` training examples: int64 (count,)."""
    return permutation(count, seed, "order", epoch)


def split(count: int, validation: float, seed: int) -> tuple[Index, Index]:
    """The sorted indices of the training and the validation part of `count` examples.

    The validation part has round(validation * count) examples, but leaves at least one to
    train on; 0 makes it empty.

    Raises:
        DataError: if there are no examples, or `validation` is not in [0, 1).
    """
    if count < 1 or not 0 <= validation < 1:
        raise DataError(
            f"cannot hold out {validation} of {count} examples; "
            "at least one example, and a fraction of at least 0 and below 1, are wanted"
        )
    held = min(round(validation * count), count - 1)
    mixed = permutation(count, seed, "split")
    return np.sort(mixed[held:]), np.sort(mixed[:held])
