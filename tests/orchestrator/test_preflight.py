"""What no worker can train is found before a study starts."""

from pathlib import Path

import pytest

from orchestrator.columns import named
from orchestrator.preflight import PreflightError
from orchestrator.store import Store, trials

BROKEN = {
    "raises": ("raise ValueError('not yet written')", "ValueError('not yet written')"),
    "cut short": ("lesson = type(lesson)(lesson.signals[1:])", "signals of shape"),
    "flat": (
        "lesson = type(lesson)(tuple(s[..., :1] for s in lesson.signals))",
        "it gives one signal a layer, shaped as its pre-activation",
    ),
    "not a number": (
        "lesson = type(lesson)(tuple(s * float('nan') for s in lesson.signals))",
        "signals and state are finite",
    ),
    "global noise": (
        "import torch; torch.rand(1)",
        "the generator of torch has moved on; draw from `streams` instead",
    ),
    "in place": ("trace.error.mul_(2)", "`trace` has changed"),
}


@pytest.mark.parametrize(("body", "said"), BROKEN.values(), ids=BROKEN)
def test_a_rule_that_cannot_be_trained_is_refused_before_anything_trains(
    small, own_rule, train, body, said, request
):
    module = "broken_" + request.node.callspec.id.replace(" ", "_")
    study = small(rules=["bp", own_rule(module, body), "fa"])
    with pytest.raises(PreflightError) as refused:
        train(study)
    first, end = str(refused.value).splitlines()
    assert first.startswith("rule own: ")
    assert said in first
    assert end.startswith("nothing was trained; ")
    assert Store(Path("run")).answers == {}


def test_every_rule_with_a_problem_is_named_at_once(small, own_rule, train):
    one = own_rule("one_broken", "raise ValueError('one')") | {"label": "one"}
    two = own_rule("two_broken", "raise ValueError('two')") | {"label": "two"}
    with pytest.raises(PreflightError, match=r"(?s)rule one: .*'one'.*\nrule two: .*'two'"):
        train(small(rules=[one, "bp", two]))


def test_a_rule_that_fails_on_the_studys_own_data_is_placed(small, own_rule, train):
    body = "if trace.inputs[0].shape[-1] == 6:\n    raise ValueError('six inputs')"
    said = r"own: ValueError: six inputs \(.*six_inputs.py, line \d+\)"
    with pytest.raises(PreflightError, match=said):
        train(small(rules=[own_rule("six_inputs", body)]))


def test_without_a_preflight_the_other_rules_train(small, own_rule, train, statuses):
    rules = ["bp", own_rule("still_broken", "raise ValueError('no')")]
    result = train(small(rules=rules), preflight=False)
    assert result.exit_code == 1
    assert statuses("run") == {"ok": 16, "failed": 6, "pending": 10}


def test_a_rule_whose_networks_are_in_the_table_is_not_tried(small, own_rule, train, tmp_path):
    mark = tmp_path / "broken from now on"
    rule = own_rule("late", f"if Path('{mark}').exists():\n    raise ValueError('late')")
    train(small(rules=[rule]))
    mark.touch()
    assert train(small(rules=[rule])).trained == 0
    assert train(small(rules=[rule, "bp"])).trained == 16


def test_a_preflight_leaves_no_trace(small, train, tmp_path):
    train(small(), folder="tried")
    train(small(), folder="not tried", preflight=False)
    columns = named("coordinate", "result")
    tried, not_tried = (trials(tmp_path / name).select(columns) for name in ("tried", "not tried"))
    assert tried.equals(not_tried)


def test_the_command_line_says_it_in_a_line_a_rule(own_rule, mapping, command, tmp_path):
    import yaml

    study = mapping(rules=["bp", own_rule("broken_here", "raise ValueError('no')")])
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    done = command("run", "study.yaml", "--inline", "--out", "run")
    assert done.code == 2
    assert [line.partition(": ")[0] for line in done.err.splitlines()] == ["error", "error"]
    assert "rule own: " in done.err
    assert "Traceback" not in done.err
