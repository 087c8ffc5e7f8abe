"""Values of Avro read in bulk: each has the row and the fault that reading it alone gives."""

import io
import json
import math
from collections.abc import Callable
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from orchestration.formats.avro_bulk import BULK_BYTES, bulk_reader, in_both
from orchestration.formats.avro_reading import spark_fields
from orchestration.formats.avro_resolving import resolving_reader
from orchestration.formats.avro_types import parse_avro, parse_written
from orchestration.formats.columns import arrow_schema, read_values
from orchestration.formats.prefixes import in_order

COLORS = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN", "BLUE"]}
TYPES: list[Any] = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "string",
    "bytes",
    COLORS,
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
]


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def fields_of(kinds: list[Any]) -> list[Any]:
    """Return a field of each type, plain, after null, before null, and as the only member."""
    found: list[Any] = []
    for number, kind in enumerate(kinds):
        named = kind if not isinstance(kind, dict) or "name" not in kind else "Color"
        found += [
            {"name": f"plain{number}", "type": kind},
            {"name": f"after{number}", "type": ["null", named], "default": None},
            {"name": f"before{number}", "type": [named, "null"]},
            {"name": f"only{number}", "type": [named]},
        ]
    return found


def some(random: Random, kind: Any) -> Any:
    """Return a value without its logical type."""
    name = kind["type"] if isinstance(kind, dict) else kind
    made: dict[str, Callable[[], Any]] = {
        "boolean": lambda: random.random() < 0.5,
        "int": lambda: random.choice([0, -1, 2**31 - 1, -(2**31), random.randint(-999, 999)]),
        "long": lambda: random.choice(
            [0, 2**62, -(2**63), 2**63 - 1, random.randint(-(2**40), 2**40)]
        ),
        "float": lambda: random.choice([0.0, -1.5, math.inf, 0.1]),
        "double": lambda: random.choice([0.0, -1.5, math.inf, 0.1]),
        "string": lambda: random.choice(["", "a", "träge", "x" * 200]),
        "bytes": lambda: random.randbytes(random.randint(0, 5)),
        "enum": lambda: random.choice(COLORS["symbols"]),
    }
    return made[name]()


def encoded(random: Random, kinds: list[Any], parsed: Any) -> bytes:
    row = {}
    for number, kind in enumerate(kinds):
        row[f"plain{number}"], row[f"only{number}"] = some(random, kind), some(random, kind)
        for place in ("after", "before"):
            row[f"{place}{number}"] = some(random, kind) if random.random() < 0.7 else None
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, row)
    return out.getvalue()


def both_ways(written: str, declared: str, values: list[bytes]) -> Any:
    """Return rows and faults in bulk and one by one, and how many values left no doubt."""
    other, own = parse_written(written), parse_avro(declared)
    columns = arrow_schema(spark_fields(own))
    read, bulk = resolving_reader(other, own, 1), bulk_reader(other, own, 1, columns)
    assert bulk is not None
    given = pa.array([b"", *(b"\7" + one for one in values), b""], pa.binary()).slice(
        1, len(values)
    )
    alone = read_values(given, read, columns)
    parts = in_both(given, bulk, lambda some_values: read_values(some_values, read, columns))
    return in_order(len(values), parts, columns), alone, len(parts[0][0])


def assert_equal(written: str, declared: str, values: list[bytes]) -> int:
    (rows, faults), (expected, told), count = both_ways(written, declared, values)
    assert faults.to_pylist() == told.to_pylist()
    assert rows.schema == expected.schema
    assert repr(rows.to_pylist()) == repr(expected.to_pylist())
    return int(count)


@pytest.mark.parametrize("seed", [0, 3, 11])
def test_whole_and_damaged_values_are_read_as_one_by_one(seed: int) -> None:
    """Each type in each union. Values may end early, go on, or have other bytes."""
    random = Random(seed)
    plain = [
        one["type"] if isinstance(one, dict) and "logicalType" in one else one for one in TYPES
    ]
    parsed = fastavro.parse_schema(json.loads(record(*fields_of(plain))))
    values = [encoded(random, TYPES, parsed) for _ in range(60)]
    whole = list(values)
    for value in whole:
        place = random.randrange(len(value))
        values += [
            value[:place],
            value + b"\0",
            value[:place] + random.randbytes(1) + value[place + 1 :],
            random.randbytes(random.randint(0, 30)),
        ]
    random.shuffle(values)
    text = record(*fields_of(TYPES))
    assert_equal(text, text, values)


