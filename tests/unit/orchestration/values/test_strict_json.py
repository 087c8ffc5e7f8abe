"""A JSON value fits a schema, or has words for its fault.

``json.loads`` is the oracle for hostile ones.
"""

import random

import pyarrow as pa
import pytest
from pyspark.sql import types

from orchestration.values.plain_json import plain_schema, read_plain
from orchestration.values.strict_json import (
    MAX_DEPTH,
    MAX_NAME_LENGTH,
    MAX_NUMBER_LENGTH,
    StrictSchema,
)
from orchestration.values.value_check import ValueCheck
from tests.helpers.json_judge import hostile_value, is_fit

PLACE = types.StructType(
    [
        types.StructField("city", types.StringType()),
        types.StructField("level", types.IntegerType(), nullable=False),
    ]
)
PLAIN = [
    types.StructField("id", types.LongType(), nullable=False),
    types.StructField("ratio", types.DoubleType()),
    types.StructField("name", types.StringType()),
    types.StructField("is_open", types.BooleanType()),
]
NESTED = [
    *PLAIN,
    types.StructField("tags", types.ArrayType(types.StringType())),
    types.StructField("place", PLACE),
]
FIELDS = types.StructType(
    [
        *NESTED,
        types.StructField("small", types.ByteType()),
        types.StructField("share", types.FloatType()),
        types.StructField("price", types.DecimalType(10, 2)),
        types.StructField("seen", types.TimestampType()),
        types.StructField("day", types.DateType()),
        types.StructField("counts", types.MapType(types.StringType(), types.IntegerType())),
    ]
)
LONG = b"1" * (MAX_NUMBER_LENGTH + 1)


def with_field(member: bytes) -> bytes:
    return b'{"id": 1, ' + member + b"}"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "the value is null"),
        (b"\xff", "the value is not UTF-8 text"),
        (b"", "the value is not JSON"),
        (b"{", "the value is not JSON"),
        (b'{"id": NaN}', "the value is not JSON"),
        (b"\xef\xbb\xbf{}", "the value is not JSON"),
        (b'{"id": 1} x', "the value goes on after its JSON document"),
        (b'{"id": 1}{"id": 2}', "the value goes on after its JSON document"),
        (b'{"id": 1}]]]', "the value goes on after its JSON document"),
        (b'{"id": 1} \n', None),
        (b"[1]", "the value is not a JSON object"),
        (b"{}", "field id is required and missing"),
        (b'{"id": null}', "field id is required and null"),
        (b'{"id": 1, "id": 1}', "field id is given more than once"),
        (with_field(b'"unknown": 1, "unknown": 2'), None),
        (with_field(b'"small": 128'), "field small is not TINYINT"),
        (b'{"id": true}', "field id is not BIGINT"),
        (b'{"id": 1.0, "ratio": "x"}', "field id is not BIGINT; field ratio is not DOUBLE"),
        (with_field(b'"ratio": 1e400'), "field ratio is not DOUBLE"),
        (with_field(b'"ratio": 1' + b"0" * 308), None),
        (with_field(b'"ratio": 1' + b"0" * 309), "field ratio is not DOUBLE"),
        (with_field(b'"share": 3.4028235e38'), None),
        (with_field(b'"share": 3.4028236e38'), "field share is not FLOAT"),
        (with_field(b'"name": 5'), "field name is not STRING"),
        (with_field(b'"name": {"a": 1}'), "field name is not STRING"),
        (with_field(rb'"name": "\ud800"'), "field name is not STRING"),
        (with_field(rb'"unknown": "\ud800"'), None),
        (with_field(b'"is_open": "yes"'), "field is_open is not BOOLEAN"),
        (with_field(b'"price": "1.50"'), None),
        (with_field(b'"price": true'), "field price is not DECIMAL(10,2)"),
        (with_field(b'"seen": 5'), None),
        (
            with_field(b'"seen": 9223372036855'),
            "field seen is not TIMESTAMP: its year is not one of 1 to 9999 (epoch milliseconds?)",
        ),
        (with_field(b'"day": "20130101"'), "field day is not DATE: a day is written 2026-01-31"),
        (with_field(b'"tags": "x"'), "field tags is not ARRAY<STRING>"),
        (with_field(b'"tags": ["a", null]'), None),
        (with_field(b'"tags": ["a", 1]'), "field tags[] is not STRING"),
        (with_field(b'"place": {"level": "far"}'), "field place.level is not INT"),
        (with_field(b'"place": {"city": "c"}'), "field place.level is required and missing"),
        (with_field(b'"counts": {"a": 1, "b": null}'), None),
        (with_field(b'"counts": {"a": "1"}'), "field counts[] is not INT"),
        (with_field(b'"counts": {"a": 1, "a": 2}'), "field counts gives a key more than once"),
        (with_field(b'"unknown": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)), None),
        (
            with_field(b'"unknown": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH),
            "the value is nested deeper than 500 levels",
        ),
        (b"[" * 1_000_000, "the value is nested deeper than 500 levels"),
        (with_field(b'"unknown": "' + b"[" * 1_000 + b'"'), None),
        (with_field(b'"unknown": ' + LONG), "the value has a number of more than 1000 characters"),
        (
            with_field(b'"unknown": 0.' + LONG),
            "the value has a number of more than 1000 characters",
        ),
        (with_field(b'"unknown": "' + LONG + b'"'), None),
        (
            with_field(b'"' + b"n" * (MAX_NAME_LENGTH + 1) + b'": 1'),
            "the value has a field name of more than 50000 characters",
        ),
    ],
)
def test_the_fault_is_named_with_its_field(value: bytes | None, reason: str | None) -> None:
    assert StrictSchema(FIELDS).fault_of(value) == reason


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("is_nested", [False, True])
def test_what_fits_is_what_json_loads_reads_with_the_declared_types(
    seed: int, *, is_nested: bool
) -> None:
    rng = random.Random(seed)
    values = [hostile_value(rng) for _ in range(1_000)]
    fields = types.StructType(NESTED if is_nested else PLAIN)
    faults = StrictSchema(fields).faults_of(pa.array(values, pa.binary()))
    judged = [is_fit(value, is_nested=is_nested) for value in values]
    assert [
        value
        for value, fault, fits in zip(values, faults, judged, strict=True)
        if (fault is None) != fits
    ] == []
    assert 100 < sum(judged) < 900


@pytest.mark.parametrize("seed", range(10))
def test_what_arrow_is_certain_of_fits(seed: int) -> None:
    rng = random.Random(seed)
    values = [hostile_value(rng) for _ in range(500)]
    fields = types.StructType(PLAIN)
    schema = plain_schema(fields)
    assert schema is not None
    alone = [read_plain(pa.array([value], pa.binary()), schema)[1][0] for value in values]
    assert [
        value
        for value, is_plain in zip(values, alone, strict=True)
        if is_plain and not is_fit(value, is_nested=False)
    ] == []
    assert sum(alone) > 50
    together = read_plain(pa.array(values, pa.binary()), schema)[1]
    assert [
        value
        for value, is_plain in zip(values, together, strict=True)
        if is_plain and not is_fit(value, is_nested=False)
    ] == []


def test_the_verdict_in_bulk_is_the_verdict_on_each() -> None:
    rng = random.Random(1)
    values = pa.array([hostile_value(rng) for _ in range(2_000)], pa.binary())
    for fields in (types.StructType(PLAIN), types.StructType(NESTED)):
        assert ValueCheck(fields)(values).to_pylist() == StrictSchema(fields).faults_of(values)
