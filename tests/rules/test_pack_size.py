from hypothesis import given
from hypothesis import strategies as st

from rules.dims import Dims
from rules.pack_size import FILL, LEAST, MOST, in_groups, suited


@given(st.integers(1, 500), st.integers(1, 99))
def test_groups_hold_every_network_once_and_are_as_few_and_as_even_as_can_be(count: int, size: int):
    groups = in_groups(count, size)
    assert [place for group in groups for place in group] == [*range(count)]
    assert len(groups) == -(-count // size)
    assert all(len(group) in (count // len(groups), -(-count // len(groups))) for group in groups)


def test_the_networks_of_a_tensor_fill_so_many_bytes_with_one_layer():
    assert suited(Dims((40, 64, 64, 10)), 128, 4) == FILL // (64 * 128 * 4) == 32
    assert suited(Dims((40, 64, 64, 10)), 128, 8) == 16
    assert suited(Dims((784, 4096, 10)), 128, 4) == LEAST
    assert suited(Dims((2, 2, 1)), 4, 4) == MOST
