"""A plan changes topics, configs and offsets of groups in the target."""

from typing import Any

from log_service.client.admin.values import (
    ConfigEntry,
    GroupDescription,
    GroupListing,
    MemberDescription,
    NewTopic,
    OffsetAndMetadata,
    PartitionOffsets,
    TopicListing,
)
from log_service.client.connections.cluster_view import Node
from log_service.common.types import NO_TOPIC_ID, TopicPartition
from log_service.mirror.group_plan import (
    behind_marker,
    due_commits,
    may_commit,
    partitions_read_up,
    selected_groups,
    translated_offsets,
)
from log_service.mirror.progress import Lineage, Progress, Run
from log_service.mirror.topic_plan import mirrored_topics, missing_topics, own_configs, plan_topics
from tests.unit.mirror.flows import flows_of

ORDERS = TopicPartition("orders", 0)


def listing(name: str, partitions: int) -> TopicListing:
    return TopicListing(
        name=name, topic_id=NO_TOPIC_ID, is_internal=False, partition_count=partitions
    )


def entry(
    name: str, value: str | None, source: str = "DYNAMIC_TOPIC_CONFIG", **more: Any
) -> ConfigEntry:
    given: dict[str, Any] = {
        "is_read_only": False,
        "is_sensitive": False,
        "documentation": None,
        "synonyms": (),
        **more,
    }
    return ConfigEntry(name=name, value=value, source=source, **given)


def test_a_topic_is_created_with_the_partitions_and_configs_of_its_source() -> None:
    (flow,) = flows_of("A->B.enabled = true", "replication.factor = 3")
    changes = plan_topics(
        flow, {"orders": listing("orders", 6)}, {}, {"orders": {"retention.ms": "5"}}, {}
    )
    assert changes.create == (
        NewTopic(
            name="A.orders", partition_count=6, replication_factor=3, configs={"retention.ms": "5"}
        ),
    )
    assert (changes.grow, changes.alter) == ({}, {})


def test_a_topic_gets_more_partitions_and_never_fewer() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    source = {"orders": listing("orders", 6), "clicks": listing("clicks", 1)}
    target = {
        "A.orders": listing("A.orders", 4),
        "A.clicks": listing("A.clicks", 3),
        "orders": listing("orders", 1),
    }
    changes = plan_topics(flow, source, target, {}, {})
    assert (changes.create, changes.grow) == ((), {"A.orders": 6})


def test_configs_are_set_and_reset() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    source, target = {"orders": listing("orders", 1)}, {"A.orders": listing("A.orders", 1)}
    wanted = {"orders": {"retention.ms": "5", "cleanup.policy": "compact"}}
    there = {"A.orders": {"retention.ms": "7", "cleanup.policy": "compact", "segment.ms": "9"}}
    assert plan_topics(flow, source, target, wanted, there).alter == {
        "A.orders": {"retention.ms": "5", "segment.ms": None}
    }
    (left,) = flows_of("A->B.enabled = true", "sync.topic.configs.enabled = false")
    assert plan_topics(left, source, target, wanted, there).alter == {}


def test_configs_that_cannot_be_told_change_nothing() -> None:
    """A user who may not describe the configs of a topic is not taken for one who has reset them."""
    (flow,) = flows_of("A->B.enabled = true")
    source, target = (
        {"orders": listing("orders", 1), "new": listing("new", 1)},
        {"A.orders": listing("A.orders", 1)},
    )
    changes = plan_topics(flow, source, target, {}, {"A.orders": {"retention.ms": "7"}})
    assert (changes.create, changes.alter) == ((), {})
    assert plan_topics(flow, source, target, {"orders": {"retention.ms": "5"}}, {}).alter == {}, (
        "nor of the target's"
    )


def test_configs_of_one_cluster_stay_its_own() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    entries = [
        entry("retention.ms", "5"),
        entry("min.insync.replicas", "2"),
        entry("segment.bytes", "9", source="DEFAULT_CONFIG"),
        entry("flush.ms", None, is_sensitive=True),
    ]
    assert own_configs(flow, {each.name: each for each in entries}) == {"retention.ms": "5"}


def test_a_topic_that_would_go_in_a_circle_is_refused_with_a_sentence() -> None:
    """Names that only a pattern tells apart: the file cannot know them."""
    flows = flows_of(
        "replication.policy.class = Identity",
        "A->B.enabled = true",
        "A->B.topics = orders-.*",
        "B->A.enabled = true",
        "B->A.topics = .*-late",
    )
    mirrored, refused = mirrored_topics(flows, flows[0], ["orders-late", "orders-early", "clicks"])
    assert mirrored == ["orders-early"]
    assert refused == {
        "orders-late": "the topic orders-late is not mirrored: A->B and B->A would carry it round in a circle"
    }


def test_a_name_that_no_topic_has_is_missing_and_a_pattern_never_is() -> None:
    (flow,) = flows_of("A->B.enabled = true", "topics = orders, invoices.*, pay-ments, a.b")
    assert missing_topics(flow, ["orders", "a.b", "other"]) == ["pay-ments"]
    assert missing_topics(flow, []) == ["orders", "pay-ments", "a.b"]


