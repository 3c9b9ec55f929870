"""How large each measurement is; every size is an argument of the command."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field, fields, replace
from typing import Any

SIDES = ("rulesweep", "plain Tune", "expert Tune", "process pool", "one loop")


def size(default: Any, meaning: str) -> Any:
    """A field with its meaning, which becomes the help of its argument."""
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Sizes:
    """The sizes of all sections; the defaults are the full run."""

    workers: int = size(2, "packs or trials trained at once")
    repeats: int = size(1, "study: turns of every side, one after the other")
    sides: tuple[str, ...] = size(SIDES, "study: who runs it; rulesweep among them")
    rules: tuple[str, ...] = size(("bp", "fa", "dfa", "sdil"), "study: rules")
    depths: tuple[int, ...] = size((2, 4), "study: depths")
    width: int = size(32, "study: width")
    epochs: int = size(2, "study: epochs")
    rounds: int = size(2, "study: rounds of the search")
    points: int = size(4, "study: points a round")
    seeds: int = size(5, "study: evaluation seeds")
    packs: int = size(200, "overhead: packs")
    rows: int = size(8, "overhead: networks in a pack")
    memory_epochs: int = size(3, "memory: epochs of examples/quick.yaml")
    samples: int = size(5, "packing, shares: samples of every number")
    seconds: float = size(0.5, "packing: seconds a sample lasts at least")
    pack_sizes: tuple[int, ...] = size((1, 4, 16, 64), "packing: networks in a pack, ascending")
    pack_widths: tuple[int, ...] = size((32, 64, 256), "packing: width of every shape")
    pack_depths: tuple[int, ...] = size((4, 6, 6), "packing: depth of every shape")
    pack_inputs: tuple[int, ...] = size((64, 40, 784), "packing: inputs of every shape")
    rule_widths: tuple[int, ...] = size((32, 64), "rules: width of every shape")
    rule_depths: tuple[int, ...] = size((4, 6), "rules: depth of every shape")
    table_rows: int = size(20_000, "table: rows; 100000 takes minutes to make")
    share_epochs: int = size(25, "shares: epochs")
    share_replicas: int = size(5, "shares: networks in the pack")


FULL = Sizes()

QUICK = Sizes(
    rules=("bp",),
    depths=(2,),
    epochs=1,
    rounds=1,
    points=2,
    seeds=1,
    packs=40,
    memory_epochs=1,
    samples=1,
    seconds=0.02,
    pack_sizes=(1, 4),
    pack_widths=(32,),
    pack_depths=(4,),
    pack_inputs=(64,),
    rule_widths=(32,),
    rule_depths=(4,),
    table_rows=200,
    share_epochs=2,
    share_replicas=2,
)


def add_arguments(parser: ArgumentParser) -> None:
    """An argument for every size; lists are separated by commas."""
    for each in fields(Sizes):
        parser.add_argument(
            f"--{each.name.replace('_', '-')}",
            type=_parser_of(each.default),
            metavar=_shown(each.default),
            help=each.metadata["help"],
        )


def sizes_from(given: Namespace) -> Sizes:
    """The sizes that the arguments ask for: those of `--quick` or of the full run, changed."""
    changes = {f.name: getattr(given, f.name) for f in fields(Sizes)}
    return replace(
        QUICK if given.quick else FULL, **{k: v for k, v in changes.items() if v is not None}
    )


def _parser_of(default: Any) -> Any:
    if not isinstance(default, tuple):
        return type(default)
    kind = type(default[0])
    return lambda text: tuple(kind(word) for word in text.split(","))


def _shown(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
