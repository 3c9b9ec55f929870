"""Data sets that are computed on the spot: each a frozen dataclass whose fields are its options."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields
from importlib.metadata import version
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np

from rules.dataset import Array, Arrays, DataError, DatasetInfo, nearest
from rules.files import cached_arrays
from rules.shuffle import permutation, philox


class Recipe(Protocol):
    """What makes a data set; its fields are the options."""

    def make(self) -> Arrays: ...


def _whole(default: int, least: int = 1) -> Any:
    return field(default=default, metadata={"least": least})


def _choice(default: str, *others: str) -> Any:
    return field(default=default, metadata={"choices": (default, *others)})


@dataclass(frozen=True)
class Mnist1d:
    """MNIST-1D: ten noisy 1-D shapes, 4000 to train and 1000 to test, 40 features, standardised.

    The package's own generator with its default arguments and seed. It takes seconds, so the
    arrays are kept in the cache, by the package's version.
    """

    def make(self) -> Arrays:
        return cast(Arrays, cached_arrays(f"mnist-1d-{version('mnist1d')}", self._generate))

    @staticmethod
    def _generate() -> dict[str, Array]:
        from mnist1d.data import get_dataset_args, make_dataset

        made = make_dataset(get_dataset_args())
        names = {"x_train": "x", "y_train": "y", "x_test": "x_test", "y_test": "y_test"}
        return {ours: made[theirs] for ours, theirs in names.items()}


@dataclass(frozen=True)
class GaussianRegression:
    """Standard normal inputs and, unrelated to them, standard normal targets; no test set.

    Both float64, from one torch.Generator seeded with `data_seed`: first x, then y.
    """

    samples: int = _whole(64)
    inputs: int = _whole(16)
    outputs: int = _whole(4)
    data_seed: int = _whole(2027, least=0)

    def make(self) -> Arrays:
        import torch

        generator = torch.Generator().manual_seed(self.data_seed)
        x, y = (
            torch.randn(self.samples, size, generator=generator, dtype=torch.float64).numpy()
            for size in (self.inputs, self.outputs)
        )
        return Arrays(x_train=x, y_train=y, x_test=None, y_test=None)


@dataclass(frozen=True)
class Teacher:
    """Standard normal inputs and what a fixed random tanh network makes of them.

    h_l = tanh(h_{l-1} W_l), W_l normal with standard deviation (5/3) / sqrt(fan_in); the linear
    readout, standardised by its training mean and deviation, is the regression target, and its
    argmax the class. A teacher is the same whatever the numbers of samples.
    """

    samples: int = _whole(4000, least=2)
    test_samples: int = _whole(1000, least=0)
    inputs: int = _whole(32)
    outputs: int = _whole(10)
    depth: int = _whole(2, least=0)  # hidden layers
    width: int = _whole(64)
    targets: str = _choice("regression", "classes")
    data_seed: int = _whole(2027, least=0)

    def make(self) -> Arrays:
        x = self._normal("train", self.samples, self.inputs)
        out = self._readout(x)
        mean, deviation = out.mean(axis=0), out.std(axis=0)
        y = self._targets((out - mean) / deviation)
        if not self.test_samples:
            return Arrays(x_train=x, y_train=y, x_test=None, y_test=None)
        x_test = self._normal("test", self.test_samples, self.inputs)
        y_test = self._targets((self._readout(x_test) - mean) / deviation)
        return Arrays(x_train=x, y_train=y, x_test=x_test, y_test=y_test)

    def _normal(self, purpose: object, rows: int, columns: int) -> Array:
        generator = np.random.Generator(philox(self.data_seed, "teacher", purpose))
        return generator.standard_normal((rows, columns))

    def _readout(self, h: Array) -> Array:
        sizes = (self.inputs, *[self.width] * self.depth, self.outputs)
        for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            h = np.tanh(h) if layer else h
            h = h @ (self._normal(layer, fan_in, fan_out) * (5 / 3 / np.sqrt(fan_in)))
        return h

    def _targets(self, out: Array) -> Array:
        if self.targets == "classes":
            labels: Array = np.argmax(out, axis=1)
            return labels
        # The last bits of a product differ between machines; fingerprints must not.
        return out.astype(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Digits:
    """scikit-learn's 8 x 8 handwritten digits, 1297 to train and 500 to test by a fixed split.

    Each feature is standardised: less its training mean, over its training deviation + 0.01.
    """

    def make(self) -> Arrays:
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise DataError("digits needs scikit-learn: pip install scikit-learn") from error
        x, y = load_digits(return_X_y=True)
        mixed = permutation(len(x), "digits")
        test, train = np.sort(mixed[:500]), np.sort(mixed[500:])
        x = (x - x[train].mean(axis=0)) / (x[train].std(axis=0) + 0.01)
        return Arrays(x_train=x[train], y_train=y[train], x_test=x[test], y_test=y[test])


def _entry(
    name: str, recipe: type[Recipe], inputs: int, classes: int | None, source: str
) -> tuple[DatasetInfo, type[Recipe]]:
    description = (recipe.__doc__ or "").partition("\n")[0].rstrip(".")
    options = {option.name: option.default for option in fields(cast(Any, recipe))}
    return DatasetInfo(name, description, inputs, classes, source, options), recipe


GENERATED = {
    "mnist-1d": _entry(
        "mnist-1d", Mnist1d, 40, 10,
        "Greydanus, Kobak, Scaling down deep learning with MNIST-1D, 2024",
    ),
    "digits": _entry(
        "digits", Digits, 64, 10,
        "Alpaydin, Kaynak, Optical recognition of handwritten digits, UCI repository, 1998",
    ),
    "gaussian-regression": _entry("gaussian-regression", GaussianRegression, 16, None, "synthetic"),
    "teacher": _entry("teacher", Teacher, 32, None, "synthetic"),
}  # fmt: skip


def recipe_of(name: str, given: Mapping[str, Any]) -> Recipe:
    """The recipe of a generated data set with these options.

    Raises:
        DataError: for an unknown option, or a value of the wrong type or out of range.
    """
    recipe = GENERATED[name][1]
    known = {option.name: option for option in fields(cast(Any, recipe))}
    for option, value in given.items():
        if option not in known:
            raise DataError(f"{name} has no option {option!r}; {nearest(option, known)}")
        _check_option(f"option {option!r} of {name}", known[option], value)
    return recipe(**given)


def _check_option(what: str, option: Field[Any], value: Any) -> None:
    choices, least = option.metadata.get("choices"), option.metadata.get("least")
    if choices and value not in choices:
        raise DataError(f"{what} is {value!r}; one of {', '.join(choices)} is wanted")
    if least is not None and (type(value) is not int or value < least):
        raise DataError(f"{what} is {value!r}; a whole number of at least {least} is wanted")


@contextmanager
def global_generators_untouched() -> Iterator[None]:
    """Leaves the global generators of random, numpy and (where imported) torch as they were."""
    torch = sys.modules.get("torch")
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    state = torch.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        if torch:
            torch.set_rng_state(state)
