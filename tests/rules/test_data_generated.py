"""Data sets that are computed on the spot, and the cache of those that take long."""

import random
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from rules.data import Data, DataError, load
from rules.files import cached_arrays


def states() -> list[object]:
    return [random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()]  # noqa: NPY002


@pytest.fixture(scope="module")
def mnist_1d(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """MNIST-1D, generated in an empty cache, under the eyes of the global generators."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RULESWEEP_CACHE", str(tmp_path_factory.mktemp("cache")))
        before = states()
        made = load("mnist-1d")
        assert states() == before
        start = time.perf_counter()
        assert load("mnist-1d").fingerprint == made.fingerprint
        assert time.perf_counter() - start < 0.5
    return made


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RULESWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_mnist_1d_is_the_one_everybody_has(mnist_1d: Data):
    assert mnist_1d.fingerprint == "bf21c7b3b07cb364"
    assert mnist_1d.x_train.shape == (4000, 40)
    assert mnist_1d.x_test is not None
    assert mnist_1d.x_test.shape == (1000, 40)
    assert mnist_1d.classes == 10


def test_mnist_1d_stands_as_the_package_standardised_it(mnist_1d: Data):
    both = np.concatenate([mnist_1d.x_train, mnist_1d.x_test])
    assert abs(both.mean()) < 1e-12
    assert both.std() == pytest.approx(1)
    assert (mnist_1d.offset, mnist_1d.scale) == (0, 1)


def test_gaussian_regression_draws_x_and_then_y_from_one_generator():
    data = load("gaussian-regression", {"samples": 5, "inputs": 3, "outputs": 2, "data_seed": 9})
    generator = torch.Generator().manual_seed(9)
    for array, size in ((data.x_train, 3), (data.y_train, 2)):
        drawn = torch.randn(5, size, generator=generator, dtype=torch.float64)
        np.testing.assert_array_equal(array, drawn.numpy())


def test_gaussian_regression_is_fixed():
    data = load("gaussian-regression")
    assert data.fingerprint == "778e94daa9a6365c"
    assert (data.x_train.shape, data.y_train.shape) == ((64, 16), (64, 4))
    assert data.classes is None
    assert data.x_test is None


def test_a_teacher_is_fixed():
    assert load("teacher").fingerprint == "c30ee019bc151c6a"


def test_a_teacher_is_the_same_for_any_number_of_samples():
    many, few = load("teacher"), load("teacher", {"samples": 3000, "test_samples": 10})
    np.testing.assert_array_equal(many.x_train[:3000], few.x_train)
    np.testing.assert_array_equal(many.x_test[:10], few.x_test)
    assert np.corrcoef(many.y_test[:10].ravel(), few.y_test.ravel())[0, 1] > 0.999


def test_a_teacher_s_targets_are_standardised_and_its_classes_are_their_argmax():
    values, labels = (load("teacher", {"targets": kind}) for kind in ("regression", "classes"))
    np.testing.assert_allclose(values.y_train.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(values.y_train.std(axis=0), 1, atol=1e-6)
    np.testing.assert_array_equal(values.y_train.argmax(axis=1), labels.y_train)
    assert (labels.classes, labels.outputs, values.outputs) == (10, 10, 10)


def test_a_teacher_without_hidden_layers_is_linear():
    data = load("teacher", {"depth": 0, "inputs": 5, "outputs": 2, "samples": 50})
    x = np.column_stack([data.x_train, np.ones(50)])
    residual = np.linalg.lstsq(x, data.y_train)[1]
    np.testing.assert_allclose(residual, 0, atol=1e-10)


def test_a_teacher_may_have_no_test_set():
    assert load("teacher", {"test_samples": 0}).x_test is None


def test_digits_are_split_and_standardised():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    data = load("digits")
    assert data.fingerprint == "0c64f6a973cdd4a2"
    assert (data.x_train.shape, data.x_test.shape) == ((1297, 64), (500, 64))
    np.testing.assert_allclose(data.x_train.mean(axis=0), 0, atol=1e-12)
    assert data.x_train.std(axis=0).max() < 1
    assert data.classes == 10


class Maker:
    """Makes arrays and counts how often it had to."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return {"a": np.arange(1000), "b": np.eye(2)}


def cached_twice(cache: Path, damage) -> int:
    make = Maker()
    cached_arrays("made", make)
    damage(cache)
    for _ in range(2):
        arrays = cached_arrays("made", make)
        np.testing.assert_array_equal(arrays["a"], np.arange(1000))
        np.testing.assert_array_equal(arrays["b"], np.eye(2))
    return make.calls


def test_arrays_are_made_once_and_kept(cache: Path):
    assert cached_twice(cache, lambda cache: None) == 1
    assert sorted(path.name for path in cache.iterdir()) == ["made.npz", "made.npz.sha256"]


def flip_a_bit(cache: Path) -> None:
    content = bytearray((cache / "made.npz").read_bytes())
    content[500] ^= 1
    (cache / "made.npz").write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit,
        lambda cache: (cache / "made.npz").write_bytes(b""),
        lambda cache: (cache / "made.npz").unlink(),
        lambda cache: (cache / "made.npz.sha256").unlink(),
        lambda cache: (cache / "made.npz.sha256").write_bytes(b"\xff"),
    ],
)
def test_a_damaged_cache_is_made_afresh_and_then_serves(cache: Path, damage):
    assert cached_twice(cache, damage) == 2


def test_a_cache_that_cannot_be_written_costs_time_but_not_the_data(cache: Path):
    cache.write_text("a file where the folder should be")
    assert cached_twice(cache, lambda cache: None) == 3


def test_digits_without_scikit_learn_say_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match="digits needs scikit-learn: pip install scikit-learn"):
        load("digits")
