"""The check of a rule's laws: it lets good rules pass, and names the law that a bad one breaks."""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from rules import catalog
from rules.dfa import DFA
from rules.dims import Dims
from rules.fa import FA
from rules.rule import Lesson, Rule, State, Trace
from rules.sdil import SDIL
from rules.streams import Streams
from rules.testing import RuleBrokenError, check_rule

EXAMPLES = Path(__file__).parents[2] / "examples"

GOOD = [
    *(catalog.find(name)() for name in catalog.BUILT_IN),
    FA(scale=0.5, feedback_scale="relu"),
    SDIL(pert_ndirs=2, pert_every=2, normalize_delta=True),
]


@pytest.mark.parametrize("rule", GOOD, ids=str)
def test_the_built_in_rules_keep_the_laws(rule: Rule):
    check_rule(rule)


@pytest.fixture
def users_rule(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rule]:
    """The example of a user's own rule, found as a study in the folder of examples finds it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield catalog.find("my_rules.sign_dfa:SignDFA")()
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_rules"]:
        del sys.modules[name]


def test_the_example_of_a_users_rule_keeps_the_laws(users_rule: Rule):
    check_rule(users_rule)


@dataclass(frozen=True)
class Plain:
    """Zero signals for the hidden layers: a rule that keeps the laws, and that the zoo breaks."""

    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False

    def operations(self, dims: Dims) -> float:
        return 0

    def init(self, dims: Dims, streams: Streams) -> State:
        return {}

    def teach(self, trace: Trace, params: object, state: State) -> tuple[Lesson, State]:
        signals = *(torch.zeros_like(slope) for slope in trace.slopes), trace.error
        return self.changed(Lesson(signals), trace), state

    def changed(self, lesson: Lesson, trace: Trace) -> Lesson:
        """What the zoo overrides."""
        return lesson


def hidden(lesson: Lesson, change: object) -> Lesson:
    """The lesson with every hidden signal changed."""
    *below, top = lesson.signals
    return Lesson((*(change(s) for s in below), top))


class Mutable:
    """A rule, but no dataclass."""

    revision, draws = 1, False
    init, teach, changed = Plain.init, Plain.teach, Plain.changed


@dataclass(frozen=True)
class Undocumented(Plain): ...


Undocumented.__doc__ = None


@dataclass(frozen=True, eq=False)
class Incomparable(Plain):
    """It is equal to itself only."""

    __eq__, __hash__ = object.__eq__, object.__hash__


@dataclass(frozen=True)
class Unpicklable(Plain):
    """It holds a function without a name."""

    change: object = field(default=lambda s: s, compare=False)


@dataclass(frozen=True)
class Forgetful(Plain):
    """It leaves out the readout."""

    def changed(self, lesson, trace):
        return Lesson(lesson.signals[:-1])


@dataclass(frozen=True)
class Summed(Plain):
    """It sums over the batch."""

    def changed(self, lesson, trace):
        return hidden(lesson, lambda s: s.sum(1, keepdim=True))


@dataclass(frozen=True)
class Single(Plain):
    """It gives float32 whatever the network's type."""

    def changed(self, lesson, trace):
        return hidden(lesson, lambda s: s.float())


@dataclass(frozen=True)
class WrongInputs(Plain):
    """It gives inputs for the hidden layers only."""

    def changed(self, lesson, trace):
        return replace(lesson, inputs=trace.inputs[:-1])


@dataclass(frozen=True)
class SharedState(Plain):
    """One state for all networks."""

    def init(self, dims, streams):
        return {"B": (torch.ones(dims.outputs, dims.sizes[1]),)}


@dataclass(frozen=True)
class BareState(Plain):
    """A tensor where a tuple of them is wanted."""

    def init(self, dims, streams):
        return {"B": streams.zeros((2,))}


@dataclass(frozen=True)
class Viewer(Plain):
    """It keeps the weights, and not a copy of them."""

    def teach(self, trace, params, state):
        lesson, _ = super().teach(trace, params, state)
        return lesson, {"B": tuple(w.mT for w in params.weights)}


@dataclass(frozen=True)
class TorchGambler(Plain):
    """It draws from torch's global generator."""

    def changed(self, lesson, trace):
        return hidden(lesson, torch.randn_like)


