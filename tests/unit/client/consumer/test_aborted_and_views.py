"""A reader of fetched bytes gets nothing before its position.

It gets no markers, and nothing of aborted transactions.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.client.consumer.aborted import AbortedFilter
from log_service.client.consumer.record_reader import RecordReader
from log_service.client.consumer.records import ConsumerRecord, ControlMarker, LogRecord
from log_service.client.consumer.subscriptions import Start, Subscriptions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.messages.fetch import AbortedTransaction
from log_service.records.builder import build_batch
from log_service.records.control import ControlType, build_end_transaction_marker

PARTITION = TopicPartition("t", 3)


def log(*batches: tuple[int, int, dict[str, Any]]) -> bytes:
    """Batches of (base offset, records, what else the batch says); a record's value is its offset."""
    return b"".join(
        build_batch(
            [(1_000 + offset, b"k", b"%d" % offset) for offset in range(base, base + count)],
            base_offset=base,
            leader_epoch=4,
            **more,
        )
        for base, count, more in batches
    )


def reader(
    records: bytes, position: int = 0, aborted: AbortedFilter | None = None, **more: Any
) -> RecordReader:
    settings: dict[str, Any] = {"check_crcs": True, "deserializers": (None, None), **more}
    return RecordReader(PARTITION, records, position, aborted=aborted, **settings)


def read(source: RecordReader, max_records: int = 1_000) -> list[int]:
    taken: list[ConsumerRecord] = []
    source.read_into(taken, max_records)
    return [record.offset for record in taken]


def test_the_head_of_a_batch_before_the_position_is_dropped() -> None:
    source = reader(log((0, 5, {}), (5, 5, {})), position=3)
    assert read(source) == [3, 4, 5, 6, 7, 8, 9]
    assert (source.position, source.end_position, source.leader_epoch, source.end_epoch) == (
        10,
        10,
        4,
        4,
    )


def test_reading_stops_anywhere_and_goes_on_there() -> None:
    source = reader(log((0, 4, {}), (4, 4, {})))
    seen = []
    for expected in (3, 6, 8):
        seen += read(source, 3)
        assert source.position == expected
    assert seen == list(range(8))


def test_a_torn_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    source = reader(log((0, 4, {}), (4, 4, {}))[:-5])
    assert (read(source), source.end_position) == ([0, 1, 2, 3], 4)


def test_markers_move_the_position_and_are_never_seen() -> None:
    source = reader(
        log((0, 2, {}), (2, 1, {"is_control": True}), (3, 2, {}), (5, 1, {"is_control": True}))
    )
    assert (read(source), source.position) == ([0, 1, 3, 4], 6)


def test_records_of_aborted_transactions_are_left_out_until_their_marker() -> None:
    ours, theirs = (
        {"producer_id": 7, "is_transactional": True},
        {"producer_id": 8, "is_transactional": True},
    )
    records = log(
        (0, 2, ours),
        (2, 2, theirs),
        (4, 2, ours),
        (6, 1, {"producer_id": 7, "is_control": True}),
        (7, 1, ours),
        (8, 1, {}),
    )
    aborted = AbortedFilter()
    aborted.add([AbortedTransaction(producer_id=7, first_offset=0)])
    assert read(reader(records, aborted=aborted)) == [2, 3, 7, 8]


