"""Records of consumer groups equal those of Apache Kafka, byte for byte. So do hashes of topics."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch, TopicId
from log_service.coordinator.group.records.codec import GroupRecord, decode, encode
from log_service.coordinator.group.records.consumer import (
    CurrentAssignmentRecord,
    LegacyTopicsRecord,
    RegexRecord,
    ResolvedRegex,
    SubscriptionRecord,
)
from log_service.coordinator.group.topic_hash import group_hash, topic_hash
from log_service.coordinator.group.values.consumer_member import (
    ClassicMetadata,
    CurrentAssignment,
    MemberState,
    Subscription,
)
from log_service.metadata.image import TopicImage
from log_service.metadata.partition import PartitionRegistration
from log_service.records.batch import iterate_headers, iterate_records

ORDERS = UUID("92072c0f-efa0-4ec6-b8be-7589b78bec9c")


def stored_by_kafka() -> Iterator[tuple[bytes, bytes | None]]:
    segments = json.loads((Path(__file__).parent / "written_by_kafka.json").read_text())
    for segment in map(b64decode, segments):
        for position, _ in iterate_headers(segment):
            for record in iterate_records(segment, position):
                assert record.key is not None
                yield bytes(record.key), None if record.value is None else bytes(record.value)


def test_what_kafka_stored_of_a_consumer_group_is_stored_alike() -> None:
    pairs = [pair for pair in stored_by_kafka() if int.from_bytes(pair[0][:2]) in (3, 5, 6, 7, 8)]
    decoded = [decode(*pair) for pair in pairs]
    assert len(pairs) == 9
    assert [encode(record) for record in decoded if record is not None] == pairs


@pytest.mark.parametrize(
    "record",
    [
        SubscriptionRecord(
            group_id="g",
            member_id="m",
            content=Subscription(
                instance_id="one",
                rack_id="r",
                topics=("a", "b"),
                classic=ClassicMetadata(session_timeout_ms=1, protocols=(("range", b"x"),)),
            ),
        ),
        CurrentAssignmentRecord(
            group_id="g",
            member_id="m",
            content=CurrentAssignment(
                epoch=4,
                previous_epoch=3,
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned={ORDERS: {0: 2, 3: 4}},
                pending_revocation={ORDERS: {1: 3}},
            ),
        ),
        RegexRecord(
            group_id="g",
            regex="a.*",
            content=ResolvedRegex(topics=frozenset({"a", "ab"}), version=7, resolved_ms=8),
        ),
        RegexRecord(group_id="g", regex="a.*", content=None),
        LegacyTopicsRecord(group_id="g"),
    ],
)
def test_record_is_read_as_it_was_stored(record: GroupRecord) -> None:
    assert decode(*encode(record)) == record


def test_partitions_without_epochs_were_assigned_in_the_members() -> None:
    key, value = encode(
        CurrentAssignmentRecord(
            group_id="g",
            member_id="m",
            content=CurrentAssignment(epoch=4, assigned={ORDERS: {0: 0}}),
        )
    )
    assert value is not None
    old = value.replace(b"\x01\x00\x05\x02\x00\x00\x00\x00", b"\x00")
    assert old != value
    record = decode(key, old)
    assert isinstance(record, CurrentAssignmentRecord)
    assert record.content is not None
    assert record.content.assigned == {ORDERS: {0: 4}}


def topic(replicas: tuple[int, ...] = (1,)) -> TopicImage:
    nodes = tuple(NodeId(replica) for replica in replicas)
    partition = PartitionRegistration(
        replicas=nodes,
        isr=nodes,
        leader=nodes[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    )
    return TopicImage(name="orders", topic_id=TopicId(ORDERS), partitions={0: partition})


def test_group_hash_is_what_kafka_stored_for_that_topic() -> None:
    assert group_hash({"orders": topic_hash(topic(), {1: None})}) == -3171283241949432328


def test_hash_covers_racks_in_order_and_a_group_without_topics_has_none() -> None:
    racks = {1: "a", 2: "b"}
    assert (
        topic_hash(topic((1, 2)), racks)
        == topic_hash(topic((2, 1)), racks)
        != topic_hash(topic((1,)), racks)
    )
    assert group_hash({}) == 0
