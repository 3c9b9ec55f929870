import subprocess
import sys
from collections import Counter

import pytest

from orchestrator.campaign import campaigns
from orchestrator.grid import expand


def finding(small, **parts):
    return campaigns(expand(small(**parts)))


def searched(**parts):
    return {"lr": {"low": 0.01, "high": 1.0}, "rounds": 2, "points": 3, "seeds": 2} | parts


def answer(loss, status="ok"):
    return {
        "status": status,
        "validation_loss": loss,
        "validation_accuracy": 0.5,
        "initial_loss": 3.0,
        "chance_accuracy": 0.1,
    }


def followed(campaign, value, asked=None):
    """All that a campaign wants, where a network's loss is `value` of it, or its rule failed."""
    steps, batches = campaign.run(asked or {}), []
    try:
        batches.append(next(steps))
        while True:
            losses = [value(wanted.trial) for wanted in batches[-1]]
            answers = [answer(x, "failed" if x is None else "ok") for x in losses]
            batches.append(steps.send(answers))
    except StopIteration:
        return batches


def test_a_campaign_tunes_in_rounds_and_then_evaluates_the_best_point(small):
    campaign = finding(small, search=searched())[0]
    *rounds, last = followed(campaign, lambda trial: abs(trial.lr - 0.1))
    assert [len(wanted) for wanted in rounds] == [6, 6]
    for place, wanted in enumerate(rounds):
        assert {(w.phase, w.round) for w in wanted} == {("tune", place)}
        assert [w.point for w in wanted] == [0, 0, 1, 1, 2, 2]
        assert [w.trial.init_seed for w in wanted] == [1_000_000, 1_000_001] * 3
        assert all(w.trial.tuning for w in wanted)
    assert {(w.phase, w.trial.lr, w.trial.tuning) for w in last} == {("evaluate", 0.1, False)}
    assert [w.trial.init_seed for w in last] == [0, 1]


def test_rounds_that_the_table_has_are_read_and_not_asked_again(small):
    campaign = finding(small, search=searched(rounds=3))[0]
    asked = {0: [{"lr": lr} for lr in (0.5, 0.6, 0.7)], 1: [{"lr": lr} for lr in (0.2, 0.3, 0.4)]}
    *rounds, _ = followed(campaign, lambda trial: trial.lr, asked)
    found = [[w.trial.lr for w in wanted[::2]] for wanted in rounds]
    assert found[:2] == [[0.5, 0.6, 0.7], [0.2, 0.3, 0.4]]
    assert not {*found[2]} & {0.2, 0.3, 0.4, 0.5, 0.6, 0.7}


REPLAY = """
import sys
from pathlib import Path
from orchestrator.grid import expand
from orchestrator.folder import study_id
from orchestrator.spec import load_study
from orchestrator.store import Store
from orchestrator.sweep import Pump

folder = Path(sys.argv[1])
grid = expand(load_study(folder / "study.yaml"))
pump = Pump(grid, Store(folder), study_id(grid))
print(pump.finished, pump.missing, {"optuna", "torch", "ray"} & set(sys.modules))
"""


