"""A study in words: what it asks and how it answers, told as the methods section of a paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.report_statistics import evaluation, is_searched, lost, measures, statistics
from analysis.report_words import counted, listed, noun, number, settings

Study = Mapping[str, Any]
"""A study file, its defaults spelt out."""

Cells = Sequence[Mapping[str, Any]]
"""The cells of the study as `resolved.json` holds them."""


@dataclass(frozen=True)
class Paragraph:
    """A run-in heading, the sentences after it, and points listed beneath."""

    heading: str
    text: str
    points: tuple[str, ...] = ()


def question(study: Study, cells: Cells) -> str:
    """What the study asks, in one sentence."""
    labels = [rule["label"] for rule in study["rules"]]
    who = f"{'does' if len(labels) == 1 else 'do'} the learning {noun(len(labels), 'rule')}"
    depths = sorted({depth for block in study["grid"] for depth in block["depth"]})
    layers = f"{listed(depths)} hidden {noun(depths[-1], 'layer')}"
    sets = listed([name for (name,) in _unique(cells, "task", "dataset")])
    return f"How well {who} {listed(labels)} train networks of {layers} on {sets}?"


Sources = Mapping[str, Sequence[Mapping[str, str]]]
"""By label, a rule's sources, each as a `citation` in a line and as `bibtex`."""


def protocol(study: Study, cells: Cells, sources: Sources) -> list[Paragraph]:
    """How the study goes about it, in the order of the work."""
    told = [
        Paragraph("Data", " ".join(_data(cells))),
        Paragraph("Networks", *_networks(study)),
        Paragraph("Training", " ".join(_training(study, cells))),
        Paragraph("Rules", _rules_share(study), tuple(_rules(study, cells))),
        Paragraph("Sources", *_cited(sources)),
        Paragraph("Tuning", " ".join(_tuning(study))),
        Paragraph("Evaluation", " ".join(evaluation(study))),
        Paragraph("Lost networks", lost(study)),
        Paragraph("Statistics", " ".join(statistics(study))),
        Paragraph("Measures", measures(study)),
    ]
    return [paragraph for paragraph in told if paragraph.text]


def _unique(cells: Cells, part: str, *names: str) -> list[tuple[Any, ...]]:
    """The distinct values of some keys of a part of the cells, in order of appearance."""
    found = (tuple(_frozen(cell[part].get(name)) for name in names) for cell in cells)
    return list(dict.fromkeys(found))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _data(cells: Cells) -> Iterable[str]:
    facts = "dataset", "options", "examples", "inputs", "classes", "outputs", "validation"
    for name, options, examples, inputs, classes, outputs, share in _unique(cells, "task", *facts):
        what = counted(classes, "class") if classes else counted(outputs, "target value")
        made = f" ({settings(options)})" if options else ""
        yield f"{name}{made}: {counted(inputs, 'input')}, {what},"
        yield f"{counted(examples, 'example')} to train on."
        if share:
            yield f"{100 * share:g} % of the training set is kept from training, to choose by."


def _networks(study: Study) -> tuple[str, tuple[str, ...]]:
    network, blocks = study["network"], [_block(block, study) for block in study["grid"]]
    bias = "with" if network["bias"] else "without"
    text = f"Fully connected networks {bias} biases and with a linear readout, "
    if len(blocks) == 1:
        return f"{text}{blocks[0]}.", ()
    return f"{text}in {len(blocks)} parts:", tuple(blocks)


def _block(block: Mapping[str, Any], study: Study) -> str:
    depths = f"{listed(block['depth'], 'or')} hidden {noun(block['depth'][-1], 'layer')}"
    parts = [f"{depths} of {_width(block['width'])}", *_kinds(block, study)]
    if "dataset" in block:
        parts.append(f"on {listed(block['dataset'])}")
    parts += [f"without {_left_out(drop)}" for drop in block.get("exclude", ())]
    return ", ".join(parts)


def _width(width: Any) -> str:
    if not isinstance(width, Mapping):
        return f"{listed(width, 'or')} {noun(width[-1], 'unit')}"
    like = width["match_parameters"]
    layers = f"{counted(like['depth'], 'layer')} of {counted(like['width'], 'unit')}"
    return f"the width whose parameter count is nearest to that of {layers}"


def _kinds(block: Mapping[str, Any], study: Study) -> Iterable[str]:
    network = study["network"]
    yield f"activation {listed(block.get('activation', [network['activation']]), 'or')}"
    residual = block.get("residual", [network["residual"]])
    words = {True: "with skip connections", False: "without skip connections"}
    yield listed([words[flag] for flag in residual], "or")


def _left_out(drop: Mapping[str, Sequence[Any]]) -> str:
    return " at ".join(f"{name} {listed(values, 'or')}" for name, values in drop.items())


def _training(study: Study, cells: Cells) -> Iterable[str]:
    given = study["training"]
    batch = given["batch_size"]
    batches = "the whole training set" if batch == "full" else f"batches of {number(batch)}"
    decay = given["weight_decay"]
    decays = f"weight decay {number(decay)}" if decay else "no weight decay"
    yield f"{_length(given, cells)} on {batches}, with {_optimizer(given)} and {decays}."
    yield from _schedule(given)
    yield f"The loss is {_loss(given['loss'])}, the arithmetic {given['dtype']}."
    if given.get("compile"):
        yield "The training step is compiled to machine code (torch.compile)."
    if given["normalize_signals"]:
        yield "Teaching signals of hidden layers are scaled to the norm of the output error."
    yield "Optimiser, batches and initial weights of a seed are the same for all rules."


