"""A dead letter holds the content of its record in a fixed form."""

from collections.abc import Sequence

from log_service.broker.share.dead_letter_content import (
    MAX_BATCH_BYTES,
    TIMESTAMP,
    Letter,
    Origin,
    batch_of,
    grouped,
    letters_in,
)
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.record_states import ArchiveReason
from log_service.records.batch import ATTRIBUTES_POSITION, iterate_records
from log_service.records.builder import build_batch

ORIGIN = Origin(group_id="packers", topic="parcels", partition=3)
GZIP = 1


def dead(first: int, last: int) -> DeadLetterRange:
    return DeadLetterRange(
        first_offset=first, last_offset=last, delivery_count=4, reason=ArchiveReason.REJECTED
    )


def batch(*values: bytes, base_offset: int) -> bytes:
    return bytes(
        build_batch(
            [(number, b"key", value) for number, value in enumerate(values)],
            base_offset=base_offset,
        )
    )


def unreadable(count: int, base_offset: int) -> bytes:
    """A batch that says that it is compressed, and is not."""
    content = bytearray(batch(*[b"v"] * count, base_offset=base_offset))
    content[ATTRIBUTES_POSITION + 1] |= GZIP
    return bytes(content)


def told(found: Sequence[Letter]) -> list[tuple[int, bytes | None]]:
    return [
        (letter.offset, None if letter.record is None else letter.record.value) for letter in found
    ]


def test_records_of_the_range_have_letters_and_their_neighbours_and_markers_have_none() -> None:
    marker = bytes(
        build_batch(
            [(0, b"k", b"v")],
            base_offset=12,
            is_control=True,
            producer_id=1,
            producer_epoch=0,
            is_transactional=True,
        )
    )
    chunk = (
        batch(b"a", b"b", base_offset=10)
        + marker
        + batch(b"c", b"d", base_offset=13)
        + batch(b"e", base_offset=15)
    )
    assert told(list(letters_in(chunk, dead(11, 13), ORIGIN))) == [(11, b"b"), (13, b"c")]


def test_each_record_that_cannot_be_read_has_a_letter_without_a_copy() -> None:
    chunk = batch(b"a", base_offset=9) + unreadable(4, base_offset=10)
    found = list(letters_in(chunk, dead(9, 12), ORIGIN))
    assert told(found) == [(9, b"a"), (10, None), (11, None), (12, None)]
    (written, *_) = iterate_records(batch_of(found[1:2], now_ms=5))
    headers = dict(written.headers)
    assert (written.key, written.value, headers["__dlq.errors.offset"]) == (None, None, b"10")
    assert b"cannot be read" in (headers["__dlq.errors.omitted"] or b"")
    assert TIMESTAMP not in headers


def test_a_letter_says_when_its_record_was_written_and_comes_now() -> None:
    (letter,) = letters_in(batch(b"a", base_offset=0), dead(0, 0), ORIGIN)
    (written,) = iterate_records(batch_of([letter], now_ms=5))
    assert (written.key, written.value, written.timestamp) == (b"key", b"a", 5)
    assert dict(written.headers)[TIMESTAMP] == b"0"


def test_letters_are_written_together_up_to_a_bound_and_a_larger_one_alone() -> None:
    sizes = [
        100,
        MAX_BATCH_BYTES // 2,
        MAX_BATCH_BYTES // 2,
        2 * MAX_BATCH_BYTES,
        100,
        100,
        MAX_BATCH_BYTES // 2,
    ]
    letters = list(
        letters_in(
            batch(*(b"x" * size for size in sizes), base_offset=0), dead(0, len(sizes) - 1), ORIGIN
        )
    )
    groups = [[letter.offset for letter in group] for group in grouped(letters)]
    assert groups == [[0, 1], [2], [3], [4, 5, 6]]
