"""Batches of a leader's response that a follower's log may append.

This module decides from the bytes alone. About the log it knows only the offset at which the
batches may begin.
"""

from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TIMESTAMP, Buffer
from log_service.records.batch import (
    CONTROL_FLAG,
    BatchHeader,
    is_crc_valid,
    iterate_headers,
    iterate_usable_headers,
)
from log_service.records.control import TransactionMarker, read_marker


class ReplicatedBatches(NamedTuple):
    """Whole batches, each with its position in ``content``.

    ``markers`` holds the transaction markers among them, by position.
    """

    content: memoryview
    batches: list[tuple[int, BatchHeader]]
    markers: dict[int, TransactionMarker]
    max_timestamp: int


def check_replicated(
    buffer: Buffer, log_end_offset: int, leader_epoch: int | None
) -> ReplicatedBatches:
    """Return the batches of ``buffer`` that follow ``log_end_offset``.

    ``Log.append_as_follower`` describes ``leader_epoch``.

    Raises:
        KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, OFFSET_OUT_OF_RANGE.
    """
    batches = list(
        iterate_headers(buffer)
        if leader_epoch is None
        else iterate_usable_headers(buffer, leader_epoch)
    )
    content = memoryview(buffer)
    content = content[: batches[-1][0] + batches[-1][1].size_bytes if batches else 0]
    next_offset, max_timestamp = log_end_offset, NO_TIMESTAMP
    markers: dict[int, TransactionMarker] = {}
    for position, header in batches:
        if header.base_offset < next_offset:
            text = (
                f"a batch of base offset {header.base_offset} cannot follow offset"
                f" {next_offset - 1}"
            )
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        batch = content[position : position + header.size_bytes]
        if not is_crc_valid(batch):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the checksum of the batch of base offset {header.base_offset} does not hold",
            )
        if header.attributes & CONTROL_FLAG and header.producer_id >= 0:
            marker = read_marker(batch)
            if marker is not None:
                markers[position] = marker
        next_offset = header.next_offset
        max_timestamp = max(max_timestamp, header.max_timestamp)
    return ReplicatedBatches(content, batches, markers, max_timestamp)
