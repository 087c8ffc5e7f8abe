"""Documents that Arrow parses fit, and Spark would have parsed them alike.

The same documents go through both, hostile ones among them.
"""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from orchestration.spark.source import FAULT, SOURCE_SCHEMA, source_ddl
from orchestration.transforms.batch.parsing import MISFIT, parse
from orchestration.values.ddl import parse_ddl
from orchestration.values.plain_json import FEW_RECORDS, plain_schema, read_plain
from orchestration.values.strict_json import StrictSchema

pytestmark = pytest.mark.platform

TIMES = (
    *(
        "2013-01-01T05:00:00Z",
        "2013-01-01 05:00:00.123456Z",
        "2013-01-01T05:00:00.1",
        "2013-01-01T05:00:00",
        "2013-01-01",
    ),
    *(
        "2013-01-01T05Z",
        "2013-01-01T05:00Z",
        "2013-01-01T05:00",
        "2013-01-01T05:00:00+02:00",
        "2013-01-01T05:00:00+19:00",
    ),
    *(
        "2013-01-01T05:00:00-0230",
        "2013-01-01T05:00:00.1234567Z",
        "2013-02-30T05:00:00Z",
        "2013-01-01T24:00:00Z",
        "",
        "Z",
    ),
    *(
        "1582-10-10T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "2013-1-1",
    ),
    *(
        "2013-01-01T05:00:00 Z",
        "2013-01-01T05:00:00.Z",
        "2013-01-01 05:00:00 UTC",
        "+2013-01-01T05:00:00Z",
        "2013-01-01T23:59:60Z",
    ),
)
TOKENS: dict[str, tuple[str, ...]] = {
    "BIGINT": (
        "5",
        "-0",
        "9223372036854775807",
        "9223372036854775808",
        '"5"',
        "5.0",
        "1e3",
        "true",
        "null",
        "[]",
        "{}",
        "01",
        "+1",
        "NaN",
    ),
    "INT": ("2147483647", "-2147483648", "2147483648", "5"),
    "SMALLINT": ("32767", "32768"),
    "TINYINT": ("127", "-128", "128"),
    "DOUBLE": (
        *(
            "5",
            "-0",
            "-0.0",
            "0.1",
            "1e-400",
            "1e400",
            "9007199254740993",
            "2.2250738585072011e-308",
            "123456789012345678901234567890",
        ),
        *('"5"', "NaN", "Infinity", "-Inf", '"NaN"', ".5", "5.", "true", "null"),
    ),
    "BOOLEAN": ("true", "false", '"true"', "1", "null"),
    "STRING": (
        *(
            '"a"',
            '""',
            "1",
            "1.0",
            "true",
            "null",
            '{"x": 1}',
            "[1, 2]",
            r'"\u00e4\n\u0000\/\b"',
            r'"\ud800"',
            r'"\ud83d\ude00"',
        ),
        *('"a\tb"', '"\x7f\u2028\ufeff"', r'"\x"', '"NaN and Infinity"', '"}{"'),
    ),
    "TIMESTAMP": (*(json.dumps(text) for text in TIMES), "5", "null"),
    "DATE": (
        '"2013-01-01"',
        '"1582-10-10"',
        '"0001-01-01"',
        '"2013-02-29"',
        '"2013-1-1"',
        '"2013-01-01T00"',
        '"20130101  "',
        "5",
        "null",
    ),
}
DOCUMENTS = (
    b'{"a":1}{"a":2}',
    b'{"a":1} x',
    b'{"a":1',
    b'{"a":1}\n{"a":2}',
    b' {"a":1} ',
    b'{"a":\n1}',
    b'{"a":1}\r',
    b'[{"a":1}]',
    b'{"a":1,}',
    b"{a:1}",
    b"{'a':1}",
    b'{"a":1}//c}',
    b'{"a":1,"a":2}',
    b'{"b":1,"a":1,"b":2}',
    b'{"A":1}',
    b'{"\\u0061":1}',
    b'{"b":NaN,"a":1}',
    b'{"b":-Infinity,"a":1}',
    b'{"b":"\xff","a":1}',
    b'{"b":"\xed\xa0\x80","a":1}',
    b'{"b":"\x00","a":1}',
    b'{"b":{"a":2},"a":1}',
    b'{"":1,"a":1}',
    b"{}",
    b"{",
    b"}",
    b"",
    b"null",
    b"1",
    b"\xef\xbb\xbf{}",
    b'{"b":{}',
    b'{"a":1}}',
    b'{"u":{"a":1}',
    b'{"b":' + b"[" * 1_000 + b"]" * 1_000 + b',"a":1}',
    b'{"b":' + b"[" * 998 + b"]" * 998 + b',"a":1}',
    b'{"b":' + b"[" * 500 + b"]" * 500 + b',"a":1}',
    b'{"b":' + b"[" * 499 + b"]" * 499 + b',"a":1}',
    b'{"b":1e400,"a":1}',
    b'{"b":"' + b"[" * 2_000 + b'","a":1}',
    b'{"b":' + b"1" * 1_001 + b',"a":1}',
    b'{"b":0.' + b"1" * 1_001 + b',"a":1}',
    b'{"b":"' + b"x" * 60_000 + b'","a":1}',
    b'{"b":"' + b"x" * 2_000 + b'","a":1}',
)


