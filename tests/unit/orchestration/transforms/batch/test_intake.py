"""Records on their way to a transform: rows, records in doubt, and the batch that is read ahead. No
Spark takes part.
"""

import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import types

from orchestration.log_client.protocol import OtherTopicError, RangeReader
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.transforms.batch import intake
from orchestration.transforms.batch.intake import Intake, take_in
from orchestration.transforms.batch.reading import ReadAhead
from tests.unit.orchestration.memory_log import MemoryLog

FIELDS = types.StructType(
    [
        types.StructField("id", types.LongType(), nullable=False),
        types.StructField("note", types.StringType()),
    ]
)


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("orders", 2)
    for number in range(200):
        made.topics["orders"].partitions[number % 2].append(
            b'{"id":%d,"note":"n"}' % number, key=b"k"
        )
    return made


def ranges(start: int = 0, end: int = 100) -> OffsetRanges:
    both = tuple(OffsetRange(partition=partition, start=start, end=end) for partition in (0, 1))
    return OffsetRanges(topic="orders", topic_id="id-of-orders", ranges=both)


def scratch_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.parquet"))


def test_a_large_batch_waits_in_a_file_and_not_in_memory(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "INLINE_BYTES", 0)
    taken = take_in(log.range_reader(), ranges(), FIELDS, tmp_path)
    (file,) = scratch_files(tmp_path)
    stored = pq.read_table(file)
    assert stored.column_names == ["_partition", "_offset", "_timestamp", "_key", "id", "note"]
    assert sorted(stored["id"].to_pylist()) == list(range(200))
    assert (taken.statistics.records, taken.doubtful.num_rows) == (200, 0)
    assert taken.statistics.leader_epochs == {0: 0, 1: 0}
    taken.release()
    assert scratch_files(tmp_path) == []


def test_headers_are_in_the_rows_where_they_are_asked_for_and_always_at_hand_for_dead_letters(
    log: MemoryLog,
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(b'{"id":1000}', headers=[("a", b"1"), ("b", None), ("a", b"2")])
    partition.append(b"nonsense", headers=[("c", b"3")])
    asked = take_in(log.range_reader(), ranges(99, 100), FIELDS, None, has_headers=True)
    unasked = take_in(log.range_reader(), ranges(99, 100), FIELDS, None)
    assert asked.plain_names == (
        "_topic_id",
        "_partition",
        "_offset",
        "_timestamp",
        "_headers",
        "id",
        "note",
    )
    assert "_headers" not in unasked.plain_names
    wanted = OffsetRanges(
        topic="orders",
        topic_id="id-of-orders",
        ranges=(OffsetRange(partition=0, start=99, end=102),),
    )
    taken = take_in(log.range_reader(), wanted, FIELDS, None, has_headers=True)
    pairs = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b"2"}]
    assert taken.rows({"id": "id", "told": "_headers"}, None).to_pylist() == [
        {"id": 198, "told": []},
        {"id": 1000, "told": pairs},
    ]
    letters = take_in(log.range_reader(), wanted, FIELDS, None).records_at({0: [101]})
    assert letters["headers"].to_pylist() == [[{"key": "c", "value": b"3"}]]


def test_a_small_batch_touches_no_disk(log: MemoryLog, tmp_path: Path) -> None:
    take_in(log.range_reader(), ranges(), FIELDS, tmp_path)
    assert scratch_files(tmp_path) == []


def test_records_that_arrow_leaves_in_doubt_are_rows_too_in_their_places(log: MemoryLog) -> None:
    log.topics["orders"].partitions[0].append(b'{"id":\n1}')
    log.topics["orders"].partitions[1].append(b"nonsense")
    taken = take_in(log.range_reader(), ranges(90, 101), FIELDS, None)
    rows = taken.rows(
        {"partition": "_partition", "offset": "_offset", "id": "id"}, None
    ).to_pylist()
    assert [(row["offset"], row["id"]) for row in rows if row["partition"] == 0] == [
        *((at, 2 * at) for at in range(90, 100)),
        (100, 1),
    ]
    assert taken.doubtful.num_rows == 0
    assert taken.faults == [(1, 100, "the value is not JSON")]
    assert taken.statistics.records == 22


