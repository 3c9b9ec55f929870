"""Studies whose training step is compiled."""

import json

import pytest

from orchestrator import verify
from orchestrator.preflight import PreflightError
from orchestrator.result_row import where
from orchestrator.store import trials
from rules import compiled

STEPS = {"steps": 6, "batch_size": 16, "record": 2}


def forget():
    for cached in (compiled.compiler, compiled.compiled, where):
        cached.cache_clear()


@pytest.fixture
def without_compiler():
    import torch._inductor.config as inductor

    forget()
    with inductor.patch({"cpp.cxx": (None, "/no/compiler")}):
        yield
    forget()


def test_its_rows_tell_the_compiler_and_are_trained_again_exactly(small, train, compiler):
    study = small(
        rules=["bp"], training=STEPS | {"compile": True}, grid={"depth": 1, "width": 8, "seeds": 1}
    )
    assert train(study).exit_code == 0
    rows = trials("run").to_pylist()
    assert {row["compile"] for row in rows} == {True}
    assert {json.loads(row["versions"])["compiler"] for row in rows} == {compiler}
    assert {verdict.verdict for verdict in verify("run", sample=3)} == {"exact"}


def test_a_machine_without_a_compiler_is_found_before_anything_trains(
    small, train, without_compiler
):
    with pytest.raises(PreflightError, match=r"rule bp: training\.compile needs a C"):
        train(small(rules=["bp"], training=STEPS | {"compile": True}))


def test_or_is_an_error_in_every_row(small, train, without_compiler):
    study = small(rules=["bp"], training=STEPS | {"compile": True})
    assert train(study, preflight=False).exit_code == 1
    rows = [row for row in trials("run").to_pylist() if row["status"] != "pending"]
    assert {row["status"] for row in rows} == {"failed"}
    assert all("training.compile needs a C++ compiler" in row["error"] for row in rows)


def test_a_rule_that_loops_over_replicas_cannot_be_compiled(small, own_rule, train, compiler):
    rule = own_rule("loops", "for replica in range(len(trace.targets)):\n    trace.error[replica]")
    with pytest.raises(PreflightError, match=r"rule own: .* does the rule loop over replicas"):
        train(small(rules=[rule], training=STEPS | {"compile": True}))
