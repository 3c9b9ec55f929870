"""What a data set is: read-only numpy arrays, checked once, with a fingerprint of their bytes."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class DataError(ValueError):
    """Data that cannot be had or cannot be used: one line saying what, why, what would do."""


class Arrays(TypedDict):
    """The four plain arrays of a data set; the test arrays are None where there is no test set."""

    x_train: Array
    y_train: Array
    x_test: Array | None
    y_test: Array | None


@dataclass(frozen=True)
class DatasetInfo:
    """A line of the list of data sets; sizes are those at the default options."""

    name: str
    description: str
    inputs: int
    classes: int | None  # None: regression
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)  # with their defaults


@dataclass(frozen=True, eq=False)
class Data:
    """A data set in memory. The model's input is (x - offset) / scale.

    x: (examples, inputs), uint8 for images, else float32 or float64.
    y: (examples,) int64 labels 0..classes-1, or (examples, outputs) float64 for regression.

    `Data.from_arrays` checks arrays that come from outside. The constructor takes those that
    were checked before, as `Data(name, classes=..., offset=..., scale=..., **data.arrays())`
    around shared memory; it copies nothing. The arrays are read-only views: whoever trains in
    this process sees what a worker sees, and a write is an error in both.
    """

    name: str
    x_train: Array = field(repr=False)
    y_train: Array = field(repr=False)
    x_test: Array | None = field(repr=False)
    y_test: Array | None = field(repr=False)
    classes: int | None  # None: regression
    offset: float
    scale: float

    def __post_init__(self) -> None:
        for part, array in self.arrays().items():
            if isinstance(array, np.ndarray):
                object.__setattr__(self, part, _read_only(array))

    @classmethod
    def from_arrays(
        cls,
        name: str,
        x_train: Array,
        y_train: Array,
        x_test: Array | None = None,
        y_test: Array | None = None,
    ) -> Data:
        """Check arrays and make a data set of them.

        Labels of any integer type become int64, regression targets float64. Bytes are taken
        for images: offset and scale are the mean and standard deviation of all training
        pixels. Floating-point inputs are taken as they are (offset 0, scale 1).

        Raises:
            DataError: for wrong types, shapes, lengths, labels, or values that are not finite.
        """
        _check_pair(name, "train", x_train, y_train)
        if (x_test is None) != (y_test is None):
            raise DataError(f"{name}: x_test and y_test must both be arrays or both be None")
        if x_test is not None and y_test is not None:
            _check_pair(name, "test", x_test, y_test)
            _check_alike(name, (x_train, y_train), (x_test, y_test))
            y_test = _targets(y_test)
        classes = _count_classes(name, y_train, y_test)
        offset, scale = _pixel_scale(name, x_train) if x_train.dtype == np.uint8 else (0.0, 1.0)
        return cls(name, x_train, _targets(y_train), x_test, y_test, classes, offset, scale)

    @property
    def inputs(self) -> int:
        """The number of features of an example."""
        return int(self.x_train.shape[1])

    @property
    def outputs(self) -> int:
        """The number of outputs of a network: classes, or regression targets."""
        return self.classes or int(self.y_train.shape[1])

    def arrays(self) -> Arrays:
        """The plain arrays, by the constructor's names: what to put into shared memory."""
        return Arrays(
            x_train=self.x_train, y_train=self.y_train, x_test=self.x_test, y_test=self.y_test
        )

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of the sha256 of every array's bytes, type and shape, and the scaling.

        The name is not in it: a copy of a data set under another name is the same data.
        """
        digest = hashlib.sha256(f"offset {self.offset!r} scale {self.scale!r}\n".encode())
        for part, array in self.arrays().items():
            if not isinstance(array, np.ndarray):
                digest.update(f"{part} none\n".encode())
                continue
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            digest.update(f"{part} {little.dtype.str} {little.shape}\n".encode())
            digest.update(little.data.cast("B"))
        return digest.hexdigest()[:16]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, then all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(known) or 'none'}"


def _read_only(array: Array) -> Array:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _targets(y: Array) -> Array:
    return y.astype(np.float64 if y.dtype.kind == "f" else np.int64, copy=False)


def _check_pair(name: str, part: str, x: Array, y: Array) -> None:
    _check_inputs(f"{name}: x_{part}", x)
    _check_targets(f"{name}: y_{part}", y)
    if len(x) != len(y):
        raise DataError(
            f"{name}: x_{part} has {len(x)} examples but y_{part} has {len(y)}; "
            "each example needs one target"
        )


def _check_inputs(what: str, x: Array) -> None:
    _check_array(what, x)
    if x.dtype not in (np.uint8, np.float32, np.float64):
        raise DataError(f"{what} has dtype {x.dtype}; uint8, float32 or float64 is wanted")
    if x.ndim != 2 or 0 in x.shape:
        raise DataError(
            f"{what} has shape {x.shape}; (examples, inputs), neither of them 0, is wanted: "
            "flatten images with x.reshape(len(x), -1)"
        )
    _check_finite(what, x)


def _check_targets(what: str, y: Array) -> None:
    _check_array(what, y)
    dimensions = {"i": 1, "u": 1, "f": 2}.get(y.dtype.kind)
    if y.ndim != dimensions or 0 in y.shape:
        raise DataError(
            f"{what} has dtype {y.dtype} and shape {y.shape}; integer labels of shape (examples,) "
            "or floating-point targets of shape (examples, outputs) are wanted"
        )
    _check_finite(what, y)


def _check_array(what: str, array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise DataError(f"{what} is a {type(array).__name__}; a numpy array is wanted")


def _check_finite(what: str, array: Array) -> None:
    if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
        row = int(np.argmin(finite.all(axis=1)))
        raise DataError(
            f"{what} has {int((~finite).sum())} values that are NaN or infinite, "
            f"the first in example {row}; finite values are wanted"
        )


def _check_alike(name: str, train: tuple[Array, Array], test: tuple[Array, Array]) -> None:
    for part, a, b in zip("xy", train, test, strict=True):
        integers = [array.dtype.kind in "iu" for array in (a, b)]
        same_kind = a.dtype == b.dtype if part == "x" else integers[0] == integers[1]
        if not same_kind or a.shape[1:] != b.shape[1:]:
            raise DataError(
                f"{name}: {part}_train is {a.dtype} (examples{_tail(a)}) but {part}_test is "
                f"{b.dtype} (examples{_tail(b)}); the same type and width are wanted"
            )


def _tail(array: Array) -> str:
    return "".join(f", {size}" for size in array.shape[1:])


def _count_classes(name: str, y_train: Array, y_test: Array | None) -> int | None:
    if y_train.dtype.kind == "f":
        return None
    labels = np.unique(y_train)
    classes = len(labels)
    if classes < 2 or labels[0] != 0 or labels[-1] != classes - 1:
        raise DataError(
            f"{name}: y_train has {classes} different labels from {labels[0]} to {labels[-1]}; "
            "labels 0..classes-1 that all occur, at least two, are wanted"
        )
    if y_test is not None and (y_test.min() < 0 or y_test.max() >= classes):
        raise DataError(
            f"{name}: y_test has labels from {y_test.min()} to {y_test.max()}; "
            f"those of y_train, 0..{classes - 1}, are wanted"
        )
    return classes


def _pixel_scale(name: str, x: Array) -> tuple[float, float]:
    """Mean and standard deviation of bytes, in integers, so equal on every machine."""
    counts = np.zeros(256, np.int64)
    for start in range(0, len(x), 1000):  # bincount makes int64 of what it is given
        counts += np.bincount(x[start : start + 1000].ravel(), minlength=256)
    first = sum(value * int(count) for value, count in enumerate(counts))
    second = sum(value**2 * int(count) for value, count in enumerate(counts))
    if x.size * second == first**2:
        raise DataError(f"{name}: all pixels of x_train are equal; images that differ are wanted")
    return first / x.size, sqrt(x.size * second - first**2) / x.size