@pytest.mark.parametrize("name", ["boolean", "int", "long", "float", "double", "string", "bytes"])
def test_values_that_fit_leave_no_doubt(name: str) -> None:
    """A NaN, too."""
    parsed = fastavro.parse_schema(json.loads(record(*fields_of([name]))))
    values = [encoded(Random(seed), [name], parsed) for seed in range(20)]
    text = record(*fields_of([name]))
    count = assert_equal(text, text, values)
    assert count == 20 or name == "long"
    nan = record({"name": "a", "type": "double"})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(nan)), {"a": math.nan})
    assert assert_equal(nan, nan, [out.getvalue()]) == 1


@pytest.mark.parametrize(
    ("written", "declared"),
    [
        ("int", "long"),
        ("int", "double"),
        ("long", "float"),
        ("long", "double"),
        ("float", "double"),
        ("string", "bytes"),
        ("bytes", "string"),
        (["null", "int"], "long"),
        ("int", ["null", "double"]),
        (["null", "string"], ["string", "null"]),
        (COLORS, {**COLORS, "symbols": ["GREEN", "OTHER"], "default": "OTHER"}),
        (COLORS, {**COLORS, "symbols": ["GREEN"]}),
        (TYPES[-2], {"type": "long", "logicalType": "timestamp-micros"}),
        (TYPES[-2], "long"),
        ("long", TYPES[-2]),
    ],
)
def test_values_become_those_of_the_declared_type(written: Any, declared: Any) -> None:
    """With fields that only one of the two has, in another order."""
    first = record({"name": "gone", "type": "string"}, {"name": "a", "type": written})
    second = record(
        {"name": "new", "type": ["null", "long"], "default": None},
        {"name": "b", "aliases": ["a"], "type": declared},
        {"name": "more", "type": TYPES[-2], "default": 5},
    )
    kind = written[1] if isinstance(written, list) else written
    bare = kind["type"] if isinstance(kind, dict) and "logicalType" in kind else kind
    plain = ["null", bare] if isinstance(written, list) else bare
    parsed = fastavro.parse_schema(
        json.loads(record({"name": "gone", "type": "string"}, {"name": "a", "type": plain}))
    )
    values, random = [], Random(1)
    for number in range(30):
        out = io.BytesIO()
        value = None if isinstance(written, list) and number % 3 == 0 else some(random, kind)
        fastavro.schemaless_writer(out, parsed, {"gone": "x", "a": value})
        values.append(out.getvalue())
    assert_equal(first, second, values)


def test_values_are_read_in_pieces_and_a_large_one_alone() -> None:
    """An index of each byte takes memory, and one value may be large."""
    text = record({"name": "a", "type": "string"})
    parsed, values = fastavro.parse_schema(json.loads(text)), []
    for size in (BULK_BYTES // 2, BULK_BYTES // 2, 3, BULK_BYTES + 1, 5, BULK_BYTES // 2):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"a": "x" * size})
        values.append(out.getvalue())
    assert assert_equal(text, text, values) == 5


def test_records_with_more_than_flat_fields_are_read_one_by_one() -> None:
    """Arrays, maps, records, decimals, UUIDs and unions of several types."""
    for kind in (
        {"type": "array", "items": "int"},
        {"type": "map", "values": "int"},
        {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]},
        {"type": "bytes", "logicalType": "decimal", "precision": 5},
        {"type": "string", "logicalType": "uuid"},
        ["int", "string"],
    ):
        text = record({"name": "a", "type": kind})
        own = parse_avro(text)
        assert bulk_reader(own, own, 0, arrow_schema(spark_fields(own))) is None
