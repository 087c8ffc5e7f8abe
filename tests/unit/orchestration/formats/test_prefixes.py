"""Prefixes of values with a schema registry: found in bulk, and values grouped by schema."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from orchestration.formats.prefixes import (
    NO_ID,
    by_schema,
    in_order,
    refused,
    schema_ids,
    without_prefix,
)
from orchestration.log_client.protocol import HEADERS


def framed(schema_id: int, payload: bytes = b"x") -> bytes:
    return struct.pack(">BI", 0, schema_id) + payload


def test_ids_are_those_of_each_value() -> None:
    """Null, short and foreign values have none, and a prefix alone has one."""
    values = [
        framed(1),
        None,
        b"",
        b"\0\0\0\1",
        framed(2**32 - 1),
        b"\1" + framed(7)[1:],
        framed(258, b""),
        b"{}    ",
    ]
    ids = schema_ids(pa.array(values, pa.binary()))
    assert ids.tolist() == [1, NO_ID, NO_ID, NO_ID, 2**32 - 1, NO_ID, 258, NO_ID]


@pytest.mark.parametrize("values", [[], [None], [b""], [b"", None]])
def test_values_without_bytes_have_no_id(values: list[bytes | None]) -> None:
    """A batch may hold no content at all."""
    assert schema_ids(pa.array(values, pa.binary())).tolist() == [NO_ID] * len(values)


def test_a_slice_of_a_batch_has_its_own_ids() -> None:
    """Arrow's slices share the buffers of the whole."""
    whole = pa.array([framed(number) for number in range(10)], pa.binary())
    assert schema_ids(whole.slice(3, 4)).tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize(
    "payloads", [[b"x"], [b""], [b"", b"abc", b"", b"0123456789"], [bytes(99)] * 5]
)
def test_a_payload_is_all_behind_the_prefix(payloads: list[bytes]) -> None:
    """Also of a slice, and where it is empty."""
    values = pa.array([framed(1), *(framed(2, one) for one in payloads), framed(3)], pa.binary())
    assert without_prefix(values.slice(1, len(payloads))).to_pylist() == payloads


def test_every_value_is_in_one_group() -> None:
    """Places within a group keep their order."""
    values = [framed(5), None, framed(2), framed(5), framed(2), framed(5)]
    groups = {named: places.tolist() for named, places in by_schema(pa.array(values, pa.binary()))}
    assert groups == {None: [1], 2: [2, 4], 5: [0, 3, 5]}
    assert list(by_schema(pa.array([], pa.binary()))) == []


def test_a_header_goes_before_a_prefix() -> None:
    """The last header of the name counts, if it has content. A null value names no schema."""
    headers = [
        [("id", b"A"), ("other", b"X"), ("id", b"B")],
        None,
        [("id", None)],
        [("id", b"A")],
        [("id", b"A"), ("id", None)],
        [("id", b"B")],
    ]
    values = [framed(5), framed(5), b"{}", b"{}", b"{}", None]
    found = {
        named: places.tolist()
        for named, places in by_schema(
            pa.array([b"", *values, b""], pa.binary()).slice(1, 6),
            pa.array([[("id", b"C")], *headers, None], HEADERS).slice(1, 6),
            "id",
        )
    }
    assert found == {5: [1], None: [2, 5], b"A": [3, 4], b"B": [0]}


def test_rows_and_faults_of_groups_are_in_the_order_of_their_values() -> None:
    """Values at fault have no row."""
    schema = pa.schema([("id", pa.int64())])
    first = (
        np.array([0, 3, 4]),
        pa.table({"id": [10, 14]}, schema),
        pa.array([None, "damaged", None], pa.string()),
    )
    second = np.array([1, 5]), pa.table({"id": [11, 15]}, schema), pa.nulls(2, pa.string())
    third = np.array([2]), *refused(1, "unknown", schema)
    table, faults = in_order(6, [third, second, first], schema)
    assert table["id"].to_pylist() == [10, 11, 14, 15]
    assert faults.to_pylist() == [None, None, "unknown", "damaged", None, None]
