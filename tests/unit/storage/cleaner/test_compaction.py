"""A pass over one log: which records stay, what their batches and segments become."""

import pytest
import trio

from log_service.common.errors import KafkaError
from log_service.records.batch import is_crc_valid
from log_service.records.compression import Codec
from log_service.storage.cleaner.swap import PassAborted
from tests.unit.storage.cleaner.context import CompactedLog

A, B, C, N = b"a", b"b", b"c", None


def test_of_each_key_the_latest_record_stays_where_it_was() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"), (B, b"1"), (A, b"2"))
    log.write_segment((C, b"1"), (B, b"2"))
    outcome = log.clean()
    assert log.rows() == [(2, A, b"2"), (3, C, b"1"), (4, B, b"2")]
    assert (outcome.counts.records_read, outcome.counts.records_kept) == (5, 3)
    assert (outcome.segments_before, outcome.segments_after, outcome.end_offset) == (2, 1, 5)
    assert outcome.bytes_after < outcome.bytes_before


def test_the_active_segment_and_what_is_above_the_high_watermark_stay() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"))
    log.write_segment((A, b"2"))
    log.write_segment((A, b"3"))
    log.write((A, b"4"))
    log.clean(high_watermark=2)
    assert log.rows() == [(1, A, b"2"), (2, A, b"3"), (3, A, b"4")]
    log.clean()
    assert log.rows() == [(2, A, b"3"), (3, A, b"4")]


def test_records_without_a_key_go() -> None:
    log = CompactedLog()
    log.write_segment((N, b"1"), (A, b"1"), (N, N))
    outcome = log.clean()
    assert log.rows() == [(1, A, b"1")]
    assert outcome.counts.keyless_removed == 2


def test_a_tombstone_stays_until_its_horizon_and_goes_with_the_next_pass() -> None:
    log = CompactedLog(delete_retention_ms=1_000)
    log.write_segment((A, b"1"), (B, b"1"))
    log.write_segment((A, N))
    log.clean()
    assert log.rows() == [(1, B, b"1"), (2, A, N)]
    assert [header.delete_horizon_ms for header in log.headers()] == [
        None,
        log.clock.now_ms + 1_000,
    ]
    log.clock.advance(999)
    log.write_segment((C, b"1"))
    log.clean()
    assert (2, A, N) in log.rows()
    log.clock.advance(1)
    log.write_segment((C, b"2"))
    outcome = log.clean()
    assert log.rows() == [(1, B, b"1"), (4, C, b"2")]
    assert outcome.counts.tombstones_removed == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_keeps_its_codec_its_offsets_and_a_valid_checksum(codec: Codec) -> None:
    log = CompactedLog()
    log.write_segment(
        *[(b"%d" % (number % 7), b"value %d" % number * 9) for number in range(50)], codec=codec
    )
    log.clean()
    (header,) = log.headers()
    assert (header.compression, header.base_offset, header.last_offset, header.record_count) == (
        codec,
        0,
        49,
        7,
    )
    assert is_crc_valid(log.read(0))
    assert [offset for offset, _, _ in log.rows()] == list(range(43, 50))


def test_the_last_sequence_of_a_producer_outlives_its_records() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"), (A, b"2"), producer_id=7, producer_epoch=1, base_sequence=0)
    log.write_segment((A, b"3"), (B, b"3"))
    log.clean()
    first = log.headers()[0]
    assert (first.producer_id, first.producer_epoch, first.last_sequence, first.record_count) == (
        7,
        1,
        1,
        0,
    )
    log.reopen_clean()
    log.write((C, b"1"), producer_id=7, producer_epoch=1, base_sequence=2)
    with pytest.raises(KafkaError):
        log.write((C, b"2"), producer_id=7, producer_epoch=1, base_sequence=9)


