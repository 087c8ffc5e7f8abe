"""Idempotent producers: repetitions, gaps, epochs, expiry, and their snapshots (KIP-98, KIP-360)."""

from pathlib import Path

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import BatchHeader, parse_header
from log_service.storage.producer_snapshots import (
    DamagedSnapshot,
    ProducerSnapshots,
    decode_snapshot,
    encode_snapshot,
)
from log_service.storage.producer_state import ProducerState
from tests.sim.files import MemoryFiles
from tests.unit.storage.context import NOW_MS, LogContext, batch, idempotent

MAX_SEQUENCE = 2**31 - 1


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return parse_header(idempotent(producer_id, sequence, count, epoch=epoch))


def state(*headers: BatchHeader) -> ProducerState:
    producers = ProducerState(expiration_ms=1_000)
    offset = 0
    for each in headers:
        assert producers.check(each) is None
        producers.update(each, offset)
        offset += each.last_offset_delta + 1
    return producers


def refusal(producers: ProducerState, batch_header: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        producers.check(batch_header)
    return caught.value.code


def test_sequences_follow_each_other() -> None:
    assert state(header(0, 3), header(3), header(4)).check(header(5)) is None


def test_a_gap_is_out_of_order() -> None:
    assert refusal(state(header(0, 3)), header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_known_when_it_comes_again() -> None:
    producers = state(*(header(2 * number, 2) for number in range(6)))
    for number in range(1, 6):
        repeated = producers.check(header(2 * number, 2))
        assert repeated is not None
        assert (repeated.first_offset, repeated.last_offset) == (2 * number, 2 * number + 1)
    assert refusal(producers, header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_overlaps_is_no_repetition() -> None:
    assert refusal(state(header(0, 3)), header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced() -> None:
    assert (
        refusal(state(header(0, epoch=3)), header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    )


def test_a_new_epoch_begins_at_sequence_zero() -> None:
    producers = state(header(0, 3))
    assert refusal(producers, header(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(0, epoch=1)) is None
    producers.update(header(0, epoch=1), 3)
    assert refusal(producers, header(0, 3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert state().check(header(41, epoch=5)) is None


def test_sequences_go_on_at_zero_after_the_largest() -> None:
    producers = state(header(MAX_SEQUENCE - 1, 2))
    assert producers.check(header(0)) is None
    crossing = state(header(MAX_SEQUENCE, 2))
    repeated = crossing.check(header(MAX_SEQUENCE, 2))
    assert repeated is not None
    assert repeated.last_sequence == 0
    assert crossing.check(header(1)) is None


def test_producers_are_forgotten_after_their_time() -> None:
    producers = ProducerState(expiration_ms=1_000)
    producers.update(header(0), 0, now_ms=5_000)
    producers.update(header(0, producer_id=8), 1, now_ms=5_001)
    assert producers.expire(6_000) == 1
    assert [entry.producer_id for entry in producers] == [8]


def test_snapshot_bytes_are_kafkas() -> None:
    producers = state(header(4, 3))
    content = encode_snapshot(producers)
    assert content[:2] == b"\x00\x01"
    assert content[6:10] == b"\x00\x00\x00\x01"
    assert len(content) == 10 + 46
    (entry,) = decode_snapshot(content)
    assert entry.batches == next(iter(producers)).batches
    assert (entry.epoch, entry.last_sequence, entry.last_ms) == (0, 6, NOW_MS + 2)


@pytest.mark.parametrize("position", [1, 3, 8, 20])
def test_a_damaged_snapshot_is_noticed(position: int) -> None:
    content = bytearray(encode_snapshot(state(header(0))))
    content[position] ^= 0x10
    with pytest.raises(DamagedSnapshot):
        decode_snapshot(bytes(content))
    with pytest.raises(DamagedSnapshot):
        decode_snapshot(bytes(content[:9]))


def test_the_newest_whole_snapshot_is_used_and_damaged_ones_go() -> None:
    files = MemoryFiles()
    snapshots = ProducerSnapshots(files, Path("/"), [])
    snapshots.take(10, state(header(0)))
    snapshots.take(20, state(header(0), header(1)))
    files.open(Path("/00000000000000000020.snapshot")).write_at(4, b"\xff\xff")
    found = snapshots.latest(30)
    assert found is not None
    assert found[0] == 10
    assert files.list_directory(Path("/")) == ["00000000000000000010.snapshot"]
    assert snapshots.latest(9) is None


def test_a_repeated_append_returns_the_first_offsets() -> None:
    context = LogContext()
    context.append_records(3)
    first = context.append(idempotent(7, 0, 2))
    again = context.append(idempotent(7, 0, 2))
    assert (again.base_offset, again.last_offset, again.is_duplicate) == (
        first.base_offset,
        first.last_offset,
        True,
    )
    assert context.log.log_end_offset == 5


def test_a_refused_append_leaves_no_trace() -> None:
    context = LogContext()
    context.append(idempotent(7, 0))
    with pytest.raises(KafkaError):
        context.append(idempotent(7, 5))
    assert context.log.log_end_offset == 1
    assert context.append(idempotent(7, 1)).base_offset == 1


def test_snapshot_holds_every_remembered_batch_the_newest_last() -> None:
    producers = state(
        header(0), header(0, producer_id=8), *(header(sequence) for sequence in range(1, 7))
    )
    content = encode_snapshot(producers)
    assert len(content) == 10 + 46 * 6
    first, second = decode_snapshot(content)
    by_id = {first.producer_id: first, second.producer_id: second}
    assert {entry.producer_id: entry.batches for entry in producers} == {
        key: entry.batches for key, entry in by_id.items()
    }


def test_producers_survive_a_clean_stop_with_all_batches_that_may_come_again() -> None:
    """A client with several batches in flight whose responses were lost repeats the oldest first.

    It must not look out of order.
    """
    context = LogContext()
    context.append(idempotent(7, 0, 2))
    context.append(idempotent(7, 2, 2))
    context.reopen_clean()
    assert context.append(idempotent(7, 0, 2)).is_duplicate
    assert context.append(idempotent(7, 2, 2)).base_offset == 2
    with pytest.raises(KafkaError):
        context.append(idempotent(7, 5))
    assert context.append(idempotent(7, 4)).base_offset == 4


def test_producers_are_read_from_the_log_where_snapshots_are_lost() -> None:
    context = LogContext(segment_bytes=400)
    for sequence in range(10):
        context.append(idempotent(7, sequence))
    for name in context.names():
        if name.endswith(".snapshot"):
            context.files.remove(context.directory / name)
    context.open()
    assert context.append(idempotent(7, 8)).is_duplicate
    assert context.append(idempotent(7, 10)).base_offset == 10


def test_truncation_takes_producers_back() -> None:
    context = LogContext(segment_bytes=400)
    for sequence in range(10):
        context.append(idempotent(7, sequence))
    context.log.truncate_to(4)
    with pytest.raises(KafkaError):
        context.append(idempotent(7, 10))
    assert context.append(idempotent(7, 4)).base_offset == 4


def test_a_producer_whose_records_went_with_retention_may_go_on() -> None:
    context = LogContext()
    context.append(idempotent(7, 0))
    context.log.producer_state.expire(NOW_MS + 10 * 86_400_000)
    assert context.append(idempotent(7, 9)).base_offset == 1


def test_batches_without_a_producer_are_not_remembered() -> None:
    context = LogContext()
    context.append(batch(2))
    assert len(context.log.producer_state) == 0
