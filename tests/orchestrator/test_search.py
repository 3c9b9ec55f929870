from itertools import pairwise
from math import inf, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.campaign import campaigns, values
from orchestrator.grid import expand
from orchestrator.search import Search

LR = (("lr", 0.01, 1.0),)


def searching(space=LR, points=5, sampler="tpe", campaign="c", told=()):
    search = Search(space, (), points, sampler, campaign)
    for round_ in told:
        search.tell(*round_)
    return search


def rates(points):
    return [point["lr"] for point in points]


ends = st.tuples(st.integers(1, 999), st.integers(-6, 2), st.integers(1001, 9999)).map(
    lambda n: (n[0] * 10.0 ** n[1], n[2] * 10.0 ** n[1])
)


@given(ends, st.integers(2, 30))
def test_the_first_round_is_even_on_a_log_scale_and_holds_both_ends(space, count):
    low, high = space
    asked = rates(searching((("lr", low, high),), count).ask())
    assert [f"{asked[0]:.6g}", f"{asked[-1]:.6g}"] == [f"{low:.6g}", f"{high:.6g}"]
    steps = [log(b / a) for a, b in pairwise(asked)]
    assert steps == pytest.approx([log(high / low) / (count - 1)] * (count - 1), abs=1e-5)


def test_the_first_round_is_the_same_for_all_cells(small):
    first = [
        sorted({w.trial.lr for w in next(campaign.run({}))})
        for campaign in campaigns(expand(small(rules=["bp", "fa", "sdil"])))
    ]
    assert first == [[0.01, 0.1, 1.0]] * 6


SOME = ([{"lr": lr} for lr in (0.01, 0.1, 1.0)], [3.0, 1.0, 2.0])


def test_what_is_asked_is_a_function_of_what_was_told():
    def asked(**arguments):
        return searching(**{"told": [SOME]} | arguments).ask()

    again = [asked() for _ in range(3)]
    assert again[0] == again[1] == again[2]
    assert asked(told=[(SOME[0], [1.0, 3.0, 2.0])]) != again[0]
    assert asked(campaign="d") != again[0]
    assert asked(told=[SOME, SOME]) != again[0]
    assert asked(sampler="random") != again[0]
    assert len({*rates(again[0])}) == 5


def test_failed_points_are_told_as_the_worst_finite_value():
    worst = searching(told=[(SOME[0], [3.0, 1.0, inf])]).ask()
    assert worst == searching(told=[(SOME[0], [3.0, 1.0, 3.0])]).ask()
    assert searching(told=[(SOME[0], [inf, inf, inf])]).ask()


told = st.lists(
    st.tuples(st.sampled_from([0.01, 0.1, 0.3, 1.0]), st.sampled_from([1.0, 2.0, inf])),
    min_size=1,
    max_size=8,
)


@given(told)
def test_the_best_point_has_the_lowest_value_and_of_several_the_smallest_rate(pairs):
    search = searching()
    for lr, value in pairs:
        search.tell([{"lr": lr}], [value])
    lowest = min(value for _, value in pairs)
    if lowest == inf:
        assert search.best is None
    else:
        assert search.best == {"lr": min(lr for lr, value in pairs if value == lowest)}


def answer(status="ok", loss=2.0, accuracy=0.5, initial=3.0):
    return {
        "status": status,
        "validation_loss": loss if status == "ok" else None,
        "validation_accuracy": accuracy if status == "ok" else None,
        "initial_loss": initial,
        "chance_accuracy": 0.1,
    }


def test_a_point_is_worth_the_mean_of_its_networks():
    answers = [answer(loss=loss) for loss in (1.0, 2.0, 5.0, 7.0)]
    assert values(answers, 2, "validation_loss") == [1.5, 6.0]
    answers = [answer(accuracy=accuracy) for accuracy in (0.5, 0.25, 1.0, 1.0)]
    assert values(answers, 2, "validation_accuracy") == [-0.375, -1.0]


def test_a_diverged_network_is_worth_ten_times_its_loss_at_the_start():
    answers = [answer(), answer("diverged", initial=3.0)]
    assert values(answers, 2, "validation_loss") == [2.0, 30.0]
    assert values(answers, 1, "validation_loss") == [16.0]
    assert values(answers, 2, "validation_accuracy") == [-0.5, -0.1]


@pytest.mark.parametrize("choose", ["validation_loss", "validation_accuracy"])
def test_a_point_with_a_failed_network_is_the_worst(choose):
    answers = [answer(), answer("failed", initial=None), answer("diverged", initial=None)]
    assert values(answers, 3, choose)[1:] == [inf, inf]
    assert values(answers, 1, choose) == [inf]


def test_a_grid_is_one_log_even_round(small):
    search = {"sampler": "grid", "points": 4, "seeds": 1}
    (campaign, *_) = campaigns(expand(small(search=search)))
    assert campaign.rounds == 1
    assert rates(searching(sampler="grid").ask()) == rates(searching().ask())


@settings(max_examples=20)
@given(ends)
def test_random_points_lie_in_the_range_from_the_first_round_on(space):
    low, high = space
    search = searching((("lr", low, high),), 6, "random")
    for _ in range(2):
        asked = rates(search.ask())
        assert all(low <= lr <= high for lr in asked)
        assert len(set(asked)) == 6
        search.tell([{"lr": lr} for lr in asked], [1.0] * 6)


TWO = (("eta_A", 0.05, 0.5), ("lr", 0.01, 1.0))
THREE = (*TWO, ("sigma", 0.001, 0.1))


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_several_searched_values_stay_in_their_ranges(sampler):
    search = searching(THREE, 6, sampler)
    for round_ in range(3):
        points = search.ask()
        assert all(low <= p[name] <= high for p in points for name, low, high in THREE)
        search.tell(points, [p["lr"] + p["eta_A"] + round_ for p in points])


def order(points, name):
    return sorted(range(len(points)), key=lambda place: points[place][name])


@pytest.mark.parametrize("count", range(3, 20))
def test_several_searched_values_do_not_rise_together(count):
    points = searching(THREE, count).ask()
    for name, low, high in THREE:
        levels = sorted(point[name] for point in points)
        steps = [log(b / a) for a, b in pairwise(levels)]
        assert steps == pytest.approx([log(high / low) / (count - 1)] * (count - 1), abs=1e-4)
    assert order(points, "lr") == list(range(count))
    assert order(points, "eta_A") != order(points, "lr")
    assert order(points, "sigma") != order(points, "lr")


def test_points_of_a_range_with_many_digits_lie_in_the_range_that_is_searched(small):
    search = {"lr": {"low": 0.0033333333, "high": 0.6666666666}, "points": 3, "seeds": 1}
    (campaign, *_) = campaigns(expand(small(search=search)))
    ((_, low, high),) = campaign.cells[0].rule.space
    asked = [wanted.trial.lr for wanted in next(campaign.run({}))]
    assert (min(asked), max(asked)) == (low, high)
