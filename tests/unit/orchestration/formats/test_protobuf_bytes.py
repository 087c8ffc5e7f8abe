"""Random bytes as Protobuf values are rows, or have a reason that a reader gives.

Most of them are fields that the message has.
"""

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from orchestration.formats import ProtobufSchema, protobuf_schema
from orchestration.formats.descriptors import find_message

BODY = """
import "google/protobuf/timestamp.proto";
enum Kind { A = 0; B = 1; }
message In {
  optional string text = 1; optional Kind kind = 2; optional google.protobuf.Timestamp at = 3; map<int32, string> texts = 4;
  map<bool, google.protobuf.Timestamp> times = 5; repeated string words = 6;
}
message Mixed {
  optional string text = 1; optional Kind kind = 2; optional google.protobuf.Timestamp at = 3; map<string, string> texts = 4;
  map<string, In> within = 5; repeated In more = 6; repeated google.protobuf.Timestamp times = 7; optional In one = 8;
  map<uint64, google.protobuf.Timestamp> by_number = 9; optional uint64 number = 10; oneof either { In left = 11; string right = 12; }
"""
ONLY = {
    "proto2": "map<string, Need> needs = 13; repeated Need needed = 14; optional group G = 15 { optional string text = 1; } } "
    "message Need { required int32 id = 1; required string text = 2; }",
    "proto3": "map<string, Kind> needs = 13; repeated Kind needed = 14; string plain = 15; }",
}
REASONS = ("the value is not a Mixed: ", "the value lacks required fields: ", "field ")


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def packed(number: int, inside: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(inside)) + inside


def counted(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def either_of(*pieces: st.SearchStrategy[bytes], most: int) -> st.SearchStrategy[bytes]:
    return st.lists(st.one_of(*pieces), max_size=most).map(b"".join)


TAGS = st.integers(1, 15)
NUMBERS = st.integers(0, 3) | st.integers(0, 2**64 - 1) | st.integers(2**64 - 3, 2**64 - 1)
TEXTS = st.sampled_from([b"", b"\x08\1", b"\x10\1", b"\x08\2", b"\x78\1", b"\x10\x7f"])
"""Each is UTF-8 and a message, too, and so a value of either."""
DAMAGED = st.sampled_from([b"\xff", b"\xed\xa0\x80"]) | st.binary(max_size=4)
LEAVES = st.builds(packed, TAGS, TEXTS) | st.builds(counted, TAGS, NUMBERS)
TIMES = st.builds(lambda seconds, nanos: counted(1, seconds) + counted(2, nanos), NUMBERS, NUMBERS)
KEYS = st.builds(packed, st.just(1), TEXTS) | st.builds(counted, st.just(1), NUMBERS)
FAULTY = st.builds(packed, TAGS, DAMAGED) | st.builds(packed, st.just(1), DAMAGED)


def around(inside: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Return messages whose fields have values, or keys and values, of ``inside``."""
    entries = st.builds(lambda key, value: key + packed(2, value), KEYS | FAULTY, inside | TEXTS)
    return either_of(st.builds(packed, TAGS, inside | entries | TIMES), LEAVES, most=5)


WHOLE = st.recursive(either_of(LEAVES, LEAVES, LEAVES, FAULTY, most=3), around, max_leaves=12)
VALUES = st.one_of(
    WHOLE,
    WHOLE,
    st.builds(lambda value, more: value + more, WHOLE, DAMAGED | FAULTY),
    st.binary(max_size=20),
)


@pytest.fixture(scope="module", params=["proto2", "proto3"])
def mixed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ProtobufSchema:
    file = tmp_path_factory.mktemp("schemas") / "mixed.proto"
    file.write_text(f'syntax = "{request.param}"; {BODY} {ONLY[request.param]}')
    return protobuf_schema(file, message="Mixed")


@pytest.fixture(scope="module")
def message(mixed: ProtobufSchema) -> Any:
    return GetMessageClass(find_message(mixed.descriptors, mixed.message))


@given(values=st.lists(VALUES, min_size=1, max_size=4))
def test_any_bytes_are_a_row_or_have_a_reason_and_the_values_beside_them_are_read_as_alone(
    mixed: ProtobufSchema, message: Any, values: list[bytes]
) -> None:
    table, faults = mixed.read(pa.array(values, pa.binary()))
    alone = [mixed.read(pa.array([value], pa.binary())) for value in values]
    assert str(table.to_pylist()) == str([row for one, _ in alone for row in one.to_pylist()])
    assert faults.to_pylist() == [fault for _, one in alone for fault in one.to_pylist()]
    assert table.num_rows == faults.null_count
    assert all(fault.as_py().startswith(REASONS) for fault in faults.drop_null())
    for value, fault in zip(values, faults.to_pylist(), strict=True):
        try:
            message.FromString(value)
        except DecodeError:
            assert fault is not None
            assert fault.startswith(REASONS[0])
