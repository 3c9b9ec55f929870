"""A user's own modules that end the program, raise anything or say what cannot be: a line each."""

from itertools import count

import pytest

from orchestrator.grid import expand
from orchestrator.preflight import PreflightError
from orchestrator.spec import StudyError
from orchestrator.store import StoreError, trials
from rules.catalog import RuleError
from rules.dataset import DataError

RULE = """
from dataclasses import dataclass
from typing import ClassVar
from rules.bp import BP

@dataclass(frozen=True)
class Own(BP):
    revision: ClassVar[int] = 1
    draws: ClassVar[bool] = False

    def {}
"""
numbers = count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that can be imported; its name, which no other test has used."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text):
        name = f"hostile_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def line(refused):
    text = str(refused.value)
    assert text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(7)", "cannot be imported: SystemExit: 7"),
        ("raise OSError('one\\ntwo')", "cannot be imported: OSError: one two"),
        ("def f(): f()\nf()", "cannot be imported: RecursionError: maximum recursion depth"),
        (
            RULE.replace(" = 1", " = '1'").format("x(self): 0"),
            "has the revision '1'; a whole number",
        ),
        (RULE.format("operations(self, dims): return float('nan')"), "says it costs nan; a number"),
        (RULE.format("operations(self, dims): return float('inf')"), "says it costs inf; a number"),
        (RULE.format("operations(self, dims): return -1.0"), "says it costs -1.0; a number from 0"),
        (RULE.format("operations(self, dims): return 'many'"), "says it costs 'many'; a number"),
        (RULE.format("operations(self, dims): raise SystemExit"), "say what it costs: SystemExit"),
        (RULE.format("__post_init__(self): raise ValueError('no')"), "costs: ValueError: no"),
    ],
)
def test_a_rule_of_ones_own_that_cannot_be_had_or_counted(small, module, text, said):
    with pytest.raises(RuleError) as refused:
        expand(small(rules=[f"{module(text)}:Own"]))
    assert said in line(refused)


@pytest.mark.parametrize("method", ["init(self, dims, streams)", "teach(self, *given)"])
def test_a_rule_that_ends_the_program_is_a_problem_of_the_rule(small, module, train, method):
    own = {"name": f"{module(RULE.format(f'{method}: raise SystemExit(3)'))}:Own", "label": "own"}
    with pytest.raises(PreflightError, match=r"rule own: SystemExit: 3 \(.*hostile_"):
        train(small(rules=["bp", own]))
    result = train(small(rules=["bp", own]), preflight=False)
    assert result.exit_code == 1
    rows = trials(result.folder).to_pylist()
    found = {(row["label"], row["status"]) for row in rows if row["phase"] == "tune"}
    assert found == {("bp", "ok"), ("own", "failed"), ("own", "pending")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit(7)", "cannot be imported: 7; package.module:function"),
        ("def load(:", "cannot be imported: invalid syntax"),
        ("def load(): raise SystemExit", ":load raised SystemExit, SystemExit ("),
        ("def load(): raise ValueError('one\\ntwo')", ":load raised ValueError, one two ("),
        ("def load(): raise MemoryError", ":load raised MemoryError, MemoryError ("),
    ],
)
def test_data_of_ones_own_that_cannot_be_had(small, module, text, said):
    with pytest.raises(DataError) as refused:
        expand(small(task={"dataset": f"{module(text)}:load"}))
    assert said in line(refused)


def test_a_share_kept_for_validation_that_is_no_example(small):
    task = small().task.model_dump() | {"validation": 0.001}
    with pytest.raises(StudyError) as refused:
        expand(small(task=task))
    assert line(refused) == (
        "task.validation: 0.001 of the 80 examples of teacher is not one; take a larger share"
    )


def test_more_steps_than_can_be_counted(small):
    with pytest.raises(StudyError) as refused:
        expand(small(training={"epochs": 1e18}))
    assert line(refused) == "training: should take at most 2147483647 steps; got 1e+18"


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_what_is_no_name_of_a_folder(small, name):
    from orchestrator import run

    with pytest.raises(StoreError) as refused:
        run(small(), name, inline=True)
    assert line(refused) == f"run folder {name!r}: that is no name of a folder; give another"


def test_a_gpu_that_is_not_there(small, train):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(StudyError) as refused:
        train(small(resources={"gpus": 1}))
    assert line(refused).startswith("resources.gpus: this machine has no GPU that torch can use")


@pytest.mark.parametrize(
    "address", ["", "host", "not a host:6379", "host:0", "host:65536", "host:x", "[::1", "a\nb:1"]
)
def test_an_address_that_is_none_is_refused_before_ray_looks_for_it(address):
    from orchestrator.schedule import ScheduleError, start

    with pytest.raises(ScheduleError) as refused:
        start(address)
    assert line(refused).endswith("should be local, auto or HOST:PORT")
