"""Archive and log of a topic are read as if they were one.

The records are the same whatever retention has removed, and gaps are told as such.
"""

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestration.lake.tables import Lake
from orchestration.offsets.ranges import OffsetRange
from orchestration.retained.readable_records import READ_SCHEMA, HeldTopic
from orchestration.retained.topic_reads import EVERYTHING, find_source
from tests.unit.orchestration.archived import archive, held_by
from tests.unit.orchestration.memory_log import MemoryLog

DAY_S = 86_400


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("orders", 2)
    append(made, 10)
    return made


def append(log: MemoryLog, count: int, partition: int = 0) -> None:
    topic = log.topics["orders"].partitions[partition]
    for _ in range(count):
        number = topic.log_end_offset
        value = None if number % 5 == 3 else b'{"n": %d}' % number
        topic.leader_epoch = number // 4
        topic.append(
            value,
            key=b"k%d" % number if number % 2 else None,
            timestamp_ms=1_000 * number,
            headers=[("h", b"%d" % number)],
        )


def texts(held: HeldTopic, partition: int = 0) -> str:
    return " ".join(str(one) for one in held.ranges[partition])


def records(held: HeldTopic, start: int, end: int, partition: int = 0) -> list[dict[str, object]]:
    batches = list(
        held.reader(
            "orders",
            OffsetRange(partition=partition, start=start, end=end),
            topic_id="id-of-orders",
        )
    )
    return list(
        pa.Table.from_batches(
            [batch.select(READ_SCHEMA.names) for batch in batches], schema=READ_SCHEMA
        ).to_pylist()
    )


def test_records_are_as_they_were_in_the_log(log: MemoryLog, lake: Lake) -> None:
    before = records(held_by(log, lake), 0, 10)
    assert len(before) == 10
    archive(log, lake)
    append(log, 3)
    log.delete_records("orders", {0: 9})
    held = held_by(log, lake)
    assert texts(held) == "0:[0,13)"
    assert records(held, 0, 10) == before
    assert [row["offset"] for row in records(held, 8, 12)] == [8, 9, 10, 11]
    assert held.archived_count([OffsetRange(partition=0, start=8, end=12)]) == 2


def test_a_reader_survives_pickling(log: MemoryLog, lake: Lake) -> None:
    archive(log, lake)
    log.delete_records("orders", {0: 9})
    held = held_by(log, lake)
    wanted = OffsetRange(partition=0, start=2, end=5)
    reader = pickle.loads(pickle.dumps(held.reader))
    assert [
        offset for batch in reader("orders", wanted) for offset in batch["offset"].to_pylist()
    ] == [2, 3, 4]


def test_without_an_archive_the_log_is_all_there_is(log: MemoryLog, lake: Lake) -> None:
    log.delete_records("orders", {0: 4})
    held = held_by(log, lake)
    assert (texts(held), texts(held, 1)) == ("0:[4,10)", "")
    assert held.offsets_at(0) == {0: 4, 1: None}


def test_what_neither_holds_is_a_gap(log: MemoryLog, lake: Lake) -> None:
    archive(log, lake)
    append(log, 5)
    log.delete_records("orders", {0: 12})
    held = held_by(log, lake)
    assert texts(held) == "0:[0,10) 0:[12,15)"
    assert [str(one) for one in held.tails[0]] == ["0:[12,15)"]
    assert [row["offset"] for row in records(held, 8, 14)] == [8, 9, 12, 13]


def test_a_loss_that_the_archive_accepted_stays_a_gap_when_it_goes_on(
    log: MemoryLog, lake: Lake
) -> None:
    archive(log, lake)
    for _ in range(2):
        append(log, 5)
        log.delete_records("orders", {0: log.topics["orders"].partitions[0].log_end_offset - 2})
        archive(log, lake, is_loss_accepted=True)
    log.delete_records("orders", {0: 20})
    assert texts(held_by(log, lake)) == "0:[0,10) 0:[13,15) 0:[18,20)"
    source = find_source("orders", log, lake)
    assert source is not None
    assert [str(one) for one in source.read(EVERYTHING).gaps] == ["0:[10,13)", "0:[15,18)"]


def test_offsets_without_records_are_no_gap(lake: Lake) -> None:
    made = MemoryLog()
    made.add_topic("orders", 1)
    made.topics["orders"].partitions[0].skip(2)
    append(made, 3)
    made.topics["orders"].partitions[0].skip(2)
    archive(made, lake)
    made.delete_records("orders", {0: 7})
    assert texts(held_by(made, lake)) == "0:[0,7)"


def test_an_archive_that_is_not_kept_for_ever_begins_where_the_first_kept_file_may(
    log: MemoryLog, lake: Lake
) -> None:
    topic = log.topics["orders"].partitions[0]
    for number in (0, 3):
        archive(log, lake, kept_days=1, now=lambda: datetime.fromtimestamp(number * DAY_S, UTC))  # noqa: B023 - called at once
        topic.append(b"young", timestamp_ms=3_000 * DAY_S)
    log.delete_records("orders", {0: 11})
    assert texts(held_by(log, lake)) == "0:[10,12)"


def test_a_topic_that_was_created_anew_has_nothing_in_the_archive_of_the_former(
    log: MemoryLog, lake: Lake
) -> None:
    archive(log, lake)
    log.add_topic("orders", 2, topic_id="another")
    append(log, 2)
    assert texts(held_by(log, lake)) == "0:[0,2)"


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    times=st.lists(st.integers(min_value=0, max_value=20), min_size=1, max_size=25),
    archived=st.integers(min_value=0, max_value=25),
    removed=st.integers(min_value=0, max_value=25),
)
def test_times_are_found_as_if_nothing_had_been_removed(
    times: list[int], archived: int, removed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    log = MemoryLog()
    topic = log.add_topic("orders", 1).partitions[0]
    for number, time_s in enumerate(times):
        if number == archived:
            archive(log, lake)
        topic.append(b"1", timestamp_ms=1_000 * time_s)
    if archived >= len(times):
        archive(log, lake)
    before = {at_s: log.offsets_at("orders", 1_000 * at_s) for at_s in range(22)}
    log.delete_records("orders", {0: min(removed, archived, len(times))})
    held = held_by(log, lake)
    assert {at_s: held.offsets_at(1_000 * at_s) for at_s in range(22)} == before
