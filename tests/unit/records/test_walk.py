"""Many lanes find the same records as one jump after the other.

They refuse the same damages, whatever the records look like.
"""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.steps import finish
from log_service.records import walk
from log_service.records.arrow import iterate_record_batches
from log_service.records.batch import HEADER_SIZE, iterate_records, parse_header
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord
from log_service.records.varint_arrays import Integers
from tests.unit.records.drawn_records import ALPHABETS, records_of

EVERYTHING = (0, 2**63 - 1)


def batches_of(
    seed: int, counts: list[int], alphabet: bytes, max_bytes: int, *, has_headers: bool
) -> list[bytes]:
    return [
        build_batch(
            records_of(seed + number, count, alphabet, max_bytes, has_headers=has_headers),
            base_offset=10_000 * number,
        )
        for number, count in enumerate(counts)
    ]


def layout(batches: list[bytes], gap: int) -> tuple[bytes, Integers, Integers, Integers]:
    """Return the records of batches with ``gap`` bytes before each, as ``find_records`` takes them."""
    bodies = [batch[HEADER_SIZE:] for batch in batches]
    ends = np.array(list(accumulate(gap + len(body) for body in bodies)), np.int64)
    counts = np.array([parse_header(batch).record_count for batch in batches], np.int64)
    return (
        b"".join(b"\xff" * gap + body for body in bodies),
        counts,
        ends - np.array([len(body) for body in bodies], np.int64),
        ends,
    )


def found_by(
    steps: str, body: bytes, counts: Integers, starts: Integers, ends: Integers
) -> list[int] | ErrorCode | None:
    """Return the ends that lanes or single jumps find, or the code they refuse with."""
    try:
        if steps == "lanes":
            found = finish(
                walk.walk_lanes(body, np.frombuffer(body, np.uint8), counts, starts, ends)
            )
        else:
            found = finish(walk.walk_each(body, counts, starts, ends))
    except KafkaError as error:
        return error.code
    return None if found is None else [int(end) for end in found]


@pytest.mark.parametrize("gap", [0, HEADER_SIZE])
@pytest.mark.parametrize("has_headers", [False, True])
@pytest.mark.parametrize("max_bytes", [0, 30, 200, 3000])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_lanes_find_what_single_jumps_find(
    alphabet: str, max_bytes: int, has_headers: bool, gap: int
) -> None:
    counts = [1, 700, 30, 1, 900]
    place = layout(
        batches_of(max_bytes, counts, ALPHABETS[alphabet], max_bytes, has_headers=has_headers), gap
    )
    expected = found_by("jumps", *place)
    assert isinstance(expected, list)
    assert len(expected) == sum(counts)
    found = found_by("lanes", *place)
    assert found in (expected, None)
    if alphabet in ("text", "bytes") and max_bytes:
        assert found == expected, "lanes gave up on ordinary records"


@pytest.mark.parametrize("count", [1000, 40_000])
def test_batches_of_one_record_are_lanes_of_their_own(count: int) -> None:
    body = build_batch([NewRecord(0, b"k", b"v" * 90)])
    place = layout([body] * count, HEADER_SIZE)
    assert found_by("lanes", *place) == found_by("jumps", *place)


@given(
    st.integers(0, 1 << 30),
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.sampled_from(sorted(ALPHABETS)),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=3),
    st.sampled_from([0, 5]),
)
@example(559, [253], "bytes", [(1073996, 128)], 5)  # a negative length of two bytes
@settings(deadline=None, max_examples=60)
def test_lanes_agree_with_single_jumps_on_damaged_records(
    seed: int, counts: list[int], alphabet: str, damages: list[tuple[int, int]], gap: int
) -> None:
    """Lanes may give up where jumps go on; they never find anything where jumps refuse, nor
    anything else.
    """
    body, *where = layout(
        batches_of(seed, counts, ALPHABETS[alphabet], 60, has_headers=seed % 2 == 0), gap
    )
    damaged = bytearray(body)
    for position, byte in damages:
        damaged[position % len(damaged)] = byte
    expected, found = (
        found_by("jumps", bytes(damaged), *where),
        found_by("lanes", bytes(damaged), *where),
    )
    assert found is None or found == expected


Row = tuple[int, int, bytes | None, bytes | None]


def rows_of_records(batch: bytes | bytearray) -> list[Row] | ErrorCode:
    """Return the rows from offset 0 on as the reader of single records sees them.

    Return its error code instead if it refuses.
    """
    try:
        return [
            (offset, timestamp, key, value)
            for offset, timestamp, key, value, _ in iterate_records(batch)
            if offset >= 0
        ]
    except KafkaError as error:
        return error.code


def rows_in_columns(batch: bytes | bytearray) -> list[Row] | ErrorCode:
    """Return the same of the columns."""
    try:
        (columns,) = iterate_record_batches([batch], *EVERYTHING, is_crc_checked=False)
    except KafkaError as error:
        return error.code
    timestamps = [
        -1 if value is None else value for value in columns["timestamp"].cast("int64").to_pylist()
    ]
    return list(
        zip(
            columns["offset"].to_pylist(),
            timestamps,
            columns["key"].to_pylist(),
            columns["value"].to_pylist(),
            strict=True,
        )
    )


@given(
    st.integers(0, 1 << 30),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=2),
    st.sampled_from(list(Codec)),
)
@settings(deadline=None, max_examples=30)
def test_columns_of_many_records_equal_the_records_or_are_refused_alike(
    seed: int, damages: list[tuple[int, int]], codec: Codec
) -> None:
    """The same as with few records, but with enough of them for lanes."""
    batch = bytearray(
        build_batch(
            records_of(seed, 700, ALPHABETS["text"], 80, has_headers=seed % 3 == 0), codec=codec
        )
    )
    for position, byte in damages:
        batch[HEADER_SIZE + position % (len(batch) - HEADER_SIZE)] = byte
    assert rows_in_columns(batch) == rows_of_records(batch)


def test_announced_counts_cost_nothing_before_they_are_checked() -> None:
    body = bytes(64)
    place = np.array([2**31 - 1], np.int64), np.array([0], np.int64), np.array([64], np.int64)
    with pytest.raises(KafkaError, match="announces 2147483647 records in 64 bytes"):
        walk.find_records(body, np.frombuffer(body, np.uint8), *place)


def test_jumps_name_the_batch_and_what_is_wrong_with_it() -> None:
    good, bad = (
        build_batch([NewRecord(0, None, b"v" * 20)] * 3),
        bytearray(build_batch([NewRecord(0, None, b"v" * 20)] * 3)),
    )
    bad[HEADER_SIZE] += 2
    with pytest.raises(KafkaError, match="batch 1 of those that were read is malformed"):
        list(iterate_record_batches([good, bad], *EVERYTHING, is_crc_checked=False))
