"""Partition leaders and the group coordinator serve transactions as Apache Kafka's.

The tests have batches, markers, offsets, and the records of each reader.

The requests of producers and of transaction coordinators are sent raw, with producer ids and epochs
of the test's own, so that neither side needs a coordinator: nothing is verified
(``transaction.partition.verification.enable=false``).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.java_hashing import java_abs, java_hash
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from log_service.records.batch import iterate_headers
from log_service.records.control import iterate_control_records
from tests.integration.differential import Cluster, Duel, normalise
from tests.integration.record_requests import (
    THEN,
    batch,
    fetch_request,
    offsets_request,
    produce_request,
    ready_topic,
    wanted,
)

PROPERTIES = {
    "transaction.partition.verification.enable": "false",
    "group.min.session.timeout.ms": "500",
}
TEXTS = {"error_message", "batch_index_error_message"}
TIMES = {"last_timestamp"}
COMMITTED = 1
LAST_EPOCH = 2**15 - 1
VERIFIED = 11
ONE_SEGMENT_MS = str(2**43)
"""Markers have the time of their append, years after the batches: they stay in one segment all the
same.
"""


def transactional(producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0) -> bytes:
    return batch(
        *[THEN] * count,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def plain(producer_id: int, sequence: int, *, epoch: int = 0) -> bytes:
    return batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def in_transaction(topic: str, *batches: bytes, **more: Any) -> Any:
    return replace(produce_request(topic, *batches, **more), transactional_id="writer")


def marker(
    producer_id: int,
    *topics: str,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator: int = 0,
    version: int = 0,
    partitions: int = 1,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=is_commit,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=list(range(partitions)))
            for topic in topics
        ],
        coordinator_epoch=coordinator,
        transaction_version=version,
    )


def markers(*each: WritableTxnMarker) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=list(each))


class Story:
    """One topic's transactions on both sides.

    Every response is compared, and after each step those to readers and tools.
    """

    def __init__(self, duel: Duel, topic: str, partitions: int = 1, **configs: str) -> None:
        self.duel = duel
        self.topic = topic
        ready_topic(duel, topic, partitions, segment_ms=ONE_SEGMENT_MS, **configs)

    def write(self, content: bytes, version: int = VERIFIED, **more: Any) -> int:
        """Produce in a transaction; returns the error of tidelog."""
        response = self.duel.compare(
            in_transaction(self.topic, content, **more), version, ignore=TEXTS
        )
        self.look()
        return int(response.responses[0].partition_responses[0].error_code)

    def write_plainly(self, content: bytes) -> int:
        response = self.duel.compare(produce_request(self.topic, content), VERIFIED, ignore=TEXTS)
        self.look()
        return int(response.responses[0].partition_responses[0].error_code)

    def end(self, producer_id: int, *, api_version: int = 2, **more: Any) -> int:
        """Send a marker; returns the error of tidelog."""
        response = self.duel.compare(markers(marker(producer_id, self.topic, **more)), api_version)
        self.look()
        return int(response.markers[0].topics[0].partitions[0].error_code)

    def look(self) -> None:
        for isolation in (0, COMMITTED):
            for offset in (0, 2):
                self.duel.compare_told(partial(self._fetched, offset, isolation))
        for request in offsets_request(self.topic, -1, -2, isolation_level=COMMITTED):
            self.duel.compare(request, 7)
        producers = DescribeProducersRequest(
            topics=[TopicRequest(name=self.topic, partition_indexes=[0])]
        )
        self.duel.compare(producers, 0, ignore=TIMES)

    def _fetched(self, offset: int, isolation: int, cluster: Cluster) -> Any:
        response = cluster.ask(
            fetch_request(self.topic, wanted(0, offset), isolation_level=isolation), 11
        )
        told = response.responses[0].partitions[0]
        content = bytes(told.records or b"")
        if told.aborted_transactions:  # Kafka also tells those that begin behind what it returns: it looks no closer than its index
            end = max((header.next_offset for _, header in iterate_headers(content)), default=0)
            told.aborted_transactions = [
                each for each in told.aborted_transactions if each.first_offset < end
            ]
        return [normalise(response, ignore={"records"}), list(shown(content))]


def shown(content: bytes) -> Iterator[dict[str, Any]]:
    """Show batches without the times at which markers were written."""
    for position, header in iterate_headers(content, is_torn_tail_ok=True):
        fields = header._asdict()
        if header.is_control:
            for name in ("base_timestamp", "max_timestamp", "crc"):
                del fields[name]
            fields["markers"] = [
                [int(record.type or 0), record.value.hex()]
                for record in iterate_control_records(content, position)
            ]
        yield {
            name: int(value) if isinstance(value, int) else value for name, value in fields.items()
        }


# Transactions of one producer


@pytest.mark.parametrize("is_commit", [True, False])
def test_readers_of_committed_records_wait_for_the_marker(duel: Duel, *, is_commit: bool) -> None:
    story = Story(duel, f"one-{is_commit}")
    assert story.write(transactional(7, 0, 2)) == 0
    assert story.write(transactional(7, 2)) == 0
    assert story.end(7, is_commit=is_commit) == 0
    assert story.write(transactional(7, 3)) == 0, "version 1 goes on with its sequence"
    assert story.end(7, is_commit=not is_commit, api_version=1) == 0


def test_transactions_that_lie_in_between_each_other(duel: Duel) -> None:
    story = Story(duel, "between")
    for step in range(3):
        story.write(transactional(1, 2 * step, 2))
        story.write(transactional(2, step))
        story.write_plainly(batch())
        story.end(1 if step % 2 else 2, is_commit=False)
        story.write(transactional(3, step))
        story.end(2 if step % 2 else 1, is_commit=step == 1)
        story.end(3, is_commit=False)


def test_the_marker_of_version_2_begins_an_epoch(duel: Duel) -> None:
    story = Story(duel, "next-epoch")
    assert story.write(transactional(7, 0, 2)) == 0
    assert story.end(7, epoch=1, version=2) == 0
    assert story.write(transactional(7, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert story.write(transactional(7, 2, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert story.write(transactional(7, 0, epoch=1)) == 0
    assert story.end(7, epoch=1, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH, (
        "that transaction is open, and its marker has epoch 2"
    )
    assert story.end(7, epoch=2, version=2, is_commit=False) == 0
    assert story.end(7, epoch=2, version=2, is_commit=False) == 0, "the same marker again"
    assert story.end(7, epoch=1, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert story.end(7, epoch=1, version=1, api_version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert story.end(7, epoch=2, version=1) == 0


def test_the_last_epoch_is_taken_again(duel: Duel) -> None:
    story = Story(duel, "last-epoch")
    story.write(transactional(7, 0, epoch=LAST_EPOCH - 1))
    assert story.end(7, epoch=LAST_EPOCH, version=2) == 0
    assert story.write(transactional(7, 0, epoch=LAST_EPOCH)) == 0
    assert story.end(7, epoch=LAST_EPOCH, version=2) == 0


def test_a_marker_of_an_older_coordinator_is_fenced(duel: Duel) -> None:
    story = Story(duel, "coordinators")
    story.write(transactional(7, 0))
    assert story.end(7, coordinator=5) == 0
    story.write(transactional(7, 1))
    assert story.end(7, coordinator=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (
        story.end(7, coordinator=4, epoch=3, is_commit=False)
        == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )
    assert story.end(7, coordinator=5, epoch=3, is_commit=False) == 0


def test_a_marker_where_nothing_is_open_is_written(duel: Duel) -> None:
    story = Story(duel, "nothing-open")
    assert story.end(9, epoch=4, is_commit=False) == 0
    assert story.end(9, epoch=4, version=2) == 0
    assert story.write(transactional(9, 5, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert story.write(transactional(9, 0, epoch=4)) == 0
    assert story.end(9, epoch=4, is_commit=False) == 0


# Batches


def test_sequences_and_epochs_of_transactional_batches(duel: Duel) -> None:
    story = Story(duel, "sequences")
    assert story.write(transactional(7, 5)) == 0, "an unknown producer begins anywhere"
    assert story.write(transactional(7, 7)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert story.write(transactional(7, 6)) == 0
    assert story.write(transactional(7, 5)) == 0, "a repetition"
    assert story.write(transactional(7, 0, epoch=1)) == 0, (
        "the open transaction goes on in the next epoch"
    )
    assert story.write(transactional(7, 6)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert story.write_plainly(plain(7, 1, epoch=1)) == ErrorCode.INVALID_TXN_STATE
    assert story.write_plainly(plain(7, 2, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert story.write_plainly(plain(7, 0, epoch=2)) == ErrorCode.INVALID_TXN_STATE
    assert story.end(7, epoch=1) == 0
    assert story.write_plainly(plain(7, 1, epoch=1)) == 0


def test_a_repetition_is_known_after_its_transaction_has_ended(duel: Duel) -> None:
    story = Story(duel, "repetition")
    story.write(transactional(7, 0, 3))
    story.end(7)
    assert story.write(transactional(7, 0, 3)) == 0
    story.end(7, epoch=1, version=2)
    assert story.write(transactional(7, 0, 3)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [3, 8, 9, 11])
def test_batches_without_a_transactional_id_and_of_two_producers(duel: Duel, version: int) -> None:
    ready_topic(duel, f"ids-{version}", 2)
    topic = f"ids-{version}"
    duel.compare(produce_request(topic, transactional(7, 0)), version, ignore=TEXTS)
    duel.compare(produce_request(topic, batch(), transactional(7, 0)), version, ignore=TEXTS)
    duel.compare(
        in_transaction(topic, transactional(7, 0), transactional(8, 0)), version, ignore=TEXTS
    )
    duel.compare(
        in_transaction(topic, transactional(7, 0), transactional(7, 0, epoch=1)),
        version,
        ignore=TEXTS,
    )
    duel.compare(
        in_transaction(topic, transactional(7, 0), batch(), transactional(7, 0)),
        version,
        ignore=TEXTS,
    )
    duel.compare(in_transaction(topic, plain(6, 0), transactional(7, 1)), version, ignore=TEXTS)
    duel.compare(in_transaction(topic, batch()), version, ignore=TEXTS)
    duel.compare(in_transaction("nowhere", transactional(7, 0)), version, ignore=TEXTS)
    duel.compare(markers(marker(7, topic, "nowhere", partitions=2)), 2)
    duel.compare(
        fetch_request(topic, wanted(0), wanted(1), isolation_level=COMMITTED),
        11,
        ignore={"records"},
    )


# Markers


@pytest.mark.parametrize("version", [1, 2])
def test_markers_for_what_is_not_there(duel: Duel, version: int) -> None:
    topic = f"partly-{version}"
    ready_topic(duel, topic)
    duel.compare(markers(), version)
    duel.compare(markers(marker(7)), version)
    duel.compare(markers(marker(7, "nowhere")), version)
    duel.compare(markers(marker(7, topic, "nowhere", partitions=3)), version)
    # Kafka never answers where the first one is there.
    duel.compare(markers(marker(8, "nowhere"), marker(9), marker(7, topic)), version)
    duel.compare(
        markers(marker(7, topic, coordinator=3), marker(7, topic, "nowhere", coordinator=2)),
        version,
    )


def test_markers_get_the_time_of_the_append_where_the_topic_says_so(duel: Duel) -> None:
    story = Story(duel, "append-time", message_timestamp_type="LogAppendTime")
    duel.compare(
        in_transaction("append-time", transactional(7, 0)),
        11,
        ignore={*TEXTS, "log_append_time_ms"},
    )
    duel.compare(markers(marker(7, "append-time", is_commit=False)), 2)

    def attributes(cluster: Cluster) -> Any:
        content = bytes(
            cluster.ask(fetch_request("append-time"), 11).responses[0].partitions[0].records
        )
        return [header.attributes for _, header in iterate_headers(content)]

    duel.compare_told(attributes)
    assert story.topic == "append-time"


def test_the_log_may_start_within_an_open_transaction(duel: Duel) -> None:
    story = Story(duel, "cut")
    story.write(transactional(7, 0, 2))
    story.write_plainly(batch())
    story.write_plainly(batch())
    story.write(transactional(8, 0, 2))
    cut = DeleteRecordsTopic(
        name="cut", partitions=[DeleteRecordsPartition(partition_index=0, offset=3)]
    )
    duel.compare(DeleteRecordsRequest(topics=[cut], timeout_ms=10_000), 2)
    story.look()
    story.end(8, is_commit=False)
    story.end(7, is_commit=False)


# Offsets in transactions


class Offsets:
    """A group's positions on both sides."""

    def __init__(self, duel: Duel, group: str) -> None:
        self.duel = duel
        self.group = group
        self.topic = f"of-{group}"
        ready_topic(duel, self.topic, 2)
        duel.until(
            FindCoordinatorRequest(key_type=0, coordinator_keys=[group]),
            4,
            lambda told: not told.coordinators[0].error_code,
        )
        duel.until(self.fetch_request(), 8, lambda told: not told.groups[0].error_code)

    def fetch_request(self, *, is_stable: bool = True, is_all: bool = False) -> OffsetFetchRequest:
        topics = (
            None
            if is_all
            else [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0, 1])]
        )
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group, topics=topics)],
            require_stable=is_stable,
        )

    def look(self) -> None:
        for is_stable in (True, False):
            for is_all in (True, False):
                self.duel.compare(self.fetch_request(is_stable=is_stable, is_all=is_all), 8)

    def commit_request(
        self, producer_id: int, offset: int, *partitions: int, epoch: int = 0, **more: Any
    ) -> TxnOffsetCommitRequest:
        told = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index in partitions or (0,)
        ]
        return TxnOffsetCommitRequest(
            transactional_id="writer",
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=told)],
            **more,
        )

    def commit(
        self, producer_id: int, offset: int, *partitions: int, version: int = 3, **more: Any
    ) -> None:
        self.duel.compare(self.commit_request(producer_id, offset, *partitions, **more), version)
        self.look()

    def commit_plainly(self, offset: int, *partitions: int) -> None:
        told = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index in partitions or (0,)
        ]
        topics = [OffsetCommitRequestTopic(name=self.topic, partitions=told)]
        self.duel.compare(OffsetCommitRequest(group_id=self.group, topics=topics), 8)
        self.look()

    def end(self, producer_id: int, *, is_commit: bool, epoch: int = 0, version: int = 0) -> None:
        def request(cluster: Cluster) -> WriteTxnMarkersRequest:
            named = MetadataRequest(
                topics=[MetadataRequestTopic(name=GROUP_METADATA_TOPIC)],
                allow_auto_topic_creation=False,
            )
            count = len(cluster.ask(named, 9).topics[0].partitions)
            told = marker(
                producer_id, GROUP_METADATA_TOPIC, epoch=epoch, is_commit=is_commit, version=version
            )
            told.topics[0].partition_indexes = [java_abs(java_hash(self.group)) % count]
            return markers(told)

        def results(cluster: Cluster) -> list[int]:
            topics = cluster.ask(request, 2).markers[0].topics
            return [partition.error_code for topic in topics for partition in topic.partitions]

        self.duel.compare_told(results)
        self.look()


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1), (-9, 1)])
def test_markers_of_no_producer_and_of_an_odd_one(duel: Duel, producer_id: int, epoch: int) -> None:
    topic = f"odd{producer_id}{epoch}"
    duel.create_topic(topic, 1)
    duel.compare(markers(marker(producer_id, topic, epoch=epoch, is_commit=False)), 2)


