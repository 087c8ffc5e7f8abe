"""Records of a batch are found by time alike, one by one and all at once."""

import random

import pytest

from log_service.records import times
from log_service.records.batch import iterate_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord
from log_service.records.times import first_record_at, latest_record


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("count", [1, 10, 1_000])
@pytest.mark.parametrize("append_time_ms", [None, 77])
def test_what_is_found_at_once_is_what_a_loop_finds(
    codec: Codec, count: int, append_time_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(count)
    made = [NewRecord(drawn.randrange(100), None, b"v") for _ in range(count)]
    batch = build_batch(made, codec=codec, base_offset=40, append_time_ms=append_time_ms)
    records = list(iterate_records(batch))
    for least in (1, 1 << 30):
        monkeypatch.setattr(times, "MIN_COUNT_AT_ONCE", least)
        latest = max(records, key=lambda record: record.timestamp)
        assert latest_record(batch) == (latest.timestamp, latest.offset)
        for timestamp, start_offset in [
            (0, 0),
            (50, 0),
            (50, 40 + count // 2),
            (99, 45),
            (101, 0),
            (0, 40 + count),
        ]:
            found = [
                (each.timestamp, each.offset)
                for each in records
                if each.timestamp >= timestamp and each.offset >= start_offset
            ]
            assert first_record_at(batch, timestamp, start_offset) == next(iter(found), None)