@pytest.mark.parametrize("is_committed_only", [False, True])
def test_markers_stand_in_their_place_where_they_are_asked_for(*, is_committed_only: bool) -> None:
    """No deserializer sees them, and records know their producer."""
    producer = {"producer_id": 9, "producer_epoch": 2}
    marker = build_end_transaction_marker(
        ControlType.ABORT,
        coordinator_epoch=7,
        timestamp_ms=5,
        base_offset=2,
        leader_epoch=4,
        **producer,
    )
    unknown = log((3, 1, {"is_control": True, "is_transactional": True, **producer}))
    content = (
        log((0, 2, {"is_transactional": True, **producer})) + marker + unknown + log((4, 1, {}))
    )
    aborted = AbortedFilter() if is_committed_only else None
    if aborted is not None:
        aborted.add([AbortedTransaction(producer_id=9, first_offset=0)])
    source = reader(content, aborted=aborted, with_control=True, deserializers=(None, int))
    taken: list[ConsumerRecord] = []
    assert source.read_into(taken, 1_000)
    records = [each for each in taken if isinstance(each, LogRecord)]
    assert len(records) == len(taken)
    shown = [(each.offset, each.marker or each.value, each.producer_id) for each in records]
    assert shown == [
        *([] if is_committed_only else [(0, 0, 9), (1, 1, 9)]),
        (2, ControlMarker("ABORT", 9, 2, 7), 9),
        (3, ControlMarker("UNKNOWN", 9, 2, None), 9),
        (4, 4, -1),
    ]
    assert source.position == 5


def test_a_transaction_that_begins_later_is_not_left_out_before() -> None:
    ours = {"producer_id": 7, "is_transactional": True}
    marker = {"producer_id": 7, "is_control": True}
    records = log((0, 1, ours), (1, 1, marker), (2, 1, ours), (3, 1, marker))
    aborted = AbortedFilter()
    aborted.add([AbortedTransaction(producer_id=7, first_offset=2)])
    assert read(reader(records, aborted=aborted)) == [0]


def test_a_damaged_batch_is_told_and_the_position_stays_before_it() -> None:
    records = bytearray(log((0, 2, {}), (2, 2, {})))
    records[-2] ^= 1  # in the last value
    source = reader(bytes(records))
    taken: list[ConsumerRecord] = []
    with pytest.raises(
        KafkaError,
        match=r"t-3: the batch at offsets 2 to 3 cannot be read: its checksum does not hold; .* seek to offset 4",
    ) as caught:
        source.read_into(taken, 10)
    assert (caught.value.code, source.position, [record.offset for record in taken]) == (
        ErrorCode.CORRUPT_MESSAGE,
        2,
        [0, 1],
    )
    assert read(reader(bytes(records), check_crcs=False)) == [0, 1, 2, 3]


def test_deserializers_see_keys_and_values() -> None:
    source = reader(log((0, 1, {})), deserializers=(lambda key: key.decode(), int))
    taken: list[ConsumerRecord] = []
    source.read_into(taken, 1)
    assert (taken[0].key, taken[0].value, taken[0].topic_partition) == ("k", 0, PARTITION)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    position=st.integers(0, 20),
    step=st.integers(1, 7),
)
def test_every_record_from_the_position_on_comes_once(
    sizes: list[int], position: int, step: int
) -> None:
    bases = [sum(sizes[:index]) for index in range(len(sizes))]
    source = reader(
        log(*((base, size, {}) for base, size in zip(bases, sizes, strict=True))), position=position
    )
    seen: list[int] = []
    while source.position < source.end_position:
        seen += read(source, step)
    assert seen == list(range(position, sum(sizes)))


def test_seeking_drops_what_was_fetched_and_assigning_again_does_not() -> None:
    subscriptions = Subscriptions()
    other = TopicPartition("t", 4)
    subscriptions.assign([PARTITION], Start.COMMITTED)
    state = subscriptions.of(PARTITION)
    assert [each.topic_partition for each in subscriptions.without_position()] == [PARTITION]
    state.seek(5)
    version = state.version
    subscriptions.assign([other, PARTITION], Start.COMMITTED)
    assert subscriptions.of(PARTITION) is state
    assert (state.version, state.position, subscriptions.assigned) == (
        version,
        5,
        [PARTITION, other],
    )
    state.seek(2)
    assert (state.version, state.position, state.fetch_offset) == (version + 1, 2, 2)
    subscriptions.revoke([PARTITION])
    with pytest.raises(ValueError, match="t-3 is not assigned"):
        subscriptions.of(PARTITION)