@pytest.mark.parametrize("version", range(5))
def test_positions_count_once_their_transaction_is_committed(duel: Duel, version: int) -> None:
    offsets = Offsets(duel, f"committed-{version}")
    offsets.commit(7, 10, 0, 1, version=version)
    offsets.commit(7, 11, version=version)
    offsets.end(7, is_commit=True)
    offsets.commit(7, 20, 1, version=version)
    offsets.end(7, is_commit=False)


def test_the_position_that_stands_later_in_the_log_counts(duel: Duel) -> None:
    offsets = Offsets(duel, "later")
    offsets.commit(7, 10)
    offsets.commit(8, 20)
    offsets.commit_plainly(30)
    offsets.commit(9, 40)
    offsets.end(8, is_commit=True)
    offsets.end(9, is_commit=True)
    offsets.end(7, is_commit=True)


def test_what_is_deleted_while_it_is_pending_never_counts(duel: Duel) -> None:
    offsets = Offsets(duel, "deleted")
    offsets.commit_plainly(5, 0)
    offsets.commit(7, 10, 0, 1)
    topics = [
        OffsetDeleteRequestTopic(
            name=offsets.topic, partitions=[OffsetDeleteRequestPartition(partition_index=1)]
        )
    ]
    duel.compare(OffsetDeleteRequest(group_id="deleted", topics=topics), 0)
    offsets.look()
    duel.compare(DeleteGroupsRequest(groups_names=["deleted"]), 2)
    offsets.look()
    offsets.end(7, is_commit=True)


