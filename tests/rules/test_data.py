"""Data sets by name, a user's own data, and what a data set promises about its arrays."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rules.data import Data, DataError, available, load

OWN = """
import random
import numpy, torch
not_a_function = 3
def given(made):
    return made
def reseeding():
    random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
    return numpy.eye(4), numpy.arange(4) % 2, None, None
"""
X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])
NAN = np.where(X == 5, np.nan, X)


@pytest.fixture(autouse=True)
def _own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_data.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_data", raising=False)


def given(*made: object) -> Data:
    return load("own_data:given", {"made": made})


def test_importing_the_data_loads_neither_torch_nor_what_only_one_loader_needs():
    heavy = {"torch", "pooch", "sklearn", "mnist1d", "matplotlib", "requests"}
    code = f"import sys, rules.data; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_own_data_are_found_by_dotted_path():
    data = given(X, Y.astype(np.uint8), X[:4], Y[:4])
    assert (data.inputs, data.outputs, data.classes) == (2, 3, 3)
    assert (data.offset, data.scale) == (0, 1)
    assert data.y_train.dtype == np.int64
    np.testing.assert_array_equal(data.x_train, X)
    np.testing.assert_array_equal(data.y_test, Y[:4])


def test_own_regression_data_need_no_test_set():
    data = given(X.astype(np.float32), X[:, :1].astype(np.float32), None, None)
    assert (data.inputs, data.outputs, data.classes) == (2, 1, None)
    assert (data.x_train.dtype, data.y_train.dtype) == (np.float32, np.float64)
    assert data.x_test is None
    assert data.y_test is None


def test_own_images_are_scaled_by_the_mean_and_deviation_of_the_training_pixels():
    x = np.random.default_rng(0).integers(0, 256, (2500, 7), dtype=np.uint8)
    data = given(x, np.arange(2500) % 2, x[:10] // 2, np.zeros(10, int))
    assert data.x_train.dtype == np.uint8
    assert data.offset == pytest.approx(x.mean(), rel=1e-14)
    assert data.scale == pytest.approx(x.std(), rel=1e-14)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (3, "returned a int; a tuple .* is wanted"),
        ((X, Y), "returned a tuple of 2; a tuple .* is wanted"),
        ((X.tolist(), Y, None, None), "x_train is a list; a numpy array is wanted"),
        ((torch.tensor(X), Y, None, None), "x_train is a Tensor; a numpy array is wanted"),
        ((X.astype(int), Y, None, None), "x_train has dtype int64; uint8, float32 or float64"),
        ((X.astype(">f8"), Y, None, None), "x_train has dtype >f8"),
        ((X.reshape(6, 2, 1), Y, None, None), r"x_train has shape \(6, 2, 1\).*flatten images"),
        ((X[:0], Y[:0], None, None), r"x_train has shape \(0, 2\)"),
        ((NAN, Y, None, None), "x_train has 1 values that are NaN or infinite, .* example 2"),
        ((X, NAN, None, None), "y_train has 1 values that are NaN"),
        ((X, Y[:5], None, None), "x_train has 6 examples but y_train has 5"),
        ((X, X[:, 0], None, None), r"y_train has dtype float64 and shape \(6,\)"),
        ((X, np.eye(6, dtype=int), None, None), r"y_train has dtype int64 and shape \(6, 6\)"),
        ((X, Y == 1, None, None), "y_train has dtype bool"),
        ((X, Y.astype(str), None, None), "y_train has dtype <U21"),
        ((X, Y + 1, None, None), "y_train has 3 different labels from 1 to 3; labels 0..classes-1"),
        ((X, Y - 1, None, None), "labels from -1 to 1"),
        ((X, Y * 2, None, None), "y_train has 3 different labels from 0 to 4"),
        ((X, Y * 0, None, None), "y_train has 1 different labels .* at least two"),
        ((X, Y, X, Y + 1), "y_test has labels from 1 to 3; those of y_train, 0..2, are wanted"),
        ((X, Y, X, Y - 1), "y_test has labels from -1 to 1"),
        ((X, Y, X, X), "y_train is int64 .*but y_test is float64"),
        (
            (X, Y, X[:, :1], Y),
            r"x_train is float64 \(examples, 2\) but x_test is .*\(examples, 1\)",
        ),
        ((X, Y, X.astype(np.float32), Y), "x_train is float64 .* but x_test is float32"),
        ((X, Y, X[:3], Y), "x_test has 3 examples but y_test has 6"),
        ((X, Y, X, None), "x_test and y_test must both be arrays or both be None"),
        ((np.full((6, 2), 7, np.uint8), Y, None, None), "all pixels of x_train are equal"),
    ],
)
def test_own_data_that_cannot_be_used_are_refused_in_one_line(made: object, message: str):
    with pytest.raises(DataError, match=f"^own_data:given.*{message}") as refused:
        load("own_data:given", {"made": made})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnist1d", {}, "no data set 'mnist1d'; did you mean 'mnist-1d'\\? known: cifar10, dig"),
        ("own_data.given", {}, "or your own as package.module:function"),
        ("mnist-1d", {"seed": 3}, "mnist-1d has no option 'seed'; known: none"),
        ("fashion-mnist", {"samples": 3}, "fashion-mnist has no option 'samples'; it takes none"),
        ("teacher", {"widht": 3}, "teacher has no option 'widht'; did you mean 'width'"),
        ("teacher", {"width": 0}, "option 'width' of teacher is 0; a whole number of at least 1"),
        ("teacher", {"width": 3.0}, "option 'width' of teacher is 3.0; a whole number"),
        ("teacher", {"width": True}, "option 'width' of teacher is True; a whole number"),
        ("teacher", {"targets": "class"}, "is 'class'; one of regression, classes is wanted"),
        ("no_such_module:f", {}, "cannot be imported: No module named 'no_such_module'"),
        (":f", {}, "cannot be imported: Empty module name"),
        ("own_data:givne", {}, "own_data has no function 'givne'; did you mean 'given'"),
        ("own_data:not_a_function", {}, "own_data has no function 'not_a_function'"),
        ("own_data:given", {"maed": 3}, "cannot be called with options .*: missing a required"),
        ("own_data:given", {}, "cannot be called with options {}: missing a required"),
    ],
)
def test_unknown_names_and_options_are_refused_with_what_would_be_right(
    name: str, options: dict[str, object], message: str
):
    with pytest.raises(DataError, match=message):
        load(name, options)


def test_global_random_generators_are_left_alone_even_by_a_loader_that_seeds_them():
    before = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state()  # noqa: NPY002
    load("own_data:reseeding")
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tobytes() == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])


def test_arrays_are_read_only_and_the_owner_s_stay_writable():
    x = X.copy()
    data = given(x, Y, None, None)
    with pytest.raises(ValueError, match="read-only"):
        data.x_train[0] = 0
    x[0] = 1


def test_a_data_set_is_rebuilt_around_its_arrays_without_a_copy():
    data = given(X, Y, X, Y)
    again = Data("copy", classes=3, offset=0.0, scale=1.0, **data.arrays())
    assert np.shares_memory(again.x_train, data.x_train)
    assert again.fingerprint == data.fingerprint


def test_the_fingerprint_tells_values_types_shapes_and_parts_apart():
    x = X.astype(np.uint8)
    sets = [
        given(X, Y, None, None),
        given(X, Y, X, Y),
        given(X[::-1], Y, None, None),
        given(X.astype(np.float32), Y, None, None),
        given(X.reshape(3, 4), Y[:3], None, None),
        given(X, Y[::-1], None, None),
        given(x, Y, None, None),
        given(x + 1, Y, None, None),
        Data("rescaled", x, Y, None, None, classes=3, offset=0.0, scale=2.0),
    ]
    assert len({data.fingerprint for data in sets}) == len(sets)
    assert all(len(data.fingerprint) == 16 for data in sets)


def test_the_fingerprint_is_fixed_and_does_not_depend_on_the_layout_in_memory():
    assert given(X, Y, None, None).fingerprint == "df205682e5bf4f5a"
    assert given(np.asfortranarray(X), Y, None, None).fingerprint == "df205682e5bf4f5a"


def test_every_data_set_on_the_list_says_what_it_is():
    infos = {info.name: info for info in available()}
    assert set(infos) == {
        "mnist-1d", "digits", "gaussian-regression", "teacher", "fashion-mnist", "mnist", "cifar10"
    }  # fmt: skip
    assert all(info.description and info.source and info.inputs for info in infos.values())
    assert infos["gaussian-regression"].options == {
        "samples": 64, "inputs": 16, "outputs": 4, "data_seed": 2027
    }  # fmt: skip