def test_offsets_of_a_project_s_tables_stay_where_they_are() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    assert [
        group
        for group in ("tidelog.clean_orders", "tidelog-topic.alerts", "tidelog", "billing")
        if flow.selects_group(group)
    ] == [
        "tidelog",
        "billing",
    ]


def test_a_topic_that_another_source_may_have_is_refused_with_a_sentence() -> None:
    lines = (
        "A->C.enabled = true",
        "B->C.enabled = true",
        "A->C.topics = a.*, both.*",
        "B->C.topics = .*both, b[0-9]",
    )
    first, second = flows_of(
        *lines, "replication.policy.class = IdentityReplicationPolicy", aliases="A, B, C"
    )
    mirrored, refused = mirrored_topics([first, second], first, ["a1", "both1", "both2both"])
    assert mirrored == ["a1", "both1"]
    assert (
        refused["both2both"]
        == "the topic both2both is not mirrored: B->C may write records of another source into the same one"
    )
    named = flows_of(*lines, aliases="A, B, C")
    assert mirrored_topics(named, named[0], ["both2both"]) == (["both2both"], {})


def test_offsets_of_consumers_are_carried_over_and_of_no_others() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    groups = [
        GroupListing(group_id=name, protocol_type=protocol, state="", group_type=kind)
        for name, protocol, kind in [
            ("billing", "consumer", "classic"),
            ("modern", "consumer", "consumer"),
            ("bare", "", ""),
            ("queue", "share", "share"),
            ("connect-sink", "consumer", "classic"),
            ("workers", "connect", "classic"),
        ]
    ]
    assert selected_groups(flow, groups) == ["billing", "modern", "bare"]


def test_a_group_goes_forward_and_never_back() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    progress = Progress(
        lineage=Lineage(source_topic_id="", target_topic_id=""),
        position=30,
        runs=(Run(10, 100, 20),),
    )
    offsets = {
        ORDERS: OffsetAndMetadata(offset=15, metadata="m"),
        TopicPartition("other", 0): OffsetAndMetadata(offset=1),
    }
    translated = translated_offsets(flow, offsets, {ORDERS: progress})
    remote = TopicPartition("A.orders", 0)
    assert translated == {remote: OffsetAndMetadata(offset=105, metadata="m")}
    assert due_commits(translated, {}) == translated
    assert due_commits(translated, {remote: OffsetAndMetadata(offset=104)}) == translated
    assert due_commits(translated, {remote: OffsetAndMetadata(offset=105)}) == {}
    assert (
        translated_offsets(flow, {ORDERS: OffsetAndMetadata(offset=9)}, {ORDERS: progress}) == {}
    ), "nobody can tell"


def ends(high_watermark: int, last_stable_offset: int | None = None) -> PartitionOffsets:
    stable = high_watermark if last_stable_offset is None else last_stable_offset
    return PartitionOffsets(
        topic_id=NO_TOPIC_ID,
        log_start_offset=0,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        leader_epoch=0,
    )


def test_a_group_that_has_read_everything_goes_behind_the_marker_and_only_then() -> None:
    (flow,) = flows_of("A->B.enabled = true")
    progress = Progress(
        lineage=Lineage(source_topic_id="", target_topic_id="T"),
        position=32,
        runs=(Run(10, 100, 20),),
    )
    remote = TopicPartition("A.orders", 0)
    assert (
        partitions_read_up(flow, {ORDERS: OffsetAndMetadata(offset=29)}, {ORDERS: progress}) == {}
    )
    assert partitions_read_up(flow, {ORDERS: OffsetAndMetadata(offset=30)}, {ORDERS: progress}) == {
        remote: "T"
    }
    assert partitions_read_up(flow, {ORDERS: OffsetAndMetadata(offset=32)}, {ORDERS: progress}) == {
        remote: "T"
    }, "behind markers here, too"
    at = OffsetAndMetadata(offset=120, metadata="m")
    assert behind_marker(at, ends(121)) == OffsetAndMetadata(offset=121, metadata="m")
    assert behind_marker(at, ends(120)) == at, "the marker is not there yet"
    assert behind_marker(at, ends(121, last_stable_offset=100)) == at, (
        "it is not the marker's offset: the transaction is open"
    )
    assert behind_marker(at, ends(122)) == at, "somebody's record may lie between"


def test_a_group_that_reads_in_the_target_is_left_alone() -> None:
    member = MemberDescription(
        member_id="m", group_instance_id=None, client_id="c", client_host="h", assignment=()
    )

    def group(state: str, *members: MemberDescription) -> GroupDescription:
        node = Node(node_id=1, host="h", port=1)
        return GroupDescription(
            group_id="g",
            state=state,
            protocol_type="consumer",
            assignor="",
            coordinator=node,
            members=members,
        )

    assert may_commit(group("Empty"))
    assert may_commit(group("Dead"))
    assert not may_commit(group("Stable", member))
    assert not may_commit(group("PreparingRebalance"))
    assert not may_commit(group("Empty", member))
