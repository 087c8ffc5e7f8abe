"""Hostile schemas cost bounded work, and are refused with a sentence."""

from typing import Any

import pytest

from log_service.http.schema_registry.languages.avro.schema import AvroLanguage
from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.limits import SchemaLimits
from tests.unit.http.schema_registry.languages.avro.schemas import enum, field, parsed, record, text

NESTING = SchemaLimits().nesting
MEGABYTE = SchemaLimits().text_bytes


def nested(depth: int) -> Any:
    """Return a record in a record in a record."""
    schema: Any = "int"
    for number in range(depth):
        schema = record(f"R{number}", field("a", schema))
    return schema


def chain(count: int, *, is_forward: bool) -> list[Any]:
    """Return records of which each refers to the next, or to the one before."""
    records = [record(f"R{number}", field("a", f"R{number + 1}")) for number in range(count)]
    chained = [*records, record(f"R{count}")]
    return chained if is_forward else chained[::-1]


def doubled(count: int, last: str) -> list[Any]:
    """Return texts of records of which each has two fields of the one before."""
    first = record("R0", field("x", last))
    return [
        first,
        *(
            record(f"R{one}", field("a", f"R{one - 1}"), field("b", f"R{one - 1}"))
            for one in range(1, count)
        ),
    ]


def values_of(depth: int) -> str:
    return f'{{"type":"int","p":{"[" * depth}{"]" * depth}}}'


def called_deep(depth: int, schema: Any) -> str:
    """Parse and print below so many frames of Python's stack."""
    if depth:
        return called_deep(depth - 1, schema)
    return parsed(schema).normalized()


@pytest.mark.parametrize(
    "schema", [nested(NESTING), values_of(3 * NESTING - 1), chain(NESTING - 1, is_forward=True)]
)
def test_the_deepest_schema_needs_no_deeper_stack(schema: Any) -> None:
    """A server has frames of its own below."""
    assert called_deep(250, schema)


TOO_DEEP: dict[str, Any] = {
    "records": nested(NESTING + 1),
    "arrays": '{"type":"array","items":' * (NESTING + 1) + '"int"' + "}" * (NESTING + 1),
    "unions": "[" * (NESTING + 2) + "]" * (NESTING + 2),
    "brackets": "[" * MEGABYTE,
    "values": values_of(3 * NESTING),
    "names that lead forward": chain(NESTING + 1, is_forward=True),
}


@pytest.mark.parametrize("schema", TOO_DEEP.values(), ids=TOO_DEEP)
def test_a_deeper_schema_is_refused(schema: Any) -> None:
    """The bound is on types, and on brackets around these."""
    with pytest.raises(InvalidSchemaError, match=r"nested deeper than 100|more than 300 brackets"):
        parsed(schema)


def test_names_may_lead_back_through_many_records() -> None:
    """These are printed flat, and compared without a deep stack."""
    schema = parsed(chain(2_000, is_forward=False))
    assert schema.normalized() == schema.formatted("resolved") == schema.canonical


def test_references_may_lead_on_through_many_texts() -> None:
    """Their types are printed inside each other where they are resolved."""
    texts = doubled(900, "int")
    schema = parsed('"R899"', *texts)
    assert schema.differences(parsed('"R899"', *texts)) == []
    assert len(schema.formatted("resolved")) > len(text(texts)) / 2


def test_differences_that_double_are_bounded() -> None:
    """Java lists the reasons of a pair for each of its uses: two to the power of thirty here."""
    reader, writer = parsed('"R29"', *doubled(30, "int")), parsed('"R29"', *doubled(30, "string"))
    with pytest.raises(InvalidSchemaError, match="takes more than 200000 steps"):
        reader.differences(writer)


def test_defaults_that_double_are_bounded() -> None:
    """Each default leads to two more."""
    records = doubled(60, "int")
    records[0]["fields"][0]["default"] = 1
    for each in records[1:]:
        for one in each["fields"]:
            one["default"] = {}
    with pytest.raises(InvalidSchemaError, match="takes more than 200000 steps"):
        parsed(records)


def aliases(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


WIDE: dict[str, tuple[Any, Any]] = {
    "unions": ([record(f"A{each}") for each in range(1_000)],) * 2,
    "symbols": ([enum(f"E{each}", *aliases(100)) for each in range(500)],) * 2,
    "aliases of a field": (record("A", field("f", "int", aliases=aliases(20_000))), [record(f"B{each}") for each in range(1_000)]),
    "aliases of a record": (record("A", aliases=aliases(20_000)), [record(f"B{each}") for each in range(1_000)]),
    "long reasons": (record("R", *(field(f"f{each}", "E") for each in range(2_000)), field("e", enum("E", "A"))),
                     record("R", *(field(f"f{each}", "E") for each in range(2_000)), field("e", enum("E", *aliases(2_000))))),
}  # fmt: skip


@pytest.mark.parametrize(("reader", "writer"), WIDE.values(), ids=WIDE)
def test_a_comparison_of_wide_schemas_is_bounded(reader: Any, writer: Any) -> None:
    """Each of them would take millions of steps, or gigabytes of text."""
    with pytest.raises(InvalidSchemaError, match="takes more than 200000 steps"):
        parsed(reader).differences(parsed(writer))


@pytest.mark.parametrize(("count", "width"), [(100, 50), (200, 5)])
def test_a_union_of_many_events_is_compared(count: int, width: int) -> None:
    """A topic of several kinds of events has such a schema."""
    fields = [field(f"f{number}", ["null", "string"], default=None) for number in range(width)]
    events = [record(f"Event{number}", *fields) for number in range(count)]
    assert parsed(events).differences(parsed(events[::-1])) == []


LONG = {
    "comments without an end": "/*" * (MEGABYTE // 2),
    "a text of escapes without an end": '"' + '\\"' * (MEGABYTE // 2 - 1),
    "digits": "1" * MEGABYTE,
    "a name": f'"{"a" * (MEGABYTE - 2)}"',
    "a bad name": f'{{"type":"fixed","size":1,"name":"{"-" * (MEGABYTE - 50)}"}}',
    "empty unions": f"[{'[],' * (MEGABYTE // 3 - 1)}[]]",
    "a byte too many": f'{{"type":"int","doc":"{"ä" * (MEGABYTE // 2)}"}}',
    "half a surrogate pair": '"\ud800"',
}


@pytest.mark.parametrize("written", LONG.values(), ids=LONG)
def test_a_long_text_is_refused_with_a_short_sentence(written: str) -> None:
    """The sentence can be sent."""
    with pytest.raises(InvalidSchemaError) as refused:
        parsed(written)
    assert len(str(refused.value).encode()) < 1_000


def test_the_number_of_references_is_bounded() -> None:
    """The bound is a setting of the language."""
    language = AvroLanguage(limits=SchemaLimits(reference_count=1))
    with pytest.raises(InvalidSchemaError, match="more than 1 references"):
        language.parse(
            '"int"', [NamedSchema(name=name, text=f'"{name}"') for name in ("int", "long")]
        )