def test_the_last_batch_of_a_pass_stays_as_a_header() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"))
    log.write_segment((N, b"1"))
    log.clean()
    assert [(header.base_offset, header.record_count) for header in log.headers()] == [
        (0, 1),
        (1, 0),
    ]


def test_small_segments_become_one_up_to_the_size_of_a_segment() -> None:
    log = CompactedLog(segment_bytes=400)
    for number in range(12):
        log.write_segment((b"%d" % number, b"v" * 30))
    log.clean()
    assert len(log.rows()) == 12
    assert all(segment.size_bytes <= 400 for segment in log.log.segments)
    assert log.segment_offsets() == [0, 4, 8, 12]


def test_keys_that_do_not_fit_into_the_map_take_more_passes() -> None:
    log = CompactedLog()
    for number in range(3):
        log.write_segment(*[(b"key %d" % key, b"%d" % number) for key in range(20)])
    ends = []
    while log.log.cleaned_offset != 60:
        ends.append(log.clean(map_bytes=170 * 7).end_offset)
        assert {key: value for _, key, value in log.rows()} == {
            b"key %d" % key: b"2" for key in range(20)
        }
    assert len(ends) > 3
    assert ends == sorted(set(ends))
    assert [offset for offset, _, _ in log.rows()] == list(range(40, 60))


def test_a_map_without_any_room_gets_on_all_the_same() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"), (B, b"1"), (A, b"2"))
    while log.log.cleaned_offset != 3:
        log.clean(map_bytes=0)
    assert log.rows() == [(1, B, b"1"), (2, A, b"2")]


def test_long_keys_are_told_apart() -> None:
    log = CompactedLog()
    log.write_segment(
        (b"k" * 1000 + b"1", b"1"), (b"k" * 1000 + b"2", b"2"), (b"k" * 1000 + b"1", b"3")
    )
    log.clean()
    assert [value for _, _, value in log.rows()] == [b"2", b"3"]


def test_a_pass_whose_log_is_truncated_gives_up_and_leaves_nothing_behind() -> None:
    log = CompactedLog()
    for number in range(20):
        log.write_segment((A, b"%d" % number))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(truncate)
            with pytest.raises(PassAborted):
                await log.clean_async(slice_bytes=1)

    async def truncate() -> None:
        for _ in range(9):
            await trio.lowlevel.checkpoint()
        log.log.truncate_to(5)

    trio.run(main)
    assert [name for name in log.names() if name.endswith((".cleaned", ".swap"))] == []
    assert [value for _, _, value in log.rows()] == [b"%d" % number for number in range(5)]


def test_a_reader_that_holds_old_segments_reads_them_to_the_end() -> None:
    log = CompactedLog()
    for number in range(5):
        log.write_segment((A, b"%d" % number), (b"%d" % number, b"x"))
    leased = log.log.read(0, max_bytes=1 << 20, upper_offset=10, is_one_batch_guaranteed=True)
    chunks = log.log.read_batches(0, chunk_bytes=1)
    before = next(chunks)
    held = list(log.log.segments)
    log.clean()
    assert leased.file_slice is not None
    assert leased.file_slice.read() == before
    leased.file_slice.release()
    assert [segment.next_offset() for segment in held[:5]] == [2, 4, 6, 8, 10]
    assert held[1].locate(3) is not None


def test_a_log_is_clean_after_a_pass_and_dirty_after_more_records() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"))
    log.clean()
    assert log.log.cleaned_offset == 1
    log.write_segment((A, b"2"))
    assert log.clean().end_offset == 2


def test_a_damaged_batch_is_named_and_nothing_is_exchanged() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"))
    log.write_segment((A, b"2"))
    log.files.open(log.directory / "00000000000000000001.log").write_at(65, b"\xff")
    with pytest.raises(KafkaError, match="checksum"):
        log.clean()
    assert log.segment_offsets() == [0, 1, 2]
    assert [name for name in log.names() if name.endswith((".cleaned", ".swap"))] == []
