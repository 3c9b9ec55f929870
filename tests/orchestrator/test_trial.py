import hashlib
import json
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cell import Cell, Rule, TaskSetting, cell_from
from orchestrator.trial import Pack, pack_from, rounded, trial_of
from rules.settings import Measure, Network, Training

FA = Rule("fa", "fa", (("feedback_scale", "fan-in"), ("scale", 1.0)), revision=1, draws=True)
BP = Rule("bp", "backprop", (), revision=1, draws=False)
TASK = TaskSetting("digits", (), 0.1, 0, "0123456789abcdef", 64, 10, 10, 1167)
CELL = Cell(FA, TASK, Network(2, 16), Training(50, 128, record=(25, 50)), Measure())

PAYLOAD = (
    '{"device":"cpu",'
    '"network":{"activation":"tanh","bias":true,"depth":2,"residual":false,"width":16},'
    '"rule":["fa",1,[["feedback_scale","fan-in"],["scale",1.0]]],'
    '"task":{"dataset":"digits","examples":1167,"fingerprint":"0123456789abcdef","options":[],'
    '"split_seed":0,"validation":0.1},'
    '"training":{"batch_size":128,"dtype":"float32","loss":"cross-entropy","momentum":0.9,'
    '"normalize_signals":false,"record":[25,50],"steps":50,"weight_decay":0.0},'
    '"version":1}'
)
MEASURE = {
    "alignment": True, "examples": 500, "probe_examples": 10000, "probes": True, "ridge": 0.1,
}  # fmt: skip
BP_PAYLOAD = PAYLOAD.replace('["fa",1,[["feedback_scale","fan-in"],["scale",1.0]]]', '["bp",1,[]]')


def evaluated(cell=CELL, seeds=(0, 0), **point):
    return trial_of(cell, seeds, {"lr": 0.1} | point, tuning=False)


@pytest.mark.parametrize(
    ("trial", "payload", "golden"),
    [
        (evaluated(), [PAYLOAD, [0, 0], [["lr", 0.1]], MEASURE], "7eeefeb7a435e4af"),
        (
            trial_of(CELL, (1_000_000, 1_000_000), {"lr": 0.003}, tuning=True),
            [PAYLOAD, [1_000_000, 1_000_000], [["lr", 0.003]], "tuning"],
            "884d78a7d8be812f",
        ),
        (
            evaluated(replace(CELL, rule=BP), (3, 8)),
            [BP_PAYLOAD, [3, None], [["lr", 0.1]], MEASURE],
            "daa2e49f08585044",
        ),
    ],
)
def test_ids_are_those_of_the_tables_that_users_have(trial, payload, golden):
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == golden
    assert trial.id == golden