def test_records_of_a_batch_that_was_not_kept_are_read_again(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "KEPT_BYTES", 10)
    taken = take_in(log.range_reader(), ranges(), FIELDS, None)
    log.reads.clear()
    found = taken.records_at({0: [3, 5], 1: [99]})
    assert [(row["_partition"], row["_offset"], row["value"]) for row in found.to_pylist()] == [
        (0, 3, b'{"id":6,"note":"n"}'),
        (0, 5, b'{"id":10,"note":"n"}'),
        (1, 99, b'{"id":199,"note":"n"}'),
    ]
    assert sum(end - start for _, _, start, end in log.reads) <= 3


def test_a_read_that_fails_leaves_no_file(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "INLINE_BYTES", 0)
    monkeypatch.setattr(intake, "WRITTEN_BYTES", 0)
    reader = log.range_reader()

    def failing(topic: str, wanted: OffsetRange, *, topic_id: str | None = None) -> object:
        if wanted.partition == 1:
            raise ConnectionError("gone")
        return reader(topic, wanted)

    with pytest.raises(ConnectionError):
        take_in(failing, ranges(), FIELDS, tmp_path)  # type: ignore[arg-type]
    assert scratch_files(tmp_path) == []


def test_records_of_another_topic_of_the_name_are_refused(log: MemoryLog) -> None:
    taken = take_in(log.range_reader(), ranges(), FIELDS, None)
    log.add_topic("orders", 2, topic_id="another-id")
    with pytest.raises(OtherTopicError, match="has the id another-id, not id-of-orders"):
        take_in(log.range_reader(), ranges(), FIELDS, None)
    assert taken.statistics.records == 200


def read(reader: RangeReader, wanted: OffsetRanges, scratch: Path) -> Intake:
    return take_in(reader, wanted, FIELDS, scratch)


def test_what_was_read_ahead_is_used_for_just_its_ranges(log: MemoryLog, tmp_path: Path) -> None:
    with ReadAhead() as ahead:
        ahead.start(ranges(0, 50), lambda: read(log.range_reader(), ranges(0, 50), tmp_path))
        taken = ahead.take(ranges(0, 50))
        assert taken is not None
        assert taken.statistics.records == 100
        assert ahead.take(ranges(0, 50)) is None
        ahead.start(ranges(0, 50), lambda: read(log.range_reader(), ranges(0, 50), tmp_path))
        assert ahead.take(ranges(0, 51)) is None


def test_what_nobody_asked_for_leaves_no_file(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "INLINE_BYTES", 0)
    is_written = threading.Event()

    def reading() -> Intake:
        taken = read(log.range_reader(), ranges(), tmp_path)
        is_written.set()
        return taken

    with ReadAhead() as ahead:
        ahead.start(ranges(), reading)
        assert is_written.wait(30)
    assert scratch_files(tmp_path) == []


def test_a_failure_to_read_ahead_is_left_to_whoever_reads_in_earnest() -> None:
    def failing() -> Intake:
        raise ConnectionError("gone")

    with ReadAhead() as ahead:
        ahead.start(ranges(), failing)
        assert ahead.take(ranges()) is None


def test_a_batch_of_which_nothing_fits_has_columns_and_no_rows(log: MemoryLog) -> None:
    log.topics["orders"].partitions[0].append(b"nonsense")
    log.topics["orders"].partitions[1].append(b"[]")
    taken = take_in(log.range_reader(), ranges(100, 101), FIELDS, None)
    rows = taken.rows({"at": "_timestamp", "topic": "_topic_id", "id": "id"}, None)
    assert (rows.column_names, rows.num_rows) == (["at", "topic", "id"], 0)
