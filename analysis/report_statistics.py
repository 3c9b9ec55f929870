"""How a study's results are made and judged, in words: seeds, lost networks, statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.report_words import counted, listed, number

Study = Mapping[str, Any]
"""A study file, its defaults spelt out."""


def is_searched(study: Study) -> bool:
    """Whether anything is tuned."""
    spaces = [{"lr": study["search"]["lr"]} | rule.get("search", {}) for rule in study["rules"]]
    return any(isinstance(value, Mapping) for space in spaces for value in space.values())


def evaluation(study: Study) -> Iterable[str]:
    """Which networks report: how many seeds, and at which rates."""
    kinds = list(dict.fromkeys(_seeds(block["seeds"]) for block in study["grid"]))
    if not is_searched(study):
        yield f"Networks are trained at that rate from {listed(kinds, 'or')}."
        return
    yield f"Networks are then trained anew with what tuning chose, from {listed(kinds, 'or')}."
    yield "Only these networks are reported; tuning networks choose and no more."


def _seeds(seeds: Any) -> str:
    if isinstance(seeds, Mapping):
        init, feedback = (_count(seeds[name]) for name in ("init", "feedback"))
        return f"{counted(init, 'init seed')}, each with {counted(feedback, 'feedback seed')}"
    return counted(_count(seeds), "init seed")


def _count(seeds: int | Sequence[int]) -> int:
    return seeds if isinstance(seeds, int) else len(seeds)


def lost(study: Study) -> str:
    """What a network counts as that diverged or whose rule failed."""
    value = "10 times its loss before training"
    if study["training"]["loss"] != "squared":
        value += ", its accuracy as chance"
    return (
        "A network diverges when its loss is not finite or more than 1,000 times that before "
        f"training. It stays in every mean: its loss counts as {value}. A network whose rule "
        "raised an error counts the same."
    )


def statistics(study: Study) -> Iterable[str]:
    """How means, differences and p-values are made, and what they can show."""
    seeds = [_init_seeds(block["seeds"]) for block in study["grid"]]
    yield "The init seed is the unit: results over feedback seeds are averaged first."
    yield "Intervals of means are 95 % t intervals over init seeds; rules are compared by their"
    interval = "95 % t intervals" if max(seeds) < 20 else "95 % BCa bootstrap intervals"
    yield f"differences on equal seeds, with {interval} and sign-flip p-values."
    pairs, metric = study["compare"].get("pairs", ()), study["compare"]["metric"].replace("_", " ")
    if pairs:
        named = listed([f"{one} with {other}" for one, other in pairs])
        yield f"Comparisons declared beforehand, by {metric}: {named}; their p-values are adjusted"
        yield "by Holm's method."
    if min(seeds) < 6:
        least = f"{2 / 2 ** min(seeds):.4g}".removeprefix("0")
        told = counted(min(seeds), "seed")
        yield f"With {told} no such p-value can be below {least}: read the intervals."


def _init_seeds(seeds: Any) -> int:
    return _count(seeds["init"] if isinstance(seeds, Mapping) else seeds)


def measures(study: Study) -> str:
    """What is measured besides losses and accuracies; nothing where nothing is."""
    measure, sentences = study["measure"], []
    if measure["alignment"]:
        on = f"the first {counted(measure['examples'], 'held-out example')}"
        sentences.append(
            "Alignment is the cosine between a layer's teaching signal and its negative loss "
            f"gradient, averaged over {on}; it is 1 for backpropagation by definition."
        )
    if measure["probes"] and study["training"]["loss"] != "squared":
        on = f"at most {counted(measure['probe_examples'], 'training example')}"
        sentences.append(
            f"Probes are ridge classifiers (penalty {number(measure['ridge'])}) on each hidden "
            f"layer, fitted to {on}."
        )
    return " ".join(sentences)
