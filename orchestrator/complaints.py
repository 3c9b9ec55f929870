"""Pydantic's errors as lines a user can act on: the place in the file, and what would be right."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from orchestrator.fields import Location
from orchestrator.yaml_file import nearest, shown

_WANTED = {
    "shape": "{shape}",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "too_long": "a list of at most {max_length}",
    "greater_than": "more than {gt:.12g}",
    "greater_than_equal": "at least {ge:.12g}",
    "less_than": "less than {lt:.12g}",
    "less_than_equal": "at most {le:.12g}",
}
_ABSENT = object()
_INVISIBLE = {"[list]", "[text]", "[mapping]", "[number]", "[key]", "list", "dict", "float", "str"}


def explain(errors: Iterable[ErrorDetails], tree: object, study: type[BaseModel]) -> Iterator[str]:
    """One line for each of pydantic's errors about `tree`: its place, and what would be right."""
    for error in errors:
        path = _place(error["loc"], tree)
        yield f"{path or 'study'}: {_what(error, study)}"


def _what(error: ErrorDetails, study: type[BaseModel]) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        return f"unknown key{_alternatives(str(error['loc'][-1]), _keys(error['loc'][:-1], study))}"
    if kind == "literal_error":
        names = re.findall(r"'([^']*)'", context["expected"])
        *others, last = map(shown, names)
        wanted = f"{', '.join(others)} or {last}" if others else last
        return f"should be {wanted}; got {shown(value)}{nearest(str(value), names)}"
    if kind in ("missing", "study"):
        return "missing" if kind == "missing" else error["msg"]
    wanted = _WANTED.get(kind, "plain data").format_map({"shape": error["msg"], **context})
    return f"should be {wanted}; got {shown(value)}"


def _alternatives(name: str, known: list[str]) -> str:
    return nearest(name, known) or f"; known here: {', '.join(known)}"


def _keys(location: Location, study: type[BaseModel]) -> list[str]:
    model = study
    for step in location:
        if step in model.model_fields:
            model = next(_models(model.model_fields[str(step)].annotation), model)
    return list(model.model_fields)


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _place(location: Location, tree: object) -> str:
    """The path in the file: without union tags, and without the 0 of a scalar taken as a list."""
    steps = []
    for step in location:
        inside = _entry(tree, step)
        lone = isinstance(step, int) and not isinstance(tree, list | tuple)
        if inside is _ABSENT and (lone or step in _INVISIBLE):
            continue
        steps.append(str(step) if str(step).isprintable() else shown(step))
        tree = inside
    return ".".join(step if len(step) <= 40 else f"{step[:37]}..." for step in steps)


def _entry(tree: object, step: str | int) -> object:
    if isinstance(tree, list | tuple) and isinstance(step, int) and step < len(tree):
        return tree[step]
    return tree.get(step, _ABSENT) if isinstance(tree, Mapping) else _ABSENT
