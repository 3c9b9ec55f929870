"""What the catalogs' commands print: the learning rules and the data sets there are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from rules.dims import Dims

if TYPE_CHECKING:
    from rules.rule import Rule

SIZE = Dims((40, *[64] * 6, 10))
"""The network whose step is counted when a rule is told: mnist-1d, six layers of 64."""


def rules() -> Iterator[RenderableType]:
    """All rules: what each is, and its options."""
    from rules import catalog

    for name in catalog.names():
        found = catalog.find(name)
        options = {f.name: f.default for f in fields(found)}  # type: ignore[arg-type]
        yield from entry(name, _headline(inspect.getmodule(found)), options)
    yield Text("more of one: rulesweep rules NAME; your own: package.module:Class")


def entry(name: str, what: str, options: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A line that says what something is, and one with its options."""
    yield Text.assemble((name, "bold"), f"  {what}")
    if options:
        yield Text("    " + ", ".join(f"{option}={value}" for option, value in options.items()))


def _headline(module: Any) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


def rule(name: str) -> RenderableType:
    """One rule, whole: equation, source, options."""
    from rules import catalog

    found = catalog.find(name)
    lines = [
        f"{name} ({found.__module__}:{found.__qualname__}, revision {found.revision})",
        "",
        inspect.cleandoc(found.__doc__ or "(no docstring)"),
        "",
    ]
    able = catalog.searchable(name)
    lines += [_option(option, able) for option in fields(found)]  # type: ignore[arg-type]
    for preset, values in getattr(found, "presets", {}).items():
        lines.append(f"  preset {preset}: {values}")
    lines += ["", _cost(found), *_sources(catalog.sources(name))]
    return Text("\n".join(lines))


def _option(option: Field[Any], able: Sequence[str]) -> str:
    """Name, default, meaning; and how a study would search it."""
    told = [option.metadata.get("help", "")]
    if choices := option.metadata.get("choices"):
        told.append(f"one of: {', '.join(choices)}")
    if option.name in able:
        told.append("may be searched")
        if low_high := option.metadata.get("range"):
            low, high = low_high
            told.append(f"try {option.name}: {{low: {low:g}, high: {high:g}}}")
    default = "(to be given)" if option.default is MISSING else option.default
    return f"  {option.name} = {default}  {'; '.join(filter(None, told))}"


def _cost(found: type[Rule]) -> str:
    """What a step costs at one size, next to backpropagation's."""
    from rules.bp import BP

    try:
        own, bp = ((SIZE.core_operations + rule.operations(SIZE)) / 1e6 for rule in (found(), BP()))
    except Exception as error:  # a user's rule may raise anything, or need an option
        return f"a step: its cost is not known ({type(error).__name__}: {error})"
    sizes = "-".join(map(str, SIZE.sizes))
    return f"a step: {own:.3g} Mflop an example in a network {sizes}, {own / bp:.2f} times bp's"


def _sources(entries: Sequence[str]) -> list[str]:
    from rules.sources import citation

    cited = [f"  {citation(entry)}" for entry in entries]
    return ["sources:", *cited, "", *entries] if entries else []


def datasets() -> Iterator[RenderableType]:
    """All data sets: what each is, where it comes from, and its options."""
    from rules.data import available

    for found in available():
        kind = "regression" if found.classes is None else f"{found.classes} classes"
        yield from entry(
            found.name, f"{found.description}; {found.inputs} inputs, {kind}", found.options
        )
        yield Text(f"    {found.source}", style="dim")
    yield Text("ahead of time: rulesweep datasets fetch NAME; your own: package.module:function")
