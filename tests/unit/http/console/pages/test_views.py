"""Views turn values of a cluster into values of pages."""

from dataclasses import replace
from uuid import UUID

import pytest

from log_service.client import AclBinding, ConfigEntry, GroupListing, QuotaEntity
from log_service.client.admin.share_records import QueueInFlight, RecordsInFlight
from log_service.client.connections.cluster_view import PartitionView, TopicView
from log_service.cluster_operations.findings import state_findings
from log_service.cluster_operations.reading import ClusterState
from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import (
    BrokerLayout,
    ClusterLayout,
    LogDirectory,
    PartitionLayout,
)
from log_service.common.types import TopicId, TopicPartition
from log_service.http.console.pages.cluster.view import cluster_page
from log_service.http.console.pages.groups.view import MemberRow, group_list, in_flight
from log_service.http.console.pages.schemas.view import difference, printed
from log_service.http.console.pages.security.view import matrices, quota_rows
from log_service.http.console.pages.topics.view import (
    config_change,
    config_rows,
    duration,
    retention_of,
    topic_list,
)
from log_service.http.rest_proxy.v1.idempotency import keyed_id


def topic(
    name: str, *, isr: tuple[int, ...] = (1, 2), leader: int = 1, internal: bool = False
) -> TopicView:
    partition = PartitionView(
        partition=0, leader=leader, leader_epoch=0, replicas=(1, 2), isr=isr, offline_replicas=()
    )
    return TopicView(
        name=name,
        topic_id=TopicId(UUID(int=1)),
        is_internal=internal,
        partitions=(partition,),
        available=(0,),
    )


def test_the_list_of_topics_is_cut_into_pages() -> None:
    topics = [topic(f"t{number:03d}") for number in range(120)] + [topic("__x", internal=True)]
    found = topic_list(topics, search="", is_internal_included=False, page=3)
    assert [row.name for row in found.rows] == [f"t{number}" for number in range(100, 120)]
    assert (found.page_count, found.topic_count, found.partition_count) == (3, 120, 120)
    assert topic_list(topics, search="T11", is_internal_included=True, page=9).found_count == 10
    assert topic_list([], search="", is_internal_included=True, page=1).rows == ()


def test_a_topic_says_what_it_lacks() -> None:
    (row,) = topic_list(
        [topic("a", isr=(1,), leader=-1)], search="", is_internal_included=False, page=1
    ).rows
    assert (row.offline_count, row.under_replicated_count) == (1, 1)


def config(name: str, value: str | None, source: str, default: str | None = None) -> ConfigEntry:
    own = [(name, value, source)]
    return ConfigEntry(
        name=name,
        value=value,
        source=source,
        is_read_only=False,
        is_sensitive=value is None,
        documentation=None,
        synonyms=(*own, *([(name, default, "DEFAULT_CONFIG")] if default else [])),
    )


CONFIGS = {
    "a": config("a", "1", "DEFAULT_CONFIG", "1"),
    "b": config("b", "2", "DYNAMIC_TOPIC_CONFIG", "7"),
    "c": config("c", None, "STATIC_BROKER_CONFIG"),
}


def test_the_configs_of_the_topic_come_first_with_their_defaults() -> None:
    rows = config_rows(CONFIGS)
    assert [row.name for row in rows] == ["b", "a", "c"]
    assert (rows[0].value, rows[0].default, rows[0].source) == ("2", "7", "this topic")
    assert rows[2].value is None


def test_a_change_of_configs_shows_both_values() -> None:
    first, second, third = config_change(CONFIGS, {"b": None, "a": "5", "z": "1"})
    assert (first.before, first.after) == ("2", "7 (reset)")
    assert (second.before, second.after) == ("1", "5")
    assert third.before == "(unknown key)"


def test_durations_have_a_fitting_unit() -> None:
    assert [duration(each) for each in (5, 1_500, 7_200_000, 604_800_000)] == [
        "5 ms",
        "1.5 s",
        "2 h",
        "7 d",
    ]


@pytest.mark.parametrize(
    ("policy", "shown"),
    [("delete", "7 d"), ("compact,delete", "7 d"), ("compact", None), ("", None), (None, "7 d")],
)
def test_a_retention_is_shown_where_it_deletes_records(
    policy: str | None, shown: str | None
) -> None:
    """A compacted topic has a ``retention.ms``, too, which nothing heeds."""
    entries = {"retention.ms": config("retention.ms", "604800000", "DEFAULT_CONFIG")}
    if policy is not None:
        entries["cleanup.policy"] = config("cleanup.policy", policy, "DYNAMIC_TOPIC_CONFIG")
    assert retention_of(entries) == shown