@dataclass(frozen=True)
class NumpyGambler(Plain):
    """It draws from numpy's global generator."""

    def changed(self, lesson, trace):
        return hidden(lesson, lambda s: s + np.random.rand())  # noqa: NPY002


@dataclass(frozen=True)
class PythonGambler(Plain):
    """It draws from Python's global generator."""

    def init(self, dims, streams):
        return {"B": (streams.zeros((2,)) + random.random(),)}


@dataclass(frozen=True)
class Unseeded(Plain):
    """It draws from a generator of its own that nobody seeded."""

    def changed(self, lesson, trace):
        return hidden(lesson, lambda s: s + np.random.default_rng().random())


@dataclass(frozen=True)
class Vandal(Plain):
    """It clears the slopes that it was shown."""

    def changed(self, lesson, trace):
        trace.slopes[0].zero_()
        return lesson


@dataclass(frozen=True)
class Hoarder(Plain):
    """It steps its state in place."""

    def init(self, dims, streams):
        return {"B": (streams.zeros((2,)),)}

    def teach(self, trace, params, state):
        state["B"][0].add_(1)
        return super().teach(trace, params, state)


@dataclass(frozen=True)
class Mixer(Plain):
    """Its signals are the mean loss of all networks."""

    def changed(self, lesson, trace):
        return hidden(lesson, lambda s: s + trace.losses.mean())


@dataclass(frozen=True)
class Divider(Plain):
    """It divides by the norm of the error."""

    def changed(self, lesson, trace):
        return hidden(lesson, lambda s: s + 1 / trace.error.norm(dim=-1, keepdim=True))


@dataclass(frozen=True)
class Overflowing(Plain):
    """Its signals are infinite."""

    def changed(self, lesson, trace):
        return hidden(lesson, lambda s: s + torch.inf)


@dataclass(frozen=True)
class Secretive(DFA):
    """It draws, and says that it does not."""

    draws: ClassVar[bool] = False


@dataclass(frozen=True)
class OneForAll(DFA):
    """It takes one number where a study that searches gives one a network."""

    def init(self, dims, streams):
        largest = torch.as_tensor(self.scale).max().item()
        return DFA(largest).init(dims, streams)


@dataclass(frozen=True)
class Deep(Plain):
    """It wants two hidden layers."""

    def changed(self, lesson, trace):
        assert trace.slopes[1] is not None
        return lesson


ZOO = {
    Mutable: "a rule is a frozen dataclass",
    Undocumented: "docstring gives its equation",
    Incomparable: "rules of equal options are equal",
    Unpicklable: "a rule can be pickled: it raised",
    Forgetful: "one signal a layer",
    Summed: r"one signal a layer.*\(3, 1, 6\) float32 on cpu",
    Single: r"one signal a layer.*float64\)",
    WrongInputs: "one signal a layer.*inputs of shape",
    SharedState: "replica first.*has shape",
    BareState: "replica first.*is not a tuple",
    Viewer: "memory of its own.*clone it",
    TorchGambler: "global random generators alone.*generator of torch",
    NumpyGambler: "global random generators alone.*generator of numpy",
    PythonGambler: "global random generators alone.*generator of random",
    Unseeded: "equal arguments give equal answers",
    Vandal: "leaves its arguments alone.*`trace` has changed",
    Hoarder: "leaves its arguments alone.*`state` has changed",
    Mixer: "does not depend on its pack",
    Divider: "finite where the error is zero",
    Overflowing: "signals and state are finite",
    Secretive: "a rule that draws says so",
    OneForAll: "option may differ from network to network.*scale",
    Deep: "raised IndexError",
}


def test_a_rule_that_teaches_the_readout_only_keeps_the_laws():
    check_rule(Plain())


@pytest.mark.parametrize(("broken", "law"), ZOO.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_a_broken_rule_is_refused_by_the_law_that_it_breaks(broken: type, law: str):
    with pytest.raises(RuleBrokenError, match=f"{broken.__name__}.* breaks a law: .*{law}"):
        check_rule(broken())


def test_the_complaint_says_which_rule_breaks_what_where_and_how():
    with pytest.raises(RuleBrokenError) as raised:
        check_rule(Mixer())
    assert str(raised.value) == (
        "Mixer() breaks a law: a network does not depend on its pack "
        "(relu network 5-6-4, cross-entropy loss, float32): "
        "network 0 of 3 is taught otherwise than alone"
    )
