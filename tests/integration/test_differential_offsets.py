"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and FindCoordinator beside Apache Kafka."""

from itertools import product

import pytest

from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from log_service.records.compression import Codec
from tests.integration.differential import Duel
from tests.integration.record_requests import (
    THEN,
    batch,
    fetch_request,
    offsets_request,
    produce_request,
    ready_topic,
    wanted,
)

SPECIAL = (-1, -2, -3, -4, -5, -6, -7, -100, -(2**63))


def delete_before(topic: str, *offsets: int, partition: int = 0) -> DeleteRecordsRequest:
    partitions = [
        DeleteRecordsPartition(partition_index=partition, offset=offset) for offset in offsets
    ]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=10_000
    )


# ListOffsets


@pytest.mark.parametrize("version", range(1, 12))
def test_special_timestamps(duel: Duel, version: int) -> None:
    empty, topic = f"empty-{version}", f"special-{version}"
    ready_topic(duel, empty)
    ready_topic(duel, topic)
    duel.on_both(produce_request(topic, batch(THEN + 3, THEN + 9, THEN + 9, THEN + 1)), 12)
    duel.on_both(produce_request(topic, batch(THEN + 9, THEN + 2)), 12)
    for name, isolation_level in product((empty, topic), (0, 1) if version >= 2 else (0,)):
        for request in offsets_request(name, *SPECIAL, isolation_level=isolation_level):
            duel.compare(request, version)
    duel.on_both(delete_before(topic, 3), 2)
    for request in offsets_request(topic, *SPECIAL):
        duel.compare(request, version)
    duel.on_both(delete_before(topic, -1), 2)
    for request in offsets_request(topic, *SPECIAL, THEN, THEN + 9):
        duel.compare(request, version)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_times_of_every_kind(duel: Duel, codec: Codec) -> None:
    """Equal ones, ones that go back, gaps, in one batch and over batches."""
    topic = f"times-{codec.name.lower()}"
    ready_topic(duel, topic)
    batches = ((10, 10, 20), (20, 5, 30), (1, 2, 3), (30, 30), (40, 25, 40), (7,), (-1, -1))
    for times in batches:
        sent = batch(*(THEN + time if time >= 0 else -1 for time in times), codec=codec)
        duel.on_both(produce_request(topic, sent), 12)
    asked = [
        THEN + time for time in (-100, 0, 1, 3, 4, 5, 6, 10, 11, 20, 21, 25, 30, 31, 39, 40, 41)
    ]
    for request in offsets_request(topic, *asked, 0, 1, 2**62, -3):
        duel.compare(request, 7)
    for start in (1, 5, 9, 12):
        duel.on_both(delete_before(topic, start), 2)
        for request in offsets_request(topic, *asked, 0, -3):
            duel.compare(request, 7)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_times_over_segments(duel: Duel, codec: Codec) -> None:
    topic = f"segmented-{codec.name.lower()}"
    ready_topic(duel, topic, segment_bytes="1048576", index_interval_bytes="100")
    clock = [(number * 7) % 23 for number in range(24)]
    noise = bytes(range(256)) * 800
    for time in clock:
        sent = batch(
            THEN + time, THEN + time + 3, value=noise if codec is Codec.NONE else b"x", codec=codec
        )
        duel.on_both(produce_request(topic, sent), 12)
    for request in offsets_request(topic, *range(THEN - 1, THEN + 30), -3):
        duel.compare(request, 7)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_without_a_time(duel: Duel, codec: Codec) -> None:
    topic = f"timeless-{codec.name.lower()}"
    ready_topic(duel, topic)
    for times in ((-1, -1), (-1,), (THEN, THEN + 5)):
        duel.on_both(produce_request(topic, batch(*times, codec=codec)), 12)
        for request in offsets_request(topic, -3, 0, THEN):
            duel.compare(request, 7)


def test_topics_with_their_own_time(duel: Duel) -> None:
    """Every record of a batch has its time: the first is the answer."""
    ready_topic(duel, "own-time", message_timestamp_type="LogAppendTime")
    duel.on_both(produce_request("own-time", batch(THEN, THEN, THEN)), 12)
    for request in offsets_request("own-time", -3, THEN):
        duel.compare(request, 7, ignore={"timestamp"})
    for request in offsets_request("own-time", 2**62):
        duel.compare(request, 7)


@pytest.mark.parametrize("version", [1, 4, 7, 11])
def test_what_cannot_be_answered(duel: Duel, version: int) -> None:
    topic = f"cannot-{version}"
    ready_topic(duel, topic)
    for request in offsets_request("nowhere", -1, THEN):
        duel.compare(request, version)
    twice = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in (-1, -2)]
    missing = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, -1)]
    for partitions in (twice, missing, twice + missing[1:]):
        topics = [ListOffsetsTopic(name=topic, partitions=partitions)]
        duel.compare(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics), version)
    again = [ListOffsetsTopic(name=topic, partitions=missing[:1])] * 2
    duel.compare(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=again), version)
    duel.compare(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[]), version)
    if version >= 4:
        for epoch, time in product((0, 1, 99, -2), (-1, -2, -3, THEN)):
            for request in offsets_request(topic, time, leader_epoch=epoch):
                duel.compare(request, version)


