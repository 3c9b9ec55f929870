"""How many packs a cluster has room for, from what its nodes have."""

import pytest

from orchestrator.nodes import Room, ScheduleError, share


def of(cpus, gpus=0):
    return {"CPU": float(cpus), "GPU": float(gpus)} if gpus else {"CPU": float(cpus)}


@pytest.fixture
def nodes(monkeypatch):
    """The nodes of a cluster, to be changed; whoever asks gets what is true now."""
    monkeypatch.setattr("orchestrator.nodes.SECONDS_BETWEEN_LOOKS", -1)
    monkeypatch.setattr("orchestrator.nodes.GRACE", 1)
    return {"head": of(0), "one": of(4, 1), "two": of(2)}


def room(nodes, cpus=1, gpus=0.0, most=None, joined=True):
    return Room(lambda: dict(nodes), cpus, gpus, most, joined=joined)


def test_nodes_that_join_and_leave_are_counted(nodes):
    found = room(nodes)
    assert found() == 6
    nodes["three"] = of(8)
    assert found() == 14
    del nodes["one"], nodes["two"], nodes["three"]
    assert found() == 1  # which waits


def test_a_worker_lies_on_one_node(nodes):
    assert [room(nodes, cpus)() for cpus in (1, 2, 3, 4)] == [6, 3, 1, 1]
    assert room(nodes, gpus=0.5)() == 2


def test_what_no_node_has_is_refused_unless_the_cluster_may_grow(nodes):
    with pytest.raises(ScheduleError, match=r"no node has 5 cpus and 0 gpus .* 4 cpus and 1 gpus"):
        room(nodes, 5)
    with pytest.raises(ScheduleError, match="no node has 5 cpus"):
        room(nodes, 5, most=3, joined=False)
    assert room(nodes, 5, most=3)() == 3


def test_a_user_may_ask_for_less(nodes):
    assert room(nodes, most=2, joined=False)() == 2
    assert room(nodes, most=50, joined=False)() == 6


@pytest.mark.parametrize("most", [None, 20])
def test_the_loss_of_a_node_is_known_also_of_one_that_came_later(nodes, most):
    found = room(nodes, most=most)
    nodes["later"] = of(4)
    found()
    before = found.nodes()
    assert not found.lost_any(before)
    del nodes["later"]
    assert found.lost_any(before)
    assert not found.lost_any(found.nodes())


@pytest.mark.parametrize(
    ("cluster", "cpus", "wanted"),
    [
        ([of(4, 1)], 1, 0.25),
        ([of(64, 4)], 1, 0.125),  # eight share one at most
        ([of(2), of(12, 4)], 1, 0.3333),
        ([of(8, 1), of(2, 1)], 2, 0.25),
        ([of(1, 4)], 1, 1.0),
        ([of(16)], 1, 0.25),  # they are yet to come
    ],
)
def test_auto_lets_as_many_share_a_gpu_as_there_are_cpus(cluster, cpus, wanted):
    assert share(cluster, cpus) == wanted
    for node in cluster:
        assert room({"it": node}, cpus, "auto", most=99).gpus == share([node], cpus)


@pytest.mark.parametrize(("gpus", "workers"), [(0.1, 10), (0.3333, 3), (0.25, 4), (1, 1)])
def test_shares_of_a_gpu_fill_it(gpus, workers):
    assert room({"it": of(64, 1)}, gpus=gpus)() == workers


def test_more_gpus_than_a_node_has_are_refused():
    with pytest.raises(ScheduleError, match="no node has 1 cpus and 2 gpus"):
        room({"it": of(64, 1)}, gpus=2)
