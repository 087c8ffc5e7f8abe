"""Reading many records at once and one by one gives the same records.

Both refuse the same ones, and go on at the same places.
"""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from log_service.client.consumer import record_rows
from log_service.client.consumer.record_reader import RecordReader
from log_service.client.consumer.records import ConsumerRecord, RecordDeserializationError
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.records.batch import (
    HEADER_SIZE,
    OpenBatch,
    iterate_headers,
    iterate_records,
    open_batch,
)
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord
from tests.unit.records.strategies import CODECS, NEW_RECORDS

PLACE = TopicPartition("orders", 3)


def opened(batches: list[bytes]) -> list[OpenBatch]:
    view = memoryview(b"".join(batches))
    return [open_batch(view, at, header) for at, header in iterate_headers(view)]


def taken_from(rows: Any) -> tuple[list[ConsumerRecord], ErrorCode | None]:
    taken: list[ConsumerRecord] = []
    try:
        taken.extend(rows)
    except KafkaError as error:
        return taken, error.code
    return taken, None


def many_at_once(batches: list[OpenBatch]) -> tuple[list[ConsumerRecord], ErrorCode | None]:
    try:
        rows = record_rows.many_rows(record_rows.fields_module(), batches, PLACE)  # type: ignore[arg-type]
    except KafkaError as error:
        return [], error.code
    return taken_from(rows)


def one_after_the_other(batches: list[OpenBatch]) -> tuple[list[ConsumerRecord], ErrorCode | None]:
    return taken_from(row for batch in batches for row in record_rows.single_rows(batch, PLACE))


@given(
    st.lists(
        st.tuples(st.lists(NEW_RECORDS, min_size=1, max_size=20), CODECS), min_size=1, max_size=4
    ),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_both_ways_yield_the_same_records(
    lists: list[tuple[list[NewRecord], Codec]], is_append_time: bool
) -> None:
    append_time_ms = 77 if is_append_time else None
    batches = opened(
        [
            build_batch(
                records,
                codec=codec,
                base_offset=100 * number,
                leader_epoch=9,
                append_time_ms=append_time_ms,
            )
            for number, (records, codec) in enumerate(lists)
        ]
    )
    rows, code = many_at_once(batches)
    assert code is None
    assert (rows, code) == one_after_the_other(batches)
    assert all(type(row) is ConsumerRecord for row in rows)
    assert all(type(row.value) in {bytes, type(None)} for row in rows)


@given(
    st.integers(0, 1 << 30),
    st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), min_size=1, max_size=3),
)
@example(0, [(3, 0xFF)])
@settings(deadline=None, max_examples=100)
def test_what_one_way_refuses_the_other_does(seed: int, damages: list[tuple[int, int]]) -> None:
    records = [
        NewRecord(
            5, b"key", b"value" * (seed % 7), (("name", b"x"), ("none", None)) if n % 3 else ()
        )
        for n in range(40)
    ]
    batch = bytearray(build_batch(records))
    for position, byte in damages:
        batch[HEADER_SIZE + position % (len(batch) - HEADER_SIZE)] = byte
    batches = opened([bytes(batch)])
    rows, code = many_at_once(batches)
    expected, expected_code = one_after_the_other(batches)
    assert code == expected_code
    if code is None:
        assert rows == expected


def reader_of(buffer: bytes, position: int = 0, deserializer: Any = None) -> RecordReader:
    return RecordReader(
        PLACE, buffer, position, aborted=None, check_crcs=True, deserializers=(None, deserializer)
    )


def batch_of(base_offset: int, count: int, leader_epoch: int = 0) -> bytes:
    records = [NewRecord(1, None, b"%d" % (base_offset + n)) for n in range(count)]
    return build_batch(records, base_offset=base_offset, leader_epoch=leader_epoch)


def read_all(reader: RecordReader, portion: int) -> list[int]:
    offsets: list[int] = []
    is_empty = False
    while not is_empty:
        taken: list[ConsumerRecord] = []
        is_empty = reader.read_into(taken, portion)
        assert len(taken) <= portion
        offsets += [record.offset for record in taken]
        assert not taken or reader.position > taken[-1].offset
    return offsets


@pytest.mark.parametrize("portion", [1, 7, 1000, 5000])
@pytest.mark.parametrize("position", [0, 150, 700, 2999])
def test_a_reader_hands_out_every_record_once_from_its_position_on(
    position: int, portion: int
) -> None:
    """Batches of several epochs, some of them too few for arrays, with a gap before the last."""
    buffer = (
        batch_of(0, 600)
        + batch_of(600, 3)
        + batch_of(603, 397, leader_epoch=1)
        + batch_of(2000, 1000, leader_epoch=1)
    )
    reader = reader_of(buffer, position)
    assert read_all(reader, portion) == [
        offset for offset in [*range(1000), *range(2000, 3000)] if offset >= position
    ]
    assert (reader.position, reader.leader_epoch) == (3000, 1)


def test_a_damaged_batch_raises_after_the_records_before_it() -> None:
    damaged = bytearray(batch_of(500, 500))
    damaged[-3] ^= 1
    reader = reader_of(batch_of(0, 500) + damaged + batch_of(1000, 500))
    taken: list[ConsumerRecord] = []
    with pytest.raises(
        KafkaError, match="the batch at offsets 500 to 999 cannot be read: its checksum"
    ):
        reader.read_into(taken, 2000)
    assert (len(taken), reader.position) == (500, 500)


def test_a_malformed_record_raises_after_the_records_before_it() -> None:
    malformed = bytearray(batch_of(0, 1000))
    last = malformed.rindex(b"999")
    malformed[last - 1] = 0x7E  # longer than the record
    reader = RecordReader(
        PLACE, malformed, 0, aborted=None, check_crcs=False, deserializers=(None, None)
    )
    taken: list[ConsumerRecord] = []
    with pytest.raises(KafkaError) as refused:
        reader.read_into(taken, 2000)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert (len(taken), reader.position) == (999, 999)


def test_a_deserializer_that_fails_is_met_again_at_its_record() -> None:
    def refuse_700(value: bytes) -> int:
        if value == b"700":
            raise ValueError(value)
        return int(value)

    reader = reader_of(batch_of(0, 1000), 0, refuse_700)
    taken: list[ConsumerRecord] = []
    for _ in range(2):
        with pytest.raises(RecordDeserializationError):
            reader.read_into(taken, 2000)
        assert (len(taken), reader.position) == (700, 700)
    assert [record.value for record in taken] == list(range(700))


def test_records_are_the_same_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = batch_of(0, 2000)
    monkeypatch.setattr(record_rows, "fields_module", lambda: None)
    assert read_all(reader_of(buffer), 300) == list(range(2000))
    assert [record.value for record in iterate_records(buffer)][:2] == [b"0", b"1"]


@pytest.mark.parametrize("use_numpy", [True, False])
def test_numpy_is_left_alone_where_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, *, use_numpy: bool
) -> None:
    """It takes 20 MB of a process that shows a few records."""
    asked: list[bool] = []
    monkeypatch.setattr(record_rows, "fields_module", lambda: asked.append(True))
    records = [NewRecord(1_000, b"k", b"v")] * (2 * record_rows.MIN_RECORD_COUNT)
    reader = RecordReader(
        PLACE,
        build_batch(records),
        0,
        aborted=None,
        check_crcs=True,
        use_numpy=use_numpy,
        deserializers=(None, None),
    )
    taken: list[ConsumerRecord] = []
    assert reader.read_into(taken, 10 * len(records))
    assert (len(taken), bool(asked)) == (len(records), use_numpy)
