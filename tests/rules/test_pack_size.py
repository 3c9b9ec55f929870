from hypothesis import given
from hypothesis import strategies as st

from rules.dims import Dims
from rules.pack_size import CACHE, LEAST, MOST, cached, fitting, in_groups


@given(st.integers(1, 500), st.integers(1, 99))
def test_groups_hold_every_network_once_and_are_as_few_and_as_even_as_can_be(count: int, size: int):
    groups = in_groups(count, size)
    assert [place for group in groups for place in group] == [*range(count)]
    assert len(groups) == -(-count // size)
    assert all(len(group) in (count // len(groups), -(-count // len(groups))) for group in groups)


def test_the_networks_of_a_tensor_fill_the_cache_with_one_layer():
    assert cached(Dims((40, 64, 64, 10)), 128, 4) == CACHE // (64 * 128 * 4) == 16
    assert cached(Dims((40, 64, 64, 10)), 128, 8) == 8
    assert cached(Dims((784, 4096, 10)), 128, 4) == LEAST
    assert cached(Dims((2, 2, 1)), 4, 4) == MOST


@given(st.integers(1, 12), st.integers(1, 2000), st.integers(1, 2**40))
def test_networks_for_a_device_take_no_more_than_its_room(depth: int, width: int, room: int):
    dims = Dims((784, *[width] * depth, 10))
    count = fitting(dims, 128, 4, room)
    copies = 4 * 128 * depth * sum(dims.sizes)  # of every layer, shifted
    assert count == 1 or count * (4 * 8 * dims.parameter_count + copies) <= room
    assert 1 <= count <= 4096
