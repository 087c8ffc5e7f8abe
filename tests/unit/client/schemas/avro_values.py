"""Hypothesis strategies: an Avro schema together with a value of it, of all types and logical
types.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, NamedTuple

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Typed(NamedTuple):
    """A schema, the strategy of its values, and the kind, of which a union holds one each."""

    schema: Any
    values: st.SearchStrategy[Any]
    kind: str


INSTANTS = st.integers(0, 10**15).map(
    lambda micros: datetime(1970, 1, 2, tzinfo=UTC) + timedelta(microseconds=micros)
)
MILLIS = INSTANTS.map(lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000))
PLAIN: tuple[Typed, ...] = (
    Typed("null", st.none(), "null"),
    Typed("boolean", st.booleans(), "boolean"),
    Typed("int", st.integers(-(2**31), 2**31 - 1), "int"),
    Typed("long", st.integers(-(2**63), 2**63 - 1), "long"),
    Typed("float", st.floats(width=32, allow_nan=False), "float"),
    Typed("double", st.floats(allow_nan=False), "double"),
    Typed("bytes", st.binary(max_size=20), "bytes"),
    Typed("string", st.text(max_size=20), "string"),
    Typed({"type": "int", "logicalType": "date"}, st.dates(date(1, 1, 1), date(9999, 1, 1)), "int"),
    Typed(
        {"type": "int", "logicalType": "time-millis"},
        st.builds(time, st.integers(0, 23), st.integers(0, 59)),
        "int",
    ),
    Typed({"type": "long", "logicalType": "time-micros"}, st.times(), "long"),
    Typed({"type": "long", "logicalType": "timestamp-millis"}, MILLIS, "long"),
    Typed({"type": "long", "logicalType": "timestamp-micros"}, INSTANTS, "long"),
    Typed({"type": "string", "logicalType": "uuid"}, st.uuids(), "string"),
    Typed(
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        st.integers(-(10**12) + 1, 10**12 - 1).map(lambda each: Decimal(each).scaleb(-3)),
        "bytes",
    ),
)


@st.composite
def typed_values(draw: Draw, *, depth: int = 3) -> tuple[Any, Any]:
    """Draw a schema and a value of it. Values of unions may name their branch by a tuple."""
    typed = draw(types(count(1), depth))
    return typed.schema, draw(typed.values)


def types(numbers: "count[int]", depth: int) -> st.SearchStrategy[Typed]:
    """Return a strategy of schemas. ``numbers`` make their names unique."""
    plain = st.sampled_from(PLAIN)
    named = st.builds(lambda make: make(next(numbers)), st.sampled_from((_enum, _fixed)))
    if depth == 0:
        return st.one_of(plain, named)
    inner = types(numbers, depth - 1)
    return st.one_of(
        plain, named, _arrays(inner), inner.map(_map), _records(inner, numbers), _unions(inner)
    )


def _enum(number: int) -> Typed:
    symbols = ["A", "B", "C"]
    return Typed(
        {"type": "enum", "name": f"E{number}", "symbols": symbols},
        st.sampled_from(symbols),
        f"E{number}",
    )


def _fixed(number: int) -> Typed:
    return Typed(
        {"type": "fixed", "name": f"F{number}", "size": 4},
        st.binary(min_size=4, max_size=4),
        f"F{number}",
    )


def _arrays(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """Return arrays whose items take bytes. Others are not read."""
    return inner.filter(lambda each: _has_bytes(each.schema)).map(_array)


def _has_bytes(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(_has_bytes(each["type"]) for each in schema["fields"])
    return bool(schema != "null")


def _array(inner: Typed) -> Typed:
    return Typed(
        {"type": "array", "items": inner.schema}, st.lists(inner.values, max_size=3), "array"
    )


def _map(inner: Typed) -> Typed:
    return Typed(
        {"type": "map", "values": inner.schema},
        st.dictionaries(st.text(max_size=4), inner.values, max_size=3),
        "map",
    )


def _records(inner: st.SearchStrategy[Typed], numbers: "count[int]") -> st.SearchStrategy[Typed]:
    def record(fields: list[Typed]) -> Typed:
        name = f"shop.R{next(numbers)}"
        schema = {
            "type": "record",
            "name": name,
            "fields": [{"name": f"f{i}", "type": each.schema} for i, each in enumerate(fields)],
        }
        return Typed(
            schema,
            st.fixed_dictionaries({f"f{i}": each.values for i, each in enumerate(fields)}),
            name,
        )

    return st.lists(inner, max_size=4).map(record)


def _unions(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def union(branches: list[Typed]) -> Typed:
        named = [
            st.tuples(st.just(each.kind), each.values)
            for each in branches
            if each.kind.startswith(("shop.", "string", "long"))
        ]
        plain = [each.values for each in branches]
        return Typed([each.schema for each in branches], st.one_of(*named, *plain), "union")

    no_unions = inner.filter(lambda each: each.kind != "union")
    return st.lists(no_unions, min_size=1, max_size=3, unique_by=lambda each: each.kind).map(union)
