"""Data sets by name: those that come along, and a user's own by dotted path. No torch."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rules.dataset import Arrays, Data, DataError, DatasetInfo, nearest
from rules.generated import GENERATED, global_generators_untouched, recipe_of
from rules.images import IMAGES, files_present, read_images
from rules.shuffle import order, split

__all__ = [
    "Arrays", "Data", "DataError", "DatasetInfo",
    "available", "fetch", "load", "order", "present", "split",
]  # fmt: skip


def available() -> list[DatasetInfo]:
    """The data sets that come along, the quickest to try first."""
    generated = [info for info, _ in GENERATED.values()]
    return generated + [images.info for images in IMAGES.values()]


def load(name: str, options: Mapping[str, Any] | None = None, data_dir: Path | None = None) -> Data:
    """The data set of this name.

    Args:
        name: one of `available()`, or `package.module:function` for your own: called with
            the options, it returns (x_train, y_train, x_test, y_test), where the last two may
            be None. See `Data` for what the arrays should be.
        options: those that `available()` lists, or the arguments of your own function.
        data_dir: where to look for the files of image sets first, and where to download
            missing ones to. By default they are looked for in the folder that RULESWEEP_DATA
            names, and downloaded to the cache (RULESWEEP_CACHE, else the user's cache folder).

    The global random generators are left as they were, whatever a loader does with them.

    Raises:
        DataError: for an unknown name or option, for files that are missing or corrupt, and for
            arrays of your own that cannot be used.
    """
    try:
        with global_generators_untouched():
            return Data.from_arrays(name, **_arrays(name, dict(options or {}), data_dir))
    except MemoryError as error:
        raise DataError(f"{name} does not fit into the memory: {error or 'it is full'}") from error


def fetch(name: str, data_dir: Path | None = None) -> Data:
    """Download or generate a data set ahead of time, into `data_dir` or else the cache.

    Raises:
        DataError: as `load` does.
    """
    return load(name, data_dir=data_dir)


def present(name: str, data_dir: Path | None = None) -> bool:
    """Whether a data set that comes along can be loaded without a download."""
    return name in GENERATED or (name in IMAGES and files_present(IMAGES[name], data_dir))


def _arrays(name: str, options: Mapping[str, Any], data_dir: Path | None) -> Arrays:
    if ":" in name:
        return _own_arrays(name, options)
    if name in GENERATED:
        return recipe_of(name, options).make()
    if name not in IMAGES:
        known = [info.name for info in available()]
        raise DataError(
            f"no data set {name!r}; {nearest(name, known)} (or your own as package.module:function)"
        )
    if options:
        raise DataError(f"{name} has no option {next(iter(options))!r}; it takes none")
    return read_images(IMAGES[name], data_dir)


def _own_arrays(name: str, options: Mapping[str, Any]) -> Arrays:
    function = _own_function(name)
    try:
        inspect.signature(function).bind(**options)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be called with options {dict(options)}: {error}") from error
    try:
        made = function(**options)
    except DataError:
        raise
    except (Exception, SystemExit) as error:  # a user's function may raise anything
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise DataError(
            f"{name} raised {type(error).__name__}, {_in_a_line(error)} "
            f"({place.filename}, line {place.lineno})"
        ) from error
    if not isinstance(made, tuple | list) or len(made) != 4:
        size = f" of {len(made)}" if isinstance(made, tuple | list) else ""
        raise DataError(
            f"{name} returned a {type(made).__name__}{size}; "
            "a tuple (x_train, y_train, x_test, y_test) is wanted, the last two may be None"
        )
    return Arrays(x_train=made[0], y_train=made[1], x_test=made[2], y_test=made[3])


def _own_function(name: str) -> Callable[..., Any]:
    path, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(path)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise DataError(
            f"data set {name!r} cannot be imported: {_in_a_line(error)}; "
            "package.module:function, importable here, is wanted"
        ) from error
    function: Callable[..., Any] | None = getattr(module, attribute, None)
    if not callable(function):
        functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise DataError(f"{path} has no function {attribute!r}; {nearest(attribute, functions)}")
    return function


def _in_a_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
