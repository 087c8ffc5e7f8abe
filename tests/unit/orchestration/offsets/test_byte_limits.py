"""A run opens a bounded number of bytes of compressed records, whatever their number.

No Spark takes part, and each opened byte is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from pyspark.sql import types

from orchestration.log_client.protocol import RangeReader
from orchestration.offsets.byte_limits import (
    DEFAULT_LIMITS,
    KEPT_VALUE_BYTES,
    ByteLimits,
    reading_order,
)
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.settings import SettingsError, load_settings
from orchestration.transforms.batch.intake import Intake, take_in
from tests.unit.orchestration.memory_log import MemoryLog

FIELDS = types.StructType([types.StructField("id", types.LongType(), nullable=False)])
RECORD_BYTES = 1_000


def value(number: int, size: int = RECORD_BYTES) -> bytes:
    return (b'{"id":%d}' % number).ljust(size)


@dataclass
class CountingReader:
    """Opens a record at a time, as if each were a batch of its own, and counts."""

    reader: RangeReader
    opened: int = 0
    largest: int = 0
    places: list[tuple[int, int]] = field(default_factory=list)

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        for batch in self.reader(topic, wanted, topic_id=topic_id):
            for row in range(batch.num_rows):
                one = batch.slice(row, 1)
                size = sum(one[name].nbytes for name in ("key", "value", "headers"))
                self.opened += size
                self.largest = max(self.largest, size)
                self.places.append((wanted.partition, one["offset"][0].as_py()))
                yield one


def ranges_of(starts: dict[int, int], end: int) -> OffsetRanges:
    held = tuple(
        OffsetRange(partition=partition, start=start, end=end)
        for partition, start in starts.items()
    )
    return OffsetRanges(topic="orders", topic_id="id-of-orders", ranges=held)


def log_of(partitions: int, records: int, size: int = RECORD_BYTES) -> MemoryLog:
    log = MemoryLog()
    log.add_topic("orders", partitions)
    for partition in range(partitions):
        for number in range(records):
            log.topics["orders"].partitions[partition].append(value(number, size))
    return log


@pytest.mark.parametrize(
    ("partitions", "run_bytes"), [(1, 4_500), (3, 10_000), (5, 1), (7, 2_500), (2, 1 << 30)]
)
def test_runs_open_their_budget_and_one_batch_and_read_each_record_once(
    partitions: int, run_bytes: int
) -> None:
    log, records = log_of(partitions, 12), 12
    starts, read = dict.fromkeys(range(partitions), 0), []
    for _ in range(partitions * records):
        reader = CountingReader(log.range_reader())
        taken = take_in(
            reader, ranges_of(starts, records), FIELDS, None, limits=ByteLimits(run_bytes=run_bytes)
        )
        assert reader.opened < run_bytes + reader.largest
        rows = taken.rows(
            {"partition": "_partition", "offset": "_offset", "id": "id"}, None
        ).to_pylist()
        assert {(row["partition"], row["offset"]) for row in rows} == set(reader.places)
        assert taken.ranges.count == len(rows) == taken.statistics.records > 0
        read += [(row["partition"], row["offset"]) for row in rows]
        starts |= taken.ranges.ends()
        if min(starts.values()) == records:
            break
    assert sorted(read) == [
        (partition, offset) for partition in range(partitions) for offset in range(records)
    ]


def test_no_partition_starves_where_the_budget_is_not_enough_for_all() -> None:
    log, starts = log_of(5, 200), dict.fromkeys(range(5), 0)
    for _ in range(60):
        reader = CountingReader(log.range_reader())
        starts |= take_in(
            reader, ranges_of(starts, 200), FIELDS, None, limits=ByteLimits(run_bytes=1)
        ).ranges.ends()
    assert sum(starts.values()) == 60
    assert min(starts.values()) > 0


def test_offsets_without_records_are_read_and_checkpoints_that_only_move_are_kept() -> None:
    log = log_of(2, 3)
    log.topics["orders"].partitions[1].skip(50)
    wanted = ranges_of({0: 3, 1: 0}, 3)
    taken = take_in(log.range_reader(), wanted, FIELDS, None, limits=ByteLimits(run_bytes=1 << 20))
    assert taken.ranges == wanted
    moved = OffsetRanges(
        topic="orders", topic_id="id-of-orders", ranges=(OffsetRange(partition=1, start=0, end=53),)
    )
    assert (
        take_in(
            log.range_reader(), moved, FIELDS, None, limits=ByteLimits(run_bytes=100_000)
        ).ranges
        == moved
    )


def test_the_order_is_as_it_was_where_every_range_gets_its_turn() -> None:
    assert reading_order(ranges_of({0: 0, 1: 0}, 5), DEFAULT_LIMITS.run_bytes) == list(
        ranges_of({0: 0, 1: 0}, 5)
    )
    assert sorted(reading_order(ranges_of(dict.fromkeys(range(9), 0), 5), 1)) == list(
        ranges_of(dict.fromkeys(range(9), 0), 5)
    )


LARGE = 200_000


def with_large_records() -> MemoryLog:
    log = log_of(1, 2)
    partition = log.topics["orders"].partitions[0]
    partition.append(b"#" + value(2, LARGE), key=b"k", headers=[("a", b"1")])
    partition.append(value(3), key=b"#" * LARGE)
    partition.append(value(4), headers=[("a", b"1"), ("b", b"#" * LARGE), ("c", None)])
    partition.append(value(5), headers=[("a", b"1")])
    return log


def limited(log: MemoryLog, fields: types.StructType | None) -> Intake:
    return take_in(
        log.range_reader(),
        ranges_of({0: 0}, 6),
        fields,
        None,
        limits=ByteLimits(record_bytes=100_000),
        has_headers=True,
    )


@pytest.mark.parametrize("fields", [FIELDS, None])
def test_a_record_that_is_too_large_is_a_dead_letter_with_its_place_and_its_beginning(
    fields: types.StructType | None,
) -> None:
    taken = limited(with_large_records(), fields)
    assert [(partition, offset) for partition, offset, _ in taken.faults] == [
        (0, 2),
        (0, 3),
        (0, 4),
    ]
    assert taken.faults[0][2] == (
        "the record has 200004 bytes, and a run takes at most 100000 of one (TIDELOG_RECORD_BYTES): "
        "its first 65536 bytes are kept here, the whole one is in topic orders, partition 0, offset 2"
    )
    rows = taken.rows({"offset": "_offset", "headers": "_headers"}, None).to_pylist()
    assert rows == [
        {"offset": 0, "headers": []},
        {"offset": 1, "headers": []},
        {"offset": 5, "headers": [{"key": "a", "value": b"1"}]},
    ]
    letters = taken.records_at({0: [2, 3, 4]})
    assert letters["value"].to_pylist() == [
        b"#" + value(2, LARGE)[: KEPT_VALUE_BYTES - 1],
        value(3),
        value(4),
    ]
    assert letters["key"].to_pylist() == [b"k", b"#" * KEPT_VALUE_BYTES, None]
    assert letters["headers"].to_pylist() == [None, None, None]
    assert taken.statistics.records == 6


def test_what_was_cut_off_is_in_no_buffer() -> None:
    taken = limited(with_large_records(), FIELDS)
    assert taken.records_at({0: [2, 3, 4, 5]}).get_total_buffer_size() < LARGE


def test_the_beginning_of_a_large_record_is_read_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestration.transforms.batch.intake.KEPT_BYTES", 10)
    (value_again,) = limited(with_large_records(), FIELDS).records_at({0: [2]})["value"].to_pylist()
    assert len(value_again) == KEPT_VALUE_BYTES


def test_both_limits_are_settings() -> None:
    assert load_settings({}).byte_limits == ByteLimits(run_bytes=256 << 20, record_bytes=16 << 20)
    given = load_settings({"TIDELOG_BYTES_PER_RUN": "1000", "TIDELOG_RECORD_BYTES": "10"})
    assert given.byte_limits == ByteLimits(run_bytes=1_000, record_bytes=10)
    with pytest.raises(
        SettingsError, match="TIDELOG_BYTES_PER_RUN is '0': it has to be a whole number, at least 1"
    ):
        load_settings({"TIDELOG_BYTES_PER_RUN": "0"})
