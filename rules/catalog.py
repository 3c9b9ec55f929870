"""From a name in a study file to a learning rule: built in, from a package, or by dotted path."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rules.rule import Rule

if TYPE_CHECKING:
    from rules.dims import Dims

BUILT_IN = {
    "bp": "rules.bp:BP",
    "shallow": "rules.shallow:Shallow",
    "fa": "rules.fa:FA",
    "dfa": "rules.dfa:DFA",
    "sdfa": "rules.sdfa:SDFA",
    "drtp": "rules.drtp:DRTP",
    "usf": "rules.usf:USF",
    "brsf": "rules.brsf:BRSF",
    "frsf": "rules.frsf:FRSF",
    "kp": "rules.kp:KP",
    "wm": "rules.wm:WM",
    "sdil": "rules.sdil:SDIL",
    "np": "rules.node_perturbation:NP",
    "fdfa": "rules.fdfa:FDFA",
    "ddtp": "rules.ddtp:DDTP",
    "pepita": "rules.pepita:PEPITA",
    "local-loss": "rules.local_loss:LocalLoss",
    "pc": "rules.pc:PC",
}
"""Names of the rules that come along. Packages add theirs as entry points `rulesweep.rules`."""


class RuleError(ValueError):
    """A rule that cannot be used; the message is one line for the user."""


def names() -> dict[str, str]:
    """Every known name and the `package.module:Class` it stands for."""
    return _plugins(tuple(sys.path)) | BUILT_IN


@cache
def _plugins(_path: tuple[str, ...]) -> dict[str, str]:
    """Rules of installed packages; finding them takes milliseconds, and a study asks often."""
    return {point.name: point.value for point in entry_points(group="rulesweep.rules")}


def find(name: str) -> type[Rule]:
    """The rule's class.

    Raises:
        RuleError: unknown name (the nearest ones are listed), failing import, or no rule there.
    """
    path = names().get(name, name)
    if ":" not in path:
        near = get_close_matches(name, names(), n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"known rules: {', '.join(names())}"
        raise RuleError(f'no rule "{name}"; {hint} (or give your own as package.module:Class)')
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise RuleError(f'rule "{name}" cannot be imported: {_in_a_line(error)}') from error
    members = ("revision", "draws", "operations", "init", "teach")
    if not is_dataclass(found) or not all(hasattr(found, member) for member in members):
        raise RuleError(
            f'"{name}" is no rule: a rule is a frozen dataclass with '
            "`revision`, `draws`, `operations`, `init` and `teach`"
        )
    rule: type[Rule] = found  # type: ignore[assignment]
    if not isinstance(rule.revision, int):
        raise RuleError(f'"{name}" has the revision {rule.revision!r}; a whole number is wanted')
    return rule


def _in_a_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def resolve(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a rule: its defaults, its preset where one is named, and what is given.

    Raises:
        RuleError: an unknown option or preset, or a value of the wrong type or out of range.
    """
    rule, chosen = find(name), dict(given)
    if "preset" in chosen:
        presets = getattr(rule, "presets", {})
        preset = chosen.pop("preset")
        if preset not in presets:
            raise RuleError(
                f'rule "{name}" has no preset "{preset}"; it has: {", ".join(presets) or "none"}'
            )
        chosen = presets[preset] | chosen
    known = {option.name: option for option in fields(rule)}  # type: ignore[arg-type]
    for option, value in chosen.items():
        if option not in known:
            near = get_close_matches(option, known, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"it has: {', '.join(known) or 'none'}"
            raise RuleError(f'rule "{name}" has no option "{option}"; {hint}')
        _check(name, known[option], value)
    defaults = {option.name: option.default for option in known.values()}
    missing = [option for option, value in (defaults | chosen).items() if value is MISSING]
    if missing:
        raise RuleError(f'rule "{name}" needs the option "{missing[0]}"')
    return {option: _number(known[option], value) for option, value in (defaults | chosen).items()}


def operations(name: str, options: Mapping[str, Any], dims: Dims) -> float:
    """What the rule with these options says that teaching costs: operations for one example.

    Raises:
        RuleError: it cannot be made with the options, or says no such number.
    """
    try:
        found: Any = find(name)(**options).operations(dims)
    except (Exception, SystemExit) as error:  # a user's rule may raise anything
        raise RuleError(f'rule "{name}" cannot say what it costs: {_in_a_line(error)}') from error
    if not isinstance(found, int | float) or not 0 <= found < inf:
        raise RuleError(f'rule "{name}" says it costs {found!r}; a number from 0 on is wanted')
    return found


def searchable(name: str) -> list[str]:
    """The options that may be searched: those whose default is a float."""
    return [
        option.name
        for option in fields(find(name))  # type: ignore[arg-type]
        if isinstance(option.default, float)
    ]


def sources(name: str) -> tuple[str, ...]:
    """The BibTeX entries of the rule's own class; none where it gives none.

    Raises:
        RuleError: its `sources` are something else.
    """
    given = vars(find(name)).get("sources", ())
    entries = (given,) if isinstance(given, str) else given
    if not isinstance(entries, tuple) or not all(isinstance(entry, str) for entry in entries):
        raise RuleError(
            f'the sources of rule "{name}" are {given!r}; they should be a tuple of BibTeX entries'
        )
    return entries


def source_hash(name: str) -> str:
    """A hash of the file that defines the rule: rows of other code can be told apart."""
    file = inspect.getsourcefile(find(name))
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12] if file else ""


def _check(name: str, option: Field[Any], value: Any) -> None:
    expected = type(option.default)
    if expected is float:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    else:
        fits = option.default is MISSING or type(value) is expected
    where = f'option "{option.name}" of rule "{name}"'
    if not fits:
        raise RuleError(
            f"{where} is {value!r}; it takes a {expected.__name__}, "
            f"as the default {option.default!r}"
        )
    choices, least = option.metadata.get("choices"), option.metadata.get("least")
    if choices and value not in choices:
        raise RuleError(f"{where} is {value!r}; it takes one of: {', '.join(choices)}")
    if least is not None and value < least:
        raise RuleError(f"{where} is {value!r}; it must be at least {least}")


def _number(option: Field[Any], value: Any) -> Any:
    return float(value) if isinstance(option.default, float) else value
