"""Where others' code lies, and one small network on which a step of theirs is held to ours."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from rules.case import Case
from rules.rule import Lesson, Rule, State

FOLDER = os.environ.get("RULESWEEP_ORACLES", "")


class Bench:
    """A float64 tanh network 20-32-16-8-4 with sixteen examples, and what is compared on it."""

    case = Case((20, 32, 16, 8, 4), seeds=(0,), batch=16, feedback_shift=7)

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        x, y = self.case.examples()
        self.x, self.y = x[0], y[0]

    def layers(self, module: nn.Module) -> list[nn.Linear]:
        """The linear layers of others' network, which are given the weights of ours."""
        layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
        params = self.case.params()
        for layer, w, b in zip(layers, params.weights, params.biases, strict=True):
            layer.weight.data = w[0].T.clone()
            layer.bias.data = b[0, 0].clone()
        return layers

    def taught(self, rule: Rule, state: State) -> list[Tensor]:
        """The gradients of W_1.. and of b_1.. that the core makes of what our rule teaches."""
        trace = self.case.trace()
        return self.gradients(trace.inputs, rule.teach(trace, self.case.params(), state)[0])

    def gradients(self, inputs: tuple[Tensor, ...], lesson: Lesson) -> list[Tensor]:
        pairs = zip(lesson.inputs or inputs, lesson.signals, strict=True)
        weights = [(h.mT @ s)[0] / self.case.batch for h, s in pairs]
        return [*weights, *(s[0].mean(0) for s in lesson.signals)]

    def close(self, ours: list[Tensor], theirs: list[Tensor]) -> None:
        """Say the largest difference, and want it to be rounding."""
        assert [t.shape for t in ours] == [t.shape for t in theirs]
        assert max(t.abs().max() for t in theirs) > 1e-3
        worst = max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))
        self.say(f"largest difference {worst:.1e}")
        assert worst < 1e-12


@pytest.fixture
def bench(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Bench:
    """The network, and a way to print past pytest."""

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n{request.node.name}: {text}", end=" ")

    return Bench(say)


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes the modules of a repository's clone importable for one test; skips without it."""

    def found(name: str, inside: str = "") -> None:
        folder = Path(FOLDER) / name.partition("/")[2]
        if not FOLDER or not folder.is_dir():
            pytest.skip(f"no clone of {name} in the folder that RULESWEEP_ORACLES names")
        monkeypatch.syspath_prepend(folder / inside)

    before = set(sys.modules)
    yield found
    for name in set(sys.modules) - before:  # `models` and `module` are names that others use too
        if FOLDER and FOLDER in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _in_float64() -> Iterator[None]:
    """Others' layers are made in torch's default precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
