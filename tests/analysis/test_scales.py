import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.scales import DepthScale, layer_axis, log_ticks, power, shares, step_axis
from analysis.style import style


@pytest.fixture
def ax():
    with style():
        yield Figure().add_subplot()


def ticks(axis):
    low, high = sorted(axis.get_view_interval())
    places = [place for place in axis.get_major_locator()() if low <= place <= high]
    return axis.get_major_formatter().format_ticks(places)


@pytest.mark.parametrize("depths", [(1, 2, 4, 6, 8, 10), (1, 2, 4, 8, 16, 32, 64), (3,)])
def test_every_depth_has_an_integer_tick(ax, depths):
    DepthScale(depths).label(ax)
    assert ticks(ax.xaxis) == [str(depth) for depth in depths]


def test_too_many_depths_get_fewer_ticks_and_still_integers(ax):
    DepthScale(tuple(range(10, 41))).label(ax)
    assert ticks(ax.xaxis) == [str(depth) for depth in range(10, 41, 2)]


@pytest.mark.parametrize("depths", [(1, 2, 4, 6), (1, 2, 4, 8, 64)])
def test_dodged_rules_stay_with_their_depth(depths):
    scale = DepthScale(depths)
    low, high = scale.dodged(depths, -0.35), scale.dodged(depths, 0.35)
    assert (low < depths).all()
    assert (high > depths).all()
    assert (high[:-1] < low[1:]).all()


def test_rules_are_dodged_evenly_around_the_depth():
    assert shares(1).tolist() == [0]
    assert shares(4).sum() == pytest.approx(0)
    assert np.ptp(np.diff(shares(4))) == pytest.approx(0)


def test_powers_of_ten_are_written_without_mathtext(ax):
    ax.plot([1e-4, 1], [1, 2])
    log_ticks(ax, "x")
    assert set(ticks(ax.xaxis)) <= {"10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"}
    assert power(1e-10) == "10⁻¹⁰"


def test_a_short_log_axis_still_has_ticks(ax):
    ax.plot([0.02, 0.08], [1, 2])
    log_ticks(ax, "x")
    assert "0.05" in ticks(ax.xaxis)


def test_thousands_of_steps_are_written_short(ax):
    ax.plot([0, 6000], [0, 1])
    step_axis(ax)
    assert ticks(ax.xaxis)[:3] == ["0", "2.5k", "5k"]


@pytest.mark.parametrize(("depth", "expected"), [(1, "1"), (4, "1 2 3 4"), (10, "1 5 10")])
def test_layers_are_ticked_from_the_first_to_the_last(ax, depth, expected):
    layer_axis(ax, depth)
    assert ticks(ax.xaxis) == expected.split()