def other(value):
    """A value of the same type that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return (*value, ("more", 1))
    return value + ("x" if isinstance(value, str) else 1)


def parts_of(part, *without):
    return [(part, f.name) for f in fields(getattr(CELL, part)) if f.name not in without]


def changed(part, name):
    whole = getattr(CELL, part)
    return replace(CELL, **{part: replace(whole, **{name: other(getattr(whole, name))})})


@pytest.mark.parametrize(
    ("part", "name"),
    [
        *parts_of("rule", "label", "source", "draws", "fixed", "space"),
        *parts_of("task", "inputs", "outputs", "classes"),  # the fingerprint stands for these
        *parts_of("network"),
        *parts_of("training"),
    ],
)
def test_an_id_changes_with_every_setting_that_changes_the_row(part, name):
    cell = changed(part, name)
    assert evaluated(cell).id != evaluated().id
    assert trial_of(cell, (0, 0), {"lr": 1}, tuning=True).id != (
        trial_of(CELL, (0, 0), {"lr": 1}, tuning=True).id
    )


def test_an_id_changes_with_seeds_device_rates_and_what_is_measured():
    tuned = trial_of(CELL, (0, 0), {"lr": 0.1}, tuning=True)
    variants = [
        evaluated(),
        evaluated(seeds=(1, 0)),
        evaluated(seeds=(0, 1)),
        evaluated(lr=0.2),
        evaluated(sigma=0.1),
        evaluated(rho=0.1),
        evaluated(replace(CELL, device="cuda")),
        tuned,
    ]
    assert len({trial.id for trial in variants}) == len(variants)


@pytest.mark.parametrize(("part", "name"), parts_of("measure"))
def test_what_is_measured_belongs_to_evaluation_only(part, name):
    cell = changed(part, name)
    assert evaluated(cell).id != evaluated().id
    assert trial_of(cell, (0, 0), {"lr": 1}, tuning=True).id == (
        trial_of(CELL, (0, 0), {"lr": 1}, tuning=True).id
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label", "feedback alignment"),
        ("source", "123456789abc"),
        ("space", (("lr", 0.01, 1.0),)),
        ("fixed", (("lr", 0.1),)),
    ],
)
def test_an_id_ignores_the_label_the_source_and_the_searched_range(name, value):
    cell = replace(CELL, rule=replace(FA, **{name: value}))
    assert evaluated(cell).id == evaluated().id


def test_a_pack_is_no_part_of_its_trials_ids():
    trials = tuple(evaluated(seeds=(seed, seed)) for seed in range(5))
    pack = Pack(trials, attempts=3)
    halves = [trial for half in pack.halves() for trial in half.trials]
    assert [t.id for t in halves] == [t.id for t in trials]
    assert Pack(trials).id == pack.id


rates = st.floats(1e-8, 1e8)


@given(rates, rates)
def test_rates_that_agree_to_six_digits_are_one_trial(lr, rate):
    same = f"{lr:.6g}" == f"{rate:.6g}"
    assert (evaluated(lr=lr).id == evaluated(lr=rate).id) is same
    assert evaluated(lr=lr).id == evaluated(lr=float(f"{lr:.6g}")).id


@given(st.dictionaries(st.text(min_size=1), rates))
def test_a_rounded_point_is_what_its_text_says(point):
    again = rounded(point)
    assert again == {name: float(f"{value:.6g}") for name, value in point.items()}
    assert rounded(again) == again
    assert list(again) == sorted(point)


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, 2**63))
def test_a_rule_that_draws_nothing_drops_the_feedback_seed(init, one, another):
    bp = replace(CELL, rule=BP)
    assert evaluated(bp, (init, one)).id == evaluated(bp, (init, another)).id
    assert evaluated(bp, (init, one)).coordinates["feedback_seed"] is None
    assert (evaluated(seeds=(init, one)).id == evaluated(seeds=(init, another)).id) is (
        one == another
    )


values = (
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
options = st.dictionaries(st.text(), values | st.lists(values, max_size=3), max_size=3).map(
    lambda chosen: tuple(sorted(chosen.items()))
)
positive = st.integers(1, 100)
cells = st.builds(
    Cell,
    st.builds(
        Rule,
        st.text(),
        st.text(),
        options,
        positive,
        st.booleans(),
        st.text(),
        st.lists(st.tuples(st.text(), rates), max_size=2).map(tuple),
        st.lists(st.tuples(st.text(), rates, rates), max_size=2).map(tuple),
    ),
    st.builds(
        TaskSetting,
        st.text(),
        options,
        st.floats(0, 0.5),
        positive,
        st.text(),
        positive,
        positive,
        st.none() | positive,
        positive,
    ),
    st.builds(Network, positive, positive, st.text(), st.booleans(), st.booleans()),
    st.builds(
        Training,
        positive,
        positive,
        rates,
        rates,
        st.text(),
        st.text(),
        st.lists(positive).map(tuple),
        st.booleans(),
    ),
    st.builds(Measure, st.booleans(), st.booleans(), positive, positive, rates),
    st.sampled_from(["cpu", "cuda"]),
)
packs = st.builds(
    lambda cell, seeds, points, tuning, attempts: Pack(
        tuple(
            trial_of(cell, pair, {"lr": 1.0} | point, tuning=tuning)
            for pair, point in zip(seeds, points, strict=False)
        ),
        attempts,
    ),
    cells,
    st.lists(st.tuples(positive, positive), min_size=3, max_size=3),
    st.lists(st.dictionaries(st.text(), rates, max_size=2), min_size=1, max_size=3),
    st.booleans(),
    positive,
)


@given(packs)
def test_an_id_is_the_hash_of_all_that_changes_the_row(pack):
    for trial in pack.trials:
        seeds = [trial.init_seed, trial.feedback_seed]
        measured = "tuning" if trial.tuning else asdict(trial.cell.measure)
        payload = [trial.cell.content, seeds, trial.point, measured]
        text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        assert trial.id == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_zero_has_no_sign_in_a_point():
    assert str(rounded({"momentum": -0.0})) == "{'momentum': 0.0}"
    assert evaluated(momentum=-0.0).id == evaluated(momentum=0.0).id


@given(packs)
def test_packs_and_cells_survive_the_way_through_json(pack):
    again = pack_from(json.loads(json.dumps(pack.as_dict())))
    assert again == pack
    assert [t.id for t in again.trials] == [t.id for t in pack.trials]
    assert again.id == pack.id
    cell = cell_from(json.loads(json.dumps(pack.cell.as_dict())))
    assert cell == pack.cell
    assert cell.content == pack.cell.content


def test_every_setting_stands_in_the_plain_data_of_a_cell():
    assert set(CELL.as_dict()) == {f.name for f in fields(Cell)}
    assert CELL.as_dict()["training"] == asdict(CELL.training)