def test_replaying_a_finished_run_calls_neither_optuna_nor_torch(finished):
    words = [sys.executable, "-c", REPLAY, str(finished)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "True 0 set()"


@pytest.mark.parametrize(
    ("per", "groups"),
    [
        ("cell", [[(1, 4)], [(1, 8)], [(2, 4)], [(2, 8)]]),
        ("rule", [[(1, 4), (1, 8), (2, 4), (2, 8)]]),
        (["depth"], [[(1, 4), (1, 8)], [(2, 4), (2, 8)]]),
        (["width"], [[(1, 4), (2, 4)], [(1, 8), (2, 8)]]),
        (["width", "depth"], [[(1, 4)], [(1, 8)], [(2, 4)], [(2, 8)]]),
    ],
)
def test_cells_share_a_rate_along_the_axes_that_have_none_of_their_own(small, per, groups):
    axes = {"depth": [1, 2], "width": [4, 8], "seeds": 1}
    found = finding(small, grid=axes, search=searched(per=per))
    shapes = [
        [(cell.network.depth, cell.network.width) for cell in campaign.cells] for campaign in found
    ]
    assert shapes == groups * 2
    half = len(found) // 2
    assert [campaign.cells[0].rule.label for campaign in found] == ["bp"] * half + ["fa"] * half


def test_a_shared_rate_is_chosen_by_the_mean_over_the_cells(small):
    campaign = finding(small, search=searched(per="rule", rounds=1))[0]
    losses = {0.01: (1.0, 7.0), 0.1: (5.0, 5.0), 1.0: (0.0, 9.0)}  # at depths 1 and 2
    _, last = followed(campaign, lambda t: losses[t.lr][t.cell.network.depth - 1])
    assert {w.trial.lr for w in last} == {0.01}
    assert Counter(w.trial.cell.network.depth for w in last) == {1: 2, 2: 2}


def test_a_fixed_rate_needs_no_tuning(small):
    for campaign in finding(small, search={"lr": 0.25}):
        (last,) = followed(campaign, lambda trial: 1.0)
        assert {(w.phase, w.trial.lr) for w in last} == {("evaluate", 0.25)}


def test_a_rule_of_its_own_rate_is_not_tuned_beside_one_that_is(small):
    rules = ["bp", {"name": "fa", "search": {"lr": 0.5}}]
    tuned, fixed = finding(small, rules=rules, grid={"depth": 1, "width": 8, "seeds": 1})
    assert len(followed(tuned, lambda trial: 1.0)) == 3
    assert len(followed(fixed, lambda trial: 1.0)) == 1


def test_a_campaign_all_of_whose_points_failed_stops_without_evaluation(small):
    campaign = finding(small, search=searched())[0]
    (wanted,) = followed(campaign, lambda trial: None)
    assert {w.phase for w in wanted} == {"tune"}


def test_a_campaign_some_of_whose_points_failed_goes_on(small):
    campaign = finding(small, search=searched(rounds=1))[0]
    _, last = followed(campaign, lambda trial: None if trial.lr < 0.5 else 1.0)
    assert {w.trial.lr for w in last} == {1.0}


def test_of_equal_points_the_smaller_rate_is_evaluated(small):
    campaign = finding(small, search=searched())[0]
    *_, last = followed(campaign, lambda trial: 1.0)
    assert {w.trial.lr for w in last} == {0.01}


def test_the_outline_counts_what_a_campaign_comes_to_want(small):
    axes = {"depth": [1, 2], "width": 8, "seeds": {"init": 2, "feedback": 3}}
    for campaign in finding(small, grid=axes, search=searched(per="rule")):
        wanted = [w for batch in followed(campaign, lambda trial: trial.lr) for w in batch]
        kinds = Counter((w.phase, w.round, w.point) for w in wanted)
        outline = Counter((w.phase, w.round, w.point) for w in campaign.outline())
        assert kinds.total() == outline.total()
        assert kinds["evaluate", None, None] == outline["evaluate", None, None]
        sizes = Counter()
        for cell, phase, number in campaign.sizes:
            sizes[cell.content, phase] += number
        assert sizes == Counter((w.trial.cell.content, w.phase) for w in wanted)


def test_the_rounds_asked_of_a_campaign_do_not_change_its_name(small):
    names = {finding(small, search=searched(rounds=n))[0].id for n in (1, 2, 5)}
    assert len(names) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"search": searched(points=4)},
        {"search": searched(seeds=3)},
        {"search": searched(lr={"low": 0.01, "high": 0.5})},
        {"search": searched(sampler="random")},
        {"search": searched(choose="validation_accuracy")},
        {"search": searched(), "training": {"steps": 11, "batch_size": 16}},
    ],
    ids=str,
)
def test_whatever_decides_what_is_asked_changes_a_campaigns_name(small, change):
    plain = finding(small, search=searched(), training={"steps": 10, "batch_size": 16})[0]
    parts = {"training": {"steps": 10, "batch_size": 16}} | change
    assert finding(small, **parts)[0].id != plain.id