def by_spark(session: Any, values: list[bytes | None], ddl: str) -> tuple[pa.Table, list[bool]]:
    """Return the fields as Spark parses them, and which records misfit."""
    count, fields = len(values), parse_ddl(ddl)
    faults = StrictSchema(fields).faults_of(pa.array(values, pa.binary()))
    columns = [
        ["t"] * count,
        [0] * count,
        range(count),
        [0] * count,
        [0] * count,
        [None] * count,
        values,
        [[]] * count,
        faults,
    ]
    schema = SOURCE_SCHEMA.append(pa.field(FAULT, pa.string()))
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    records = session.createDataFrame(
        pa.table(arrays, schema=schema), schema=f"{source_ddl(has_headers=True)}, {FAULT} STRING"
    )
    found = parse(records, fields).decided().toArrow().sort_by("_offset")
    return found, found[MISFIT].to_pylist()


def assert_same(session: Any, values: list[bytes | None], ddl: str) -> list[bool]:
    """Compare both, the values as one batch and each alone, and return which were without doubt
    alone.
    """
    schema = plain_schema(parse_ddl(ddl))
    assert schema is not None
    spark, is_misfit = by_spark(session, values, ddl)
    batches = [(pa.array(values, pa.binary()), list(range(len(values))))]
    batches += [
        (pa.array([value], pa.binary()), [position]) for position, value in enumerate(values)
    ]
    plain_alone: list[bool] = []
    for batch, positions in batches:
        table, is_plain = read_plain(batch, schema)
        plain_alone += is_plain.tolist()
        kept = [
            position for position, plain in zip(positions, is_plain.tolist(), strict=True) if plain
        ]
        assert [values[position] for position in kept if is_misfit[position]] == []
        expected = spark.take(pa.array(kept, pa.int64())).select(table.column_names)
        for name in table.column_names:
            assert as_bits(table[name]) == as_bits(expected[name].cast(table[name].type)), (
                name,
                [values[one] for one in kept],
            )
    return plain_alone[len(values) :]


def as_bits(column: pa.ChunkedArray) -> list[object]:
    """Return values that are equal only if they are the same.

    -0.0 is not 0.0; days before the year 1 are numbers.
    """
    if pa.types.is_floating(column.type):
        return [None if one is None else one.hex() for one in column.to_pylist()]
    if pa.types.is_temporal(column.type):
        return list(
            pc.cast(column, pa.int32() if pa.types.is_date(column.type) else pa.int64()).to_pylist()
        )
    return list(column.to_pylist())


@pytest.mark.parametrize("kind", TOKENS)
def test_every_token_is_read_as_spark_reads_it_or_left_to_spark(spark: Any, kind: str) -> None:
    values: list[bytes | None] = [b'{"a":%s}' % token.encode() for token in TOKENS[kind]]
    assert any(assert_same(spark, values, f"a {kind}"))


def test_every_document_is_read_as_spark_reads_it_or_left_to_spark(spark: Any) -> None:
    assert_same(spark, [*DOCUMENTS, None], "a BIGINT")
    assert_same(spark, [*DOCUMENTS, None], "a BIGINT NOT NULL, b STRING")


def test_records_without_doubt_are_found_among_those_in_doubt() -> None:
    values: list[bytes | None] = [
        json.dumps({"a": number, "b": f"text {number}"}).encode() for number in range(3_000)
    ]
    values[1_000], values[2_999] = b'{"a":"x"}', b"{}"
    schema = plain_schema(parse_ddl("a BIGINT NOT NULL, b STRING"))
    assert schema is not None
    table, flags = read_plain(pa.array(values, pa.binary()), schema)
    assert table.num_rows == flags.sum()
    assert flags.sum() >= 3_000 - 2 * FEW_RECORDS
    assert not flags[1_000]
    assert not flags[2_999]
    assert [f"text {number}" for number in table["a"].to_pylist()] == table["b"].to_pylist()


@pytest.mark.parametrize(
    "kind", ["STRUCT<b: INT>", "ARRAY<INT>", "MAP<STRING, INT>", "FLOAT", "BINARY", "TIMESTAMP_NTZ"]
)
def test_types_without_proof_are_left_to_spark(kind: str) -> None:
    assert plain_schema(parse_ddl(f"a {kind}")) is None
