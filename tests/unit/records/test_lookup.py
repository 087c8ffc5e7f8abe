"""Finding records by time, inside one batch and over many."""

import pytest

from log_service.records.batch import stamp_append_time
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.lookup import FoundRecord, find_first_record_at_or_after, max_timestamp_record
from log_service.records.record import NewRecord


def log(*lists: list[int], codec: Codec = Codec.NONE) -> bytes:
    """Return a log of one batch for each list of timestamps, batch ``n`` in leader epoch ``n``."""
    batches, next_offset = [], 100
    for epoch, timestamps in enumerate(lists):
        records = [NewRecord(timestamp, None, b"v") for timestamp in timestamps]
        batches.append(build_batch(records, base_offset=next_offset, leader_epoch=epoch, codec=codec))
        next_offset += len(timestamps)
    return b"".join(batches)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, FoundRecord(100, 10, 0)),
        (10, FoundRecord(100, 10, 0)),
        (11, FoundRecord(101, 30, 0)),
        (31, FoundRecord(104, 50, 1)),
        (50, FoundRecord(104, 50, 1)),
        (51, None),
    ],
)
def test_first_record_at_or_after_a_time(timestamp: int, expected: FoundRecord | None, codec: Codec) -> None:
    assert find_first_record_at_or_after(log([10, 30, 20], [25, 50], codec=codec), timestamp) == expected


@pytest.mark.parametrize(("start_offset", "expected"), [(100, 100), (101, 101), (103, 104), (105, None)])
def test_records_before_the_log_start_are_not_found(start_offset: int, expected: int | None) -> None:
    found = find_first_record_at_or_after(log([30, 30, 20], [25, 50]), 30, start_offset=start_offset)
    assert (found.offset if found else None) == expected


def test_append_time_is_the_time_of_every_record() -> None:
    buffer = bytearray(log([10, 20]))
    stamp_append_time(buffer, 0, 99)
    assert find_first_record_at_or_after(buffer, 50) == FoundRecord(100, 99, 0)
    assert max_timestamp_record(buffer) == FoundRecord(100, 99, 0)


def test_latest_timestamp_belongs_to_the_first_record_that_has_it() -> None:
    assert max_timestamp_record(log([10, 50, 50], [20], [50])) == FoundRecord(101, 50, 0)


def test_records_without_timestamps_have_no_latest() -> None:
    assert max_timestamp_record(log([-1, -1])) is None
    assert max_timestamp_record(b"") is None


def test_batch_that_is_cut_off_is_not_looked_at() -> None:
    buffer = log([10], [90])[:-1]
    assert find_first_record_at_or_after(buffer, 50) is None
    assert max_timestamp_record(buffer) == FoundRecord(100, 10, 0)