def test_a_sick_cluster_says_what_to_do() -> None:
    where = TopicPartition("orders", 0)
    layout = ClusterLayout(
        brokers=(
            BrokerLayout(
                broker_id=1, log_dirs=(LogDirectory(path="/a", total_bytes=100, usable_bytes=25),)
            ),
            BrokerLayout(broker_id=2, is_fenced=True),
        ),
        partitions=(
            PartitionLayout(
                where=where, replicas=(1, 2), leader=1, isr=(1,), lags={2: 7}, adding=(2,)
            ),
            PartitionLayout(where=TopicPartition("lost", 0), replicas=(2,), leader=-1, isr=()),
        ),
    )
    quorum = QuorumState(
        leader_id=1, leader_epoch=3, members=(QuorumMember(node_id=1, is_voter=True, lag=0),)
    )
    state = ClusterState(cluster_id="id", layout=layout, quorum=quorum, silent={})
    page = cluster_page(state, state_findings(state))
    assert page.mark == "failed"
    assert page.findings[0].advice
    assert [each.topic for each in page.unwell] == ["lost"]
    assert [each.adding for each in page.moves] == ["2"]
    one, two = page.brokers
    assert (one.leader_count, one.replica_count, one.quorum) == (1, 1, "leader")
    assert (two.state, two.replica_count, two.lag) == ("fenced", 2, 7)
    assert one.directories[0].full_percent == 75


def test_groups_are_found_by_kind_and_id() -> None:
    groups = [
        GroupListing(group_id=f"g{n}", protocol_type="", state="Empty", group_type=kind)
        for n, kind in enumerate(("classic", "share", "share"))
    ]
    assert group_list(groups, search="", kind="share", page=1).found_count == 2
    assert group_list(groups, search="G0", kind="", page=1).rows == (groups[0],)


def test_groups_of_idempotent_requests_are_shown_to_those_who_look_for_them() -> None:
    """Each request has one for a week: they hid all others."""
    groups = [
        GroupListing(group_id=each, protocol_type="", state="Empty", group_type="classic")
        for each in (keyed_id("User:ann", "orders", "17"), "billing")
    ]
    assert group_list(groups, search="", kind="", page=1).rows == (groups[1],)
    assert group_list(groups, search="rest-once", kind="", page=1).rows == (groups[0],)


def acl(operation: str, name: str, **others: str) -> AclBinding:
    return AclBinding(
        resource_type="topic", name=name, principal="User:ann", operation=operation, **others
    )


def test_acls_are_a_matrix_by_principal() -> None:
    bindings = [acl("write", "a"), acl("read", "a"), acl("read", "b", permission="deny")]
    (matrix,) = matrices(bindings)
    assert matrix.operations == ("read", "write")
    assert [[cell.binding is not None for cell in row.cells] for row in matrix.rows] == [
        [True, True],
        [True, False],
    ]
    assert matrices(bindings, search="bob") == ()


def test_quotas_have_the_words_of_their_entity() -> None:
    rows = quota_rows({QuotaEntity(user="ann", client_id=""): {"producer_byte_rate": 5.0}})
    assert rows[0].label == "user ann, default client-id"


def test_a_difference_has_the_lines_of_both() -> None:
    found = difference("a\nb\nc", "a\nx\nc\nd")
    assert found is not None
    assert [(each.kind[0], each.text) for each in found] == [
        ("s", "a"),
        ("r", "b"),
        ("a", "x"),
        ("s", "c"),
        ("a", "d"),
    ]
    assert difference("a\n" * 3_000, "b") is None


def test_a_schema_that_is_no_json_stays_as_it_is() -> None:
    assert printed('{"a":1}', "AVRO") == '{\n  "a": 1\n}'
    assert printed("[" * 100_000, "JSON") == "[" * 100_000
    assert printed("message M {}", "PROTOBUF") == "message M {}"


def test_records_in_flight_name_their_member_and_say_what_is_not_shown() -> None:
    held = RecordsInFlight(first_offset=5, last_offset=7, state="acquired", delivery_count=2,
                           member_id="m1", lock_ms=1_500)  # fmt: skip
    gone = replace(held, first_offset=8, last_offset=8, state="new", member_id="m2", lock_ms=-1)
    queue = QueueInFlight(start_offset=5, record_count=9, ranges=(held, gone))
    member = MemberRow(member_id="m1", instance="", client_id="worker", host="/10.0.0.1",
                       partitions="", partition_count=0)  # fmt: skip
    found = in_flight({TopicPartition("t", 0): queue}, [member])
    assert [(row.holder, row.lock_s) for row in found.rows] == [
        ("worker at /10.0.0.1", 1.5),
        ("m2", None),
    ]
    assert [row.state for row in found.rows] == ["held by a member", "new"]
    assert found.is_cut
    assert not in_flight({}, []).is_cut
