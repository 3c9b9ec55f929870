import re
from collections import Counter
from dataclasses import replace

import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.forecast import expected, plan
from orchestrator.timing import between

numbers = st.floats(1.0, 1e6)


@given(numbers, numbers, numbers, st.floats(0, 1))
def test_a_network_between_two_cells_takes_a_time_between_theirs(first, step, seconds, share):
    ends = [(first, seconds), (first + step, 3 * seconds)]
    found = between(ends, first + share * step)
    assert abs(found - seconds * (1 + 2 * share)) <= 1e-6 * seconds
    assert between(ends[:1], 5 * first) == seconds


def test_a_run_knows_what_it_trained_and_how_long_that_took(small, train):
    study = small(grid={"depth": [1, 2], "width": 8, "seeds": 1})
    result = train(study)
    assert result.left.networks == Counter(
        {(rule, phase): n for rule in ("bp", "fa") for phase, n in (("tune", 12), ("evaluate", 2))}
    )
    assert result.seconds > 0
    assert expected(study, result) > 0
    again = train(study)
    assert not again.left.networks
    assert again.seconds == expected(study, again) == 0


def test_the_time_of_a_long_run_stands_beside_what_a_plan_says(
    mapping, command, tmp_path, monkeypatch
):
    monkeypatch.setattr("orchestrator.cli.LONG", 0.0)
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(mapping(rules=["bp"], search={"lr": 0.1})))
    told = command("run", file, "--inline").out
    assert re.search(r"training took \d+ s on 1 workers; planned: \d+ s \(\d+% of it\)", told)


def test_a_plan_says_where_compiling_may_pay(small):
    short = replace(plan(small(), measure=False), seconds=100.0, workers=2)
    long = replace(short, seconds=10_000.0)  # 4 cells of a minute to compile against 20,000 s
    assert short.warnings == []
    (told,) = long.warnings
    assert told.startswith("training.compile: the steps of 4 cells compile in about 4 min 0 s, and")
    already = small(training={"steps": 10, "batch_size": 16, "record": 2, "compile": True})
    assert replace(plan(already, measure=False), seconds=10_000.0).warnings == []
