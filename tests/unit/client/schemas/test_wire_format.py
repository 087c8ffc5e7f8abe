"""The bytes that name a schema are Confluent's, in the prefix and in the header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.client import SerializationError
from log_service.client.schemas.wire_format import (
    Indexes,
    SchemaIdentity,
    header_value_of,
    prefix_of,
    read_identity,
)

GUID = "89791762-2336-4186-9674-299b90a802e2"
GUID_BYTES = bytes.fromhex(GUID.replace("-", ""))
INDEXES = st.lists(st.integers(0, 2**30), min_size=1, max_size=5).map(tuple)


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        ((), ""),
        ((0,), "00"),
        ((1,), "0202"),
        ((0, 0), "040000"),
        ((2, 1), "040402"),
        ((63, 64), "047e8001"),
        ((1, 0, 2**31 - 1), "060200feffffff0f"),
    ],
)
def test_a_schema_is_named_by_these_bytes(indexes: Indexes, expected: str) -> None:
    """The first message of a file is one byte, others are zigzag varints behind their count."""
    assert prefix_of(0x01020304, indexes) == bytes.fromhex("0001020304" + expected)
    assert header_value_of(GUID, indexes) == b"\x01" + GUID_BYTES + bytes.fromhex(expected)


@given(st.integers(0, 2**32 - 1), INDEXES, st.binary(max_size=5))
def test_what_is_written_is_read(schema_id: int, indexes: Indexes, payload: bytes) -> None:
    """With the payload as it was."""
    data = prefix_of(schema_id, indexes) + payload
    assert read_identity(data, (), is_key=False, has_indexes=True) == (
        SchemaIdentity(id=schema_id, indexes=indexes),
        payload,
    )
    header = ("__key_schema_id", header_value_of(GUID, indexes))
    assert read_identity(payload, [header], is_key=True, has_indexes=True) == (
        SchemaIdentity(guid=GUID, indexes=indexes),
        payload,
    )


def test_the_first_message_may_be_written_in_full() -> None:
    """Old writers do that."""
    assert read_identity(b"\x00\x00\x00\x00\x07\x02\x00x", (), is_key=False, has_indexes=True) == (
        SchemaIdentity(id=7, indexes=(0,)),
        b"x",
    )


def test_a_header_goes_before_the_prefix_and_the_last_one_counts() -> None:
    """Headers of the other part of the record, and null ones, say nothing."""
    data = prefix_of(7) + b"x"
    value = ("__value_schema_id", header_value_of(GUID))
    old = ("__value_schema_id", header_value_of("00000000-0000-0000-0000-000000000000"))
    by_id = ("__value_schema_id", prefix_of(9))
    assert read_identity(data, [old, value], is_key=False, has_indexes=False) == (
        SchemaIdentity(guid=GUID),
        data,
    )
    assert read_identity(data, [by_id], is_key=False, has_indexes=False) == (
        SchemaIdentity(id=9),
        data,
    )
    for headers in ([("__key_schema_id", value[1])], [("__value_schema_id", None)], []):
        assert read_identity(data, headers, is_key=False, has_indexes=False) == (
            SchemaIdentity(id=7),
            b"x",
        )


@pytest.mark.parametrize(
    "data",
    [
        "",
        "00",
        "00000000",
        "01",
        "0500000001",
        "7b7d",
        "01" + "00" * 15,
        "0000000001",
        "000000000180",
        "000000000104",
        "00000000010201",
        "0000000001" + "ff" * 9,
        "0000000001feffffff0f",
    ],
)
def test_bytes_that_name_no_schema_are_refused(data: str) -> None:
    """Too short, of another format, or with indexes that are none."""
    with pytest.raises(SerializationError, match="the bytes"):
        read_identity(bytes.fromhex(data), (), is_key=False, has_indexes=True)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No other error comes out of bytes of strangers."""
    for headers in ((), [("__value_schema_id", data)]):
        try:
            read_identity(data, headers, is_key=False, has_indexes=True)
        except SerializationError:
            continue
