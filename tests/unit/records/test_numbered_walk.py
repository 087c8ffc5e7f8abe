"""The fast check of a numbered batch finds the same records as one jump after the other.

It accepts no batch that the check of all fields refuses.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import finish
from log_service.records import checks, walk
from log_service.records.batch import HEADER_SIZE, parse_header
from log_service.records.builder import build_batch
from log_service.records.checks import check_records
from log_service.records.numbered_walk import are_plain, find_numbered
from log_service.records.record import NewRecord
from log_service.records.varint_arrays import Octets
from tests.unit.records.drawn_records import ALPHABETS, records_of

COUNTS = (768, 1_000, 9_000)


def section(records: list[NewRecord]) -> bytes:
    """Return the records of a batch as they lie in it."""
    return bytes(build_batch(records)[HEADER_SIZE:])


def same_size(count: int, value: bytes) -> bytes:
    return section(
        [NewRecord(1_700_000_000_000 + index // 7, None, value) for index in range(count)]
    )


def jumps(body: bytes, count: int) -> list[int]:
    bounds = np.zeros(1, np.int64), np.array([len(body)])
    return [int(end) for end in finish(walk.walk_each(body, np.array([count]), *bounds))]


def octets_of(body: bytes) -> Octets:
    return np.frombuffer(body, np.uint8)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("max_bytes", [0, 30, 200, 900])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_lanes_meet_where_single_jumps_lead(alphabet: str, max_bytes: int, count: int) -> None:
    records = records_of(max_bytes, count, ALPHABETS[alphabet], max_bytes, has_headers=False)
    body = section(records)
    found = finish(find_numbered(body, octets_of(body), count))
    if found is None:
        assert alphabet not in {"text", "zeros"} or not max_bytes, "ordinary records were not found"
        return
    starts, ends = found
    assert ends.tolist() == jumps(body, count)
    assert starts.tolist() == [0, *ends[:-1].tolist()]
    assert are_plain(octets_of(body), starts, ends, 0)


@pytest.mark.parametrize("size_bytes", [0, 1, 56, 57, 100, 400])
@pytest.mark.parametrize("content", ["zeros", "text"])
def test_records_of_one_size_are_found(content: str, size_bytes: int) -> None:
    """The payload of a record looks like the next record if it is full of zeros."""
    body = same_size(5_000, bytes(size_bytes) if content == "zeros" else b"x" * size_bytes)
    found = finish(find_numbered(body, octets_of(body), 5_000))
    assert found is not None
    assert found[1].tolist() == jumps(body, 5_000)
    assert are_plain(octets_of(body), *found, 0)


def test_records_are_plain_from_any_number_on() -> None:
    body = same_size(9_000, b"x" * 20)
    ends = np.array(jumps(body, 9_000))
    starts = np.concatenate(([0], ends[:-1]))
    assert are_plain(octets_of(body), starts[8_000:], ends[8_000:], 8_000)
    assert not are_plain(octets_of(body), starts[8_000:], ends[8_000:], 7_999)


@pytest.mark.parametrize("headers", [(), (("name", b"value"),)])
def test_headers_are_left_to_the_other_check(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    records = [NewRecord(0, b"k", b"v", headers if index == 500 else ()) for index in range(1_000)]
    body = section(records)
    ends = np.array(jumps(body, 1_000))
    starts = np.concatenate(([0], ends[:-1]))
    assert are_plain(octets_of(body), starts, ends, 0) == (not headers)


def verdict(body: bytes, batch_header: bytes) -> ErrorCode | None:
    try:
        check_records(parse_header(batch_header), body)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize("alphabet", ALPHABETS)
@given(
    st.integers(0, 1 << 30),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=3),
)
@settings(max_examples=40)
def test_damaged_batches_are_refused_as_one_by_one(
    alphabet: str, seed: int, changes: list[tuple[int, int]]
) -> None:
    """Each change is a byte of a batch. A check of one record after the other says the same."""
    count = random.Random(seed).choice(COUNTS[:2])
    batch = build_batch(records_of(seed, count, ALPHABETS[alphabet], 40, has_headers=False))
    body = bytearray(batch[HEADER_SIZE:])
    for place, octet in changes:
        body[place % len(body)] = octet
    fast = verdict(bytes(body), batch)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checks, "MIN_COUNT_AT_ONCE", 1 << 30)
        assert verdict(bytes(body), batch) == fast


@given(st.integers(0, 1 << 30), st.sampled_from(sorted(ALPHABETS)), st.integers(768, 2_000))
@settings(max_examples=60)
def test_any_bytes_are_walked_without_an_error(seed: int, alphabet: str, count: int) -> None:
    body = bytes(random.Random(seed).choices(ALPHABETS[alphabet], k=8 * count))
    found = finish(find_numbered(body, octets_of(body), count))
    assert found is None or found[1].tolist() == jumps(body, count)


WIDE_LENGTHS = {
    "offset": "8c8000000004010100",
    "key": "8c8000000004030300",
}
"""Records whose length takes three bytes. Read two bytes too early, their fields look whole."""


@pytest.mark.parametrize("wrong", WIDE_LENGTHS)
def test_a_record_with_a_long_length_is_read_in_its_own_place(wrong: str) -> None:
    """The offset delta of the first record is 2, or the length of its key is -2."""
    count = 112
    tiny = [NewRecord(0, None, None) for _ in range(count)]
    body = bytes.fromhex(WIDE_LENGTHS[wrong]) + section(tiny)[7:]
    assert section(tiny)[7] == 12, "each tiny record has seven bytes"
    assert verdict(body, bytes(build_batch(tiny))) is ErrorCode.INVALID_RECORD


def test_few_right_guesses_do_not_make_a_long_walk() -> None:
    """Attributes of 1 hide all records but those of sixteen windows, far from each other."""
    count = 98_000
    body = bytearray(bytes.fromhex("0c010000010100") * count)
    window_distance = len(body) // 768
    for row in range(100, 740, 40):
        place = -(-(row * window_distance + 1) // 7) * 7
        number = place // 7
        body[place : place + 21] = numbered(number, b"") + numbered(number + 1, b"123")
    steps = find_numbered(bytes(body), octets_of(bytes(body)), count)
    assert sum(1 for _ in steps) < 20, "a turn of the event loop would take too long"


def numbered(number: int, value: bytes) -> bytes:
    """Return a record with a number of three bytes."""
    encoded = number << 1
    offset = bytes((encoded & 0x7F | 0x80, encoded >> 7 & 0x7F | 0x80, encoded >> 14))
    rest = b"\0\0" + offset + b"\1" + bytes((len(value) << 1,)) + value + b"\0"
    return bytes((len(rest) << 1,)) + rest
