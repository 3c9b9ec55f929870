"""The laws of a learning rule: each yields what is wrong with a rule that breaks it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rules.case import Case
from rules.rule import Lesson, Rule, State, Trace


def _is_frozen(rule: Rule) -> Iterator[str]:
    if not is_dataclass(rule) or not rule.__dataclass_params__.frozen:
        yield f"write @dataclass(frozen=True) above class {type(rule).__name__}"


def _is_complete(rule: Rule) -> Iterator[str]:
    for name in ("revision", "draws", "operations", "init", "teach"):
        if not hasattr(rule, name):
            yield f"it has no `{name}`"


def _is_documented(rule: Rule) -> Iterator[str]:
    text = type(rule).__doc__ or ""
    if not text or text.startswith(f"{type(rule).__name__}("):  # which a dataclass makes up
        yield "write a docstring: the equation of s_l, and where it comes from"


def _is_comparable(rule: Rule) -> Iterator[str]:
    if replace(rule) != rule:  # type: ignore[type-var]
        yield "a copy of it is not equal to it"


def _is_picklable(rule: Rule) -> Iterator[str]:
    if pickle.loads(pickle.dumps(rule)) != rule:
        yield "what comes back from pickle is not equal to it"


CLASS_LAWS = {
    "a rule is a frozen dataclass": _is_frozen,
    "a rule has revision, draws, init and teach": _is_complete,
    "a rule's docstring gives its equation and its source": _is_documented,
    "rules of equal options are equal": _is_comparable,
    "a rule can be pickled": _is_picklable,
}


def _steps(case: Case) -> list[Case]:
    sizes = case.batch, case.batch - 2, 1
    return [replace(case, step=step, batch=batch) for step, batch in enumerate(sizes)]


def _taught(rule: Rule, case: Case) -> Iterator[tuple[Trace, Lesson, State]]:
    state = rule.init(case.dims, case.streams)
    for now in _steps(case):
        trace = now.trace()
        lesson, state = rule.teach(trace, now.params(), state)
        yield trace, lesson, state


def _answers(rule: Rule, case: Case) -> list[Tensor]:
    return _tensors([(lesson, state) for _, lesson, state in _taught(rule, case)])


def _tensors(thing: object) -> list[Tensor]:
    if isinstance(thing, Tensor):
        return [thing]
    if is_dataclass(thing):
        return _tensors([getattr(thing, part.name) for part in fields(thing)])
    if isinstance(thing, dict):
        return _tensors([*thing.values()])
    return [t for part in thing for t in _tensors(part)] if isinstance(thing, list | tuple) else []


def _signals(rule: Rule, case: Case) -> Iterator[str]:
    for trace, lesson, _ in _taught(rule, case):
        found, wanted = [*map(_form, lesson.signals)], [*map(_form, (*trace.slopes, trace.error))]
        if found != wanted:
            yield f"signals of shape {found}, where {wanted} are wanted"
        found, wanted = [*map(_form, lesson.inputs or ())], [*map(_form, trace.inputs)]
        if found and found != wanted:
            yield f"inputs of shape {found}, where {wanted} are wanted"


def _form(t: Tensor) -> str:
    return f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')} on {t.device}"


def _state(rule: Rule, case: Case) -> Iterator[str]:
    states = [rule.init(case.dims, case.streams), *(state for *_, state in _taught(rule, case))]
    for name, kept in ((name, kept) for state in states for name, kept in state.items()):
        if not isinstance(kept, tuple) or not all(isinstance(t, Tensor) for t in kept):
            yield f'state["{name}"] is not a tuple of tensors'
        for t in kept:
            if t.shape[:1] != (len(case.seeds),):
                yield f'state["{name}"] has shape {tuple(t.shape)} for {len(case.seeds)} networks'


def _memory(rule: Rule, case: Case) -> Iterator[str]:
    state = rule.init(case.dims, case.streams)
    for now in _steps(case):
        params = now.params()
        _, state = rule.teach(now.trace(), params, state)
        weights = {t.untyped_storage().data_ptr() for t in _tensors(params)}
        for name, kept in state.items():
            if any(t.untyped_storage().data_ptr() in weights for t in kept):
                yield f'state["{name}"] is a view of the weights, which change in place: clone it'


def _generators(rule: Rule, case: Case) -> Iterator[str]:
    before = _global_generators()
    _answers(rule, case)
    for name, state in _global_generators().items():
        if state != before[name]:
            yield f"the generator of {name} has moved on; draw from `streams` instead"


def _global_generators() -> dict[str, object]:
    legacy = pickle.dumps(np.random.get_state())  # noqa: NPY002
    return {"torch": torch.get_rng_state().tolist(), "numpy": legacy, "random": random.getstate()}


def _arguments(rule: Rule, case: Case) -> Iterator[str]:
    state = rule.init(case.dims, case.streams)
    for now in _steps(case):
        given = {"trace": now.trace(), "params": now.params(), "state": state}
        before = {name: [t.clone() for t in _tensors(thing)] for name, thing in given.items()}
        _, state = rule.teach(**given)  # type: ignore[arg-type]
        for name, thing in given.items():
            if not _same(_tensors(thing), before[name]):
                yield f"`{name}` has changed"


def _purity(rule: Rule, case: Case) -> Iterator[str]:
    if not _same(_answers(rule, case), _answers(rule, case)):
        yield "two answers differ"


def _same(some: list[Tensor], others: list[Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))


def _finite(rule: Rule, case: Case) -> Iterator[str]:
    if not _all_finite(_answers(rule, case)):
        yield "a number is infinite or not a number"


def _silence(rule: Rule, case: Case) -> Iterator[str]:
    trace, params, state = case.trace(), case.params(), rule.init(case.dims, case.streams)
    silent = replace(trace, error=torch.zeros_like(trace.error))
    if not _all_finite(_tensors(rule.teach(silent, params, state))):
        yield "a number is infinite or not a number"


def _all_finite(tensors: list[Tensor]) -> bool:
    return all(bool(t.isfinite().all()) for t in tensors)


def _independence(rule: Rule, case: Case) -> Iterator[str]:
    pack = _answers(rule, case)
    for place, seed in enumerate(case.seeds):
        alone = _answers(rule, replace(case, seeds=(seed,)))
        if not _close(pack, place, alone, 0):
            yield f"network {place} of {len(case.seeds)} is taught otherwise than alone"


def _draws(rule: Rule, case: Case) -> Iterator[str]:
    other = replace(case, feedback_shift=1)
    if not rule.draws and not _same(_answers(rule, case), _answers(rule, other)):
        yield "its answer depends on the feedback seed, but `draws` is False"


def _searched(rule: Rule, case: Case) -> Iterator[str]:
    options: Any = rule
    factors = torch.tensor([1.0, 0.9, 0.8], dtype=case.dtype).reshape(-1, 1, 1)
    values = {
        option.name: factors * getattr(rule, option.name)
        for option in fields(options)
        if isinstance(option.default, float)
    }
    if not values:
        return
    pack = _answers(replace(options, **values), case)
    for place in range(len(factors)):
        alone = replace(options, **{name: value[place].item() for name, value in values.items()})
        if not _close(pack, place, _answers(alone, case), place):
            yield f"(replica, 1, 1) tensors for {', '.join(values)} act otherwise than numbers"


def _close(some: list[Tensor], place: int, others: list[Tensor], other_place: int) -> bool:
    pairs = [
        (a[place].double(), b[other_place].double(), CLOSE.get(a.dtype, 0.0))
        for a, b in zip(some, others, strict=True)
    ]
    return all((a - b).abs().max() <= close * b.abs().max() for a, b, close in pairs)


CLOSE = {torch.float64: 1e-9, torch.float32: 1e-2}
"""Rounding that is forgiven, as a fraction of the largest number: an order of summation may
change with the pack where a rule does not use `net.product`, and perturbations amplify it."""


LAWS = {
    "it gives one signal a layer, shaped as its pre-activation": _signals,
    "signals and state are finite": _finite,
    "its state is named tuples of tensors, replica first": _state,
    "its state has memory of its own": _memory,
    "it leaves the global random generators alone": _generators,
    "it leaves its arguments alone": _arguments,
    "equal arguments give equal answers": _purity,
    "signals and state are finite where the error is zero": _silence,
    "a network does not depend on its pack": _independence,
    "a rule that draws says so": _draws,
    "a float option may differ from network to network": _searched,
}

FORM = tuple(LAWS)[:6]
"""What a rule must keep to be trained at all: shapes, generators, arguments, purity, finiteness."""