def test_who_may_commit_in_a_transaction(duel: Duel) -> None:
    offsets = Offsets(duel, "who")
    offsets.commit(7, 10, generation_id=3, member_id="nobody")
    offsets.commit(7, 10, member_id="nobody")
    offsets.commit(7, 10, generation_id=3, member_id="nobody")
    offsets.commit(7, 10, group_instance_id="static")
    duel.compare(replace(offsets.commit_request(7, 10), group_id=""), 3)
    nowhere = TxnOffsetCommitRequestTopic(
        name="nowhere", partitions=[TxnOffsetCommitRequestPartition(partition_index=0)]
    )
    duel.compare(replace(offsets.commit_request(7, 10), topics=[nowhere]), 3)
    duel.compare(
        replace(
            offsets.commit_request(7, 12, 0, 5),
            topics=[nowhere, *offsets.commit_request(7, 12, 0, 5).topics],
        ),
        3,
    )
    request = offsets.commit_request(7, 13, 0, 1)
    request.topics[0].partitions[0].committed_metadata = "x" * 5_000
    duel.compare(request, 3)
    offsets.look()
    offsets.end(7, is_commit=True)


def test_epochs_of_producers_in_the_log_of_offsets(duel: Duel) -> None:
    offsets = Offsets(duel, "epochs")
    offsets.commit(71, 10, epoch=3)
    offsets.commit(71, 11, epoch=2)
    offsets.end(71, is_commit=True, epoch=2)
    offsets.end(71, is_commit=True, epoch=4, version=2)
    offsets.commit(71, 12, epoch=3)
    offsets.commit(71, 12, epoch=4)
    offsets.end(71, is_commit=False, epoch=4, version=2)
    offsets.end(71, is_commit=False, epoch=5, version=2)
