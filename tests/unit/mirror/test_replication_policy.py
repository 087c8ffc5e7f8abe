"""The policy names mirrored topics, and no topic goes in a circle."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from log_service.mirror.replication_policy import ReplicationPolicy, is_internal
from log_service.mirror.settings import loop_of
from tests.unit.mirror.flows import flows_of

PREFIXES = ReplicationPolicy()
IDENTITY = ReplicationPolicy(is_identity=True)


def test_a_remote_topic_is_named_after_its_source() -> None:
    assert PREFIXES.remote_topic("A", "orders") == "A.orders"
    assert IDENTITY.remote_topic("A", "orders") == "orders"
    assert (PREFIXES.topic_source("A.orders"), PREFIXES.upstream_topic("A.orders")) == (
        "A",
        "orders",
    )
    assert (PREFIXES.topic_source("orders"), PREFIXES.upstream_topic("orders")) == (None, None)


def test_a_topic_does_not_go_back_where_it_came_from() -> None:
    assert PREFIXES.is_cycle("B.orders", "B")
    assert not PREFIXES.is_cycle("B.orders", "C")
    assert PREFIXES.is_cycle("C.B.orders", "B"), "over another cluster"
    assert not PREFIXES.is_cycle("web.clicks", "B"), "a dot in a name means nothing by itself"


def test_names_that_brokers_and_mirrors_use_are_internal() -> None:
    assert is_internal("mirror-offsets.A.internal")
    assert is_internal("__consumer_offsets")
    assert not is_internal("internal.orders")


@given(
    st.permutations(["A", "B", "C"]),
    st.lists(st.sampled_from(["A", "B", "C"]), max_size=4),
    st.sampled_from(["orders", "web.clicks"]),
)
def test_with_prefixes_every_way_ends(order: list[str], more: list[str], topic: str) -> None:
    """Active-active between three clusters: whatever the way, a topic never comes to a cluster
    twice.
    """
    flows = flows_of(
        *(f"{one}->{two}.enabled = true" for one in "ABC" for two in "ABC" if one != two),
        aliases="A, B, C",
    )
    by_pair = {(flow.source.alias, flow.target.alias): flow for flow in flows}
    route = [*order, *more]
    visited, name = {route[0]}, topic
    for one, two in itertools.pairwise(route):
        if one == two or not by_pair[one, two].selects_topic(name):
            return
        assert two not in visited
        visited.add(two)
        name = by_pair[one, two].remote_topic(name)


def test_with_prefixes_nothing_comes_back() -> None:
    flows = flows_of("A->B.enabled = true", "B->A.enabled = true")
    assert [loop_of(flows, flow, "orders") for flow in flows] == [(), ()]


def test_with_the_identity_policy_a_circle_is_found_where_it_closes() -> None:
    flows = flows_of(
        "replication.policy.class = IdentityReplicationPolicy",
        "A->B.enabled = true",
        "A->B.topics = orders.*",
        "B->C.enabled = true",
        "B->C.topics = .*s",
        "C->A.enabled = true",
        "C->A.topics = orders-late.*",
        aliases="A, B, C",
    )
    assert loop_of(flows, flows[0], "orders-lates") == ("A->B", "B->C", "C->A")
    assert loop_of(flows, flows[2], "orders-lates") == ("C->A", "A->B", "B->C")
    assert loop_of(flows, flows[0], "orders-early") == ()
