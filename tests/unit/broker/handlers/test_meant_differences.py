"""Tidelog responds differently from Apache Kafka 4.3 here, on purpose.

The reasons stand beside the differential tests.
"""

import struct
from typing import Any

import pytest

from log_service.common.errors import ErrorCode
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
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.records.batch import (
    ATTRIBUTES_POSITION,
    CRC,
    CRC_POSITION,
    HEADER_SIZE,
    MAX_TIMESTAMP_POSITION,
    compute_crc,
)
from log_service.records.compression import Codec
from tests.unit.broker.context import Story, batch, fetch_request, produce_request, tell, values_of

THEN = 1_700_000_000_000
FIRST_OFFSET_DELTA = HEADER_SIZE + 3


def changed(content: bytes, position: int, layout: str, value: int) -> bytes:
    """The batch with something else there, and a checksum that holds."""
    copy = bytearray(content)
    struct.pack_into(layout, copy, position, value)
    CRC.pack_into(copy, CRC_POSITION, compute_crc(copy))
    return bytes(copy)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(
            batch(b"x", producer_id=1, base_sequence=0),
            ErrorCode.INVALID_PRODUCER_EPOCH,
            id="a producer id without an epoch",
        ),
        pytest.param(
            changed(batch(b"x"), ATTRIBUTES_POSITION, ">h", 5),
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            id="codec 5",
        ),
        pytest.param(
            changed(batch(b"x"), FIRST_OFFSET_DELTA, ">B", 2),
            ErrorCode.INVALID_RECORD,
            id="a first offset delta of 1",
        ),
        pytest.param(
            changed(batch(b"x" * 30), ATTRIBUTES_POSITION, ">h", Codec.GZIP),
            ErrorCode.INVALID_RECORD,
            id="bytes that no codec made",
        ),
        pytest.param(None, ErrorCode.INVALID_RECORD, id="no records"),
    ],
)
def test_what_is_refused(records: Any, code: ErrorCode) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        answer = await node.produce("a", records)
        assert (answer.error_code, answer.base_offset) == (code, -1)
        assert answer.error_message, "says what is wrong"
        assert (await node.fetch("a", 0)).high_watermark == 0

    tell(story)


def test_a_latest_timestamp_that_no_record_has_is_taken() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", retention_ms="-1")
        records = changed(batch(b"x", b"y"), MAX_TIMESTAMP_POSITION, ">q", THEN + 9)
        assert (await node.produce("a", records)).error_code == 0

    tell(story)


def test_sizes_below_0_count_as_0() -> None:
    """The first batch is sent whole all the same."""

    async def story(node: Story) -> None:
        await node.create_topic("a", retention_ms="-1")
        await node.produce("a", batch(b"one"))
        await node.produce("a", batch(b"two"))
        for sizes in (
            {"partition_max_bytes": -1},
            {"max_bytes": -1},
            {"max_bytes": -1, "partition_max_bytes": -(2**31)},
        ):
            wanted: dict[str, Any] = sizes
            assert values_of((await node.fetch("a", 0, **wanted)).records) == [b"one"]

    tell(story)


@pytest.mark.parametrize("level", [-1, 2, 77])
def test_isolation_levels_that_do_not_exist_read_everything(level: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", retention_ms="-1")
        await node.produce("a", batch(b"one"))
        request = fetch_request("a", 0)
        request.isolation_level = level
        response = await node.ask(request, 12)
        assert values_of(response.responses[0].partitions[0].records) == [b"one"]

    tell(story)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_without_name_and_id_is_not_known(version: int) -> None:
    async def story(node: Story) -> None:
        response = await node.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=None)]), version
        )
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    tell(story)


def test_coordinators_of_what_there_is_not_are_refused_for_good() -> None:
    """Share groups: a code that a client would retry could keep it for ever."""

    async def story(node: Story) -> None:
        response = await node.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["a"]), 6)
        assert response.coordinators[0].error_code == ErrorCode.INVALID_REQUEST

    tell(story)


def test_a_timeout_of_0_does_not_wait_for_a_sync() -> None:
    """The records are stored; only nobody waited to see them safe."""

    async def story(node: Story) -> None:
        await node.create_topic("a", flush_messages="1", retention_ms="-1")
        response = await node.ask(produce_request("a", batch(b"one"), timeout_ms=0), 9)
        assert (
            response.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        )
        assert (await node.produce("a", batch(b"two"))).base_offset == 1

    tell(story)


def test_a_time_is_looked_up_beyond_the_records_that_were_deleted() -> None:
    """A search by time goes on behind deleted records.

    Apache Kafka stops at the first segment that reaches the time, also if its records of that
    time are all deleted.
    """

    async def story(node: Story) -> None:
        await node.create_topic("a", retention_ms="-1", segment_ms="1000")
        for time_ms in (THEN, THEN + 10_000, THEN + 10_000):
            await node.produce("a", batch(b"x", timestamp_ms=time_ms))
        below = [
            DeleteRecordsTopic(
                name="a", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)]
            )
        ]
        await node.ask(DeleteRecordsRequest(topics=below, timeout_ms=1_000), 2)
        asked = [
            ListOffsetsTopic(
                name="a", partitions=[ListOffsetsPartition(partition_index=0, timestamp=THEN)]
            )
        ]
        response = await node.ask(ListOffsetsRequest(replica_id=-1, topics=asked), 7)
        found = response.topics[0].partitions[0]
        assert (found.offset, found.timestamp) == (1, THEN + 10_000)

    tell(story)