def _optimizer(given: Mapping[str, Any]) -> str:
    momentum = number(given["momentum"])
    if given.get("optimizer") == "adam":
        return f"Adam (decay of the mean {momentum}, of the mean square 0.999, epsilon 1e-8)"
    return f"momentum {momentum}" if given["momentum"] else "no momentum"


def _schedule(given: Mapping[str, Any]) -> Iterable[str]:
    """How the learning rate goes over the steps, where it is not constant."""
    shape, share = given.get("schedule", "constant"), given.get("warmup", 0.0)
    words = {"linear": "falls linearly to 0", "cosine": "falls to 0 as half a cosine"}
    rises = [f"rises linearly over the first {number(100 * share)} % of the updates"] * bool(share)
    falls = [words[shape]] if shape in words else []
    if rises or falls:
        yield f"The learning rate {' and then '.join(rises + falls)}; weight decay follows it."


def _length(given: Mapping[str, Any], cells: Cells) -> str:
    """How long networks train: all rules alike, or as long as one rule's compute allows."""
    payer = given.get("match_compute")
    steps = {c["training"]["steps"] for c in cells if payer in (None, c["label"])}
    updates = _updates(sorted(steps or {given.get("steps", 0)}))
    length = f"{counted(given['epochs'], 'epoch')} ({updates})" if "epochs" in given else updates
    if payer is None:
        return f"Every network is trained for {length}"
    every = _updates(sorted({c["training"]["steps"] for c in cells}))
    return f"Every network has the compute that {payer} takes for {length}: it trains for {every}"


def _updates(steps: Sequence[int]) -> str:
    if len(steps) > 3:
        return f"{number(steps[0])} to {number(steps[-1])} updates"
    return f"{listed(steps, 'or')} {noun(steps[-1], 'update')}"


def _loss(name: str) -> str:
    return "half the squared error" if name == "squared" else str(name)


def _rules_share(study: Study) -> str:
    one = len(study["rules"]) == 1
    return "One learning rule:" if one else f"{len(study['rules'])} learning rules:"


def _rules(study: Study, cells: Cells) -> Iterable[str]:
    """One line a rule: its label, its name where that is another, options, own search."""
    resolved = {cell["label"]: cell["rule"] for cell in cells}
    for rule in study["rules"]:
        named = "" if rule["name"] == rule["label"] else f" ({rule['name']})"
        options = resolved.get(rule["label"], {}).get("options") or rule.get("options", {})
        own = [_searched(name, value) for name, value in rule.get("search", {}).items()]
        words = "; ".join(filter(None, [settings(options), *own]))
        yield f"{rule['label']}{named}{': ' if words else ''}{words}"


def _cited(sources: Sources) -> tuple[str, tuple[str, ...]]:
    """Each work with the rules that come from it, in the order of the rules."""
    rules: dict[str, list[str]] = {}
    for label, works in sources.items():
        for work in works:
            rules.setdefault(work["citation"], []).append(label)
    told = "Rules are those of these works, or made after them:" if rules else ""
    return told, tuple(f"{listed(labels)}: {work}" for work, labels in rules.items())


def bibtex(sources: Sources) -> str:
    """The works as a BibTeX file, each once."""
    entries = dict.fromkeys(work["bibtex"] for works in sources.values() for work in works)
    return "".join(f"{entry}\n\n" for entry in entries)


def _searched(name: str, value: Any) -> str:
    return f"{'learning rate' if name == 'lr' else name} {_range(value)}"


def _range(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"searched from {number(value['low'])} to {number(value['high'])}"
    return f"fixed at {number(value)}"


def _tuning(study: Study) -> Iterable[str]:
    search = study["search"]
    if not is_searched(study):
        yield f"Nothing is tuned: the learning rate is {_range(search['lr'])}."
        return
    exception = any("lr" in rule.get("search", {}) for rule in study["rules"])
    unless = ", unless it says otherwise above" if exception else ""
    yield f"The learning rate is {_range(search['lr'])} for {_shared(search['per'])}{unless};"
    yield "ranges are searched on a logarithmic scale."
    seeds = search["seeds"] if isinstance(search["seeds"], int) else len(search["seeds"])
    points = f"{counted(search['rounds'], 'round')} of {counted(search['points'], 'point')}"
    yield f"It takes {points}, each point with {counted(seeds, 'tuning seed')}"
    yield f"that no evaluation uses. {_sampler(search)}"
    chosen = "lowest" if search["choose"] == "validation_loss" else "highest"
    yield f"The point with the {chosen} mean {search['choose'].replace('_', ' ')} is taken."


def _shared(per: Any) -> str:
    """Which networks share a rate."""
    if per == "cell":
        return "each rule on each network and data set"
    return "each rule" + ("" if per == "rule" else f" and each {listed(per)}")


def _sampler(search: Mapping[str, Any]) -> str:
    if search["sampler"] == "random":
        return "Points are drawn at random."
    if search["rounds"] == 1 or search["sampler"] == "grid":
        return "Points are spaced evenly."
    return (
        "The first round is spaced evenly; a tree-structured Parzen estimator asks for the "
        "points after it."
    )