def test_topics_without_a_name_or_without_partitions(duel: Duel) -> None:
    ready_topic(duel, "nothing-of")
    for version in (1, 5, 11):
        for request in offsets_request("", -1, -2, THEN):
            duel.compare(request, version)
    nameless = OffsetForLeaderTopic(
        topic="", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    )
    for version in (2, 4):
        duel.compare(OffsetForLeaderEpochRequest(replica_id=-1, topics=[nameless]), version)
    for version in (0, 2):
        duel.compare(delete_before("", 0), version)
        for name in ("nothing-of", "nowhere", ""):
            duel.compare(delete_before(name), version)


@pytest.mark.parametrize("replica_id", [-2, 0, 1, 77])
def test_replicas_that_ask(duel: Duel, replica_id: int) -> None:
    topic = f"asked-by{replica_id}"
    ready_topic(duel, topic)
    duel.on_both(produce_request(topic, batch()), 12)
    for request in offsets_request(topic, -1, -2, THEN):
        request.replica_id = replica_id
        duel.compare(request, 7)


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", [2, 3, 4])
def test_ends_of_leader_epochs(duel: Duel, version: int) -> None:
    topic = f"ends-{version}"
    ready_topic(duel, topic, 2)
    duel.on_both(produce_request(topic, batch(THEN, THEN)), 12)
    for epoch, current in product((0, 1, 5, -1, -2, 2**31 - 1), (-1, 0, 1, -2)):
        for index in (0, 1, 2):
            partition = OffsetForLeaderPartition(
                partition=index, current_leader_epoch=current, leader_epoch=epoch
            )
            request = OffsetForLeaderEpochRequest(
                replica_id=-2, topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])]
            )
            duel.compare(request, version)
    partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    nowhere = [OffsetForLeaderTopic(topic="nowhere", partitions=[partition])]
    duel.compare(OffsetForLeaderEpochRequest(replica_id=-2, topics=nowhere), version)
    for replica_id in (-1, 0, 77):
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[partition])]
        duel.compare(OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics), version)
    duel.on_both(delete_before(topic, -1), 2)
    topics = [OffsetForLeaderTopic(topic=topic, partitions=[partition])]
    duel.compare(OffsetForLeaderEpochRequest(replica_id=-2, topics=topics), version)


# DeleteRecords


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_are_deleted_up_to_an_offset(duel: Duel, version: int) -> None:
    topic = f"deleted-{version}"
    ready_topic(duel, topic)
    duel.on_both(produce_request(topic, batch(*[THEN] * 10)), 12)
    for offset in (0, 3, 2, 3, 11, -2, -1, 10, 4):
        duel.compare(delete_before(topic, offset), version)
        for request in offsets_request(topic, -2):
            duel.compare(request, 7)
        duel.compare(fetch_request(topic, wanted(0, 3)), 11)
    duel.compare(delete_before(topic, 1, partition=3), version)
    duel.compare(delete_before("nowhere", 1), version)
    duel.compare(delete_before(topic, 1, 2), version)
    duel.compare(DeleteRecordsRequest(topics=[], timeout_ms=1_000), version)


def test_records_of_compacted_topics_are_deleted_by_the_cleaner_alone(duel: Duel) -> None:
    for policy in ("compact", "compact,delete", "delete"):
        topic = policy.replace(",", "-and-")
        ready_topic(duel, topic, cleanup_policy=policy)
        duel.on_both(produce_request(topic, batch(THEN, THEN)), 12)
        for offset in (1, -1, 99, 0):
            duel.compare(delete_before(topic, offset), 2)


# FindCoordinator


def coordinator_request(version: int, *keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    return FindCoordinatorRequest(key=keys[0], key_type=key_type)


@pytest.mark.parametrize("version", range(7))
def test_coordinators_of_groups(duel: Duel, version: int) -> None:
    request = coordinator_request(version, "one", "two", "one", "")
    duel.until(
        request,
        version,
        lambda answer: (
            answer.error_code == 0 and not any(one.error_code for one in answer.coordinators)
        ),
    )
    duel.compare(request, version)
    duel.compare(coordinator_request(version, "", "a" * 300), version)
    if version >= 4:
        duel.compare(FindCoordinatorRequest(key_type=0, coordinator_keys=[]), version)
    for key_type in (3, -1, 99) if version >= 1 else ():
        duel.compare(coordinator_request(version, "one", key_type=key_type), version)
