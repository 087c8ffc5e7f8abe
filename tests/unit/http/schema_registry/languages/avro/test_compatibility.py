"""A reader reads a writer by the verdicts of Java's ``SchemaCompatibility``."""

from typing import Any

import pytest

from log_service.http.schema_registry.languages.language import Difference
from tests.unit.http.schema_registry.languages.avro.schemas import (
    enum,
    field,
    fixed,
    parsed,
    record,
    text,
)

KINDS = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
READ_ALSO = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}


@pytest.mark.parametrize("reader", KINDS)
@pytest.mark.parametrize("writer", KINDS)
def test_which_kind_reads_which(reader: str, writer: str) -> None:
    """A number is read as a wider one, and bytes as text."""
    found = parsed(f'"{reader}"').differences(parsed(f'"{writer}"'))
    expected = (
        []
        if reader == writer or writer in READ_ALSO.get(reader, set())
        else [("TYPE_MISMATCH", "/")]
    )
    assert [(each.kind, each.path) for each in found] == expected


def differences(reader: Any, writer: Any) -> list[Difference]:
    return parsed(text(reader)).differences(parsed(text(writer)))


def items(described: Any) -> dict[str, Any]:
    return {"type": "array", "items": described}


def values(described: Any) -> dict[str, Any]:
    return {"type": "map", "values": described}


A = field("a", "int")
NEXT = field("next", ["null", "R"])
COMPATIBLE: dict[str, tuple[Any, Any]] = {
    "a field with a default more": (record("R", A, field("b", "int", default=1)), record("R", A)),
    "a field less": (record("R"), record("R", A)),
    "fields in another order": (
        record("R", A, field("b", "int")),
        record("R", field("b", "int"), A),
    ),
    "an alias of a field": (record("R", field("b", "long", aliases=["x", "a"])), record("R", A)),
    "another namespace": (record("b.R", A), record("a.R", A)),
    "an alias of a record": (record("S", A, aliases=["R"]), record("R", A)),
    "an alias with a namespace": (record("b.S", A, aliases=["a.R"]), record("a.R", A)),
    "an error for a record": ({"type": "error", "name": "R", "fields": []}, record("R")),
    "a symbol more": (enum("E", "A", "B"), enum("E", "A")),
    "a symbol less with a default": (enum("E", "A", default="A"), enum("E", "A", "B")),
    "an alias of an enum": (enum("F", "A", aliases=["E"]), enum("E", "A")),
    "a fixed in another namespace": (fixed("b.F", 2), fixed("a.F", 2)),
    "items and values": (items(values("long")), items(values("int"))),
    "a branch more": (["null", "string"], "string"),
    "a branch less in the writer": (["null", "string", "int"], ["null", "string"]),
    "a union of one": ("long", ["int", "long"]),
    "no branch": ("int", []),
    "no branch on both sides": ([], []),
    "a promoted branch": (["null", "double"], ["null", "int", "long"]),
    "a branch by short name": (["null", record("b.R", A)], ["null", record("a.R", A)]),
    "a record in itself": (record("R", A, NEXT), record("R", A, NEXT)),
    "other properties": ({"type": "int", "logicalType": "date"}, "int"),
    "a default of another kind": (
        record("R", field("a", "int", default=1)),
        record("R", field("a", "int", default=2)),
    ),
}


@pytest.mark.parametrize(("reader", "writer"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_a_reader_that_can_read_has_no_differences(reader: Any, writer: Any) -> None:
    """Java's library says the same."""
    assert differences(reader, writer) == []


TYPE = "reader type: {} not compatible with writer type: {}".format
INCOMPATIBLE: dict[str, tuple[Any, Any, list[tuple[str, str, str]]]] = {
    "a field without a default more": (
        record("R", A, field("b", "int")),
        record("R", A),
        [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "b")],
    ),
    "an enum with a default more": (
        record("R", field("e", enum("E", "A", default="A"))),
        record("R"),
        [("TYPE_MISMATCH", "/fields/0/type", TYPE("ENUM", "RECORD"))],
    ),
    "another name": (record("S"), record("a.R"), [("NAME_MISMATCH", "/name", "expected: a.R")]),
    "an alias in another namespace": (
        record("b.S", aliases=["R"]),
        record("a.R"),
        [("NAME_MISMATCH", "/name", "expected: a.R")],
    ),
    "an alias that leaves the namespace, which Java writes with a dot": (
        record("b.S", aliases=[".R"]),
        record("R"),
        [("NAME_MISMATCH", "/name", "expected: R")],
    ),
    "an alias of the writer": (
        record("S"),
        record("R", aliases=["S"]),
        [("NAME_MISMATCH", "/name", "expected: R")],
    ),
    "another name and another field": (
        record("S", A),
        record("R"),
        [
            ("NAME_MISMATCH", "/name", "expected: R"),
            ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "a"),
        ],
    ),
    "another name and size": (
        fixed("F", 3),
        fixed("a.G", 2),
        [
            ("NAME_MISMATCH", "/name", "expected: a.G"),
            ("FIXED_SIZE_MISMATCH", "/size", "expected: 2, found: 3"),
        ],
    ),
    "symbols less": (
        enum("E", "B"),
        enum("E", "C", "B", "A"),
        [("MISSING_ENUM_SYMBOLS", "/symbols", "[A, C]")],
    ),
    "items": (items("int"), items("string"), [("TYPE_MISMATCH", "/items", TYPE("INT", "STRING"))]),
    "values": (
        values(items("int")),
        values("int"),
        [("TYPE_MISMATCH", "/values", TYPE("ARRAY", "INT"))],
    ),
    "a branch less": (
        ["null", "int"],
        "string",
        [("MISSING_UNION_BRANCH", "/", "reader union lacking writer type: STRING")],
    ),
    "two branches less": (
        record("R", field("u", ["null", "int"])),
        record("R", field("u", ["string", "null", values("int")])),
        [
            (
                "MISSING_UNION_BRANCH",
                "/fields/0/type/0",
                "reader union lacking writer type: STRING",
            ),
            ("MISSING_UNION_BRANCH", "/fields/0/type/2", "reader union lacking writer type: MAP"),
        ],
    ),
    "no branch for a value": (
        [],
        "int",
        [("MISSING_UNION_BRANCH", "/", "reader union lacking writer type: INT")],
    ),
    "no union any more": (
        record("R", field("u", "string")),
        record("R", field("u", ["null", "string", "int"])),
        [
            ("TYPE_MISMATCH", "/fields/0/type/0", TYPE("STRING", "NULL")),
            ("TYPE_MISMATCH", "/fields/0/type/2", TYPE("STRING", "INT")),
        ],
    ),
    "inside itself": (
        record("R", field("next", ["null", "R"]), field("a", "int")),
        record("R", field("next", ["null", "R"]), field("a", "string")),
        [("TYPE_MISMATCH", "/fields/1/type", TYPE("INT", "STRING"))],
    ),
    "the same pair twice has the place of its first visit": (
        record("R", field("x", fixed("F", 1)), field("y", "F")),
        record("R", field("x", fixed("F", 2)), field("y", "F")),
        [("FIXED_SIZE_MISMATCH", "/fields/0/type/size", "expected: 2, found: 1")] * 2,
    ),
    "an alias beside the name": (
        record("R", field("b", "int", aliases=["a"])),
        record("R", A, field("b", "int")),
        [("AMBIGUOUS_FIELD", "/fields/0", "b")],
    ),
}


@pytest.mark.parametrize(("reader", "writer", "expected"), INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_a_reader_that_cannot_read_has_reasons(
    reader: Any, writer: Any, expected: list[tuple[str, str, str]]
) -> None:
    """Kind, place and detail are those of Java's library."""
    found = differences(reader, writer)
    assert [(each.kind, each.path) for each in found] == [
        (kind, path) for kind, path, _ in expected
    ]
    assert all(
        each.text.endswith(f", additionalInfo:'{detail}'}}")
        for each, (_, _, detail) in zip(found, expected, strict=True)
    )


TEXTS = {
    "NAME_MISMATCH": "The name of the schema has changed (path '/name')",
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '/size' in the new schema does not match with the old schema",
    "MISSING_ENUM_SYMBOLS": "The new schema is missing enum symbols '[A, C]' at path '/symbols' in the old schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field 'b' at path '/fields/1' in the new schema has no default value and is missing in the old schema"
    ),
    "TYPE_MISMATCH": "The type (path '/items') of a field in the new schema does not match with the old schema",
    "MISSING_UNION_BRANCH": "The new schema is missing a type inside a union field at path '/' in the old schema",
}
SHOWN = [
    "another name and size",
    "symbols less",
    "a field without a default more",
    "items",
    "a branch less",
]


def test_a_difference_has_the_text_of_confluents_registry() -> None:
    """Clients of it match these texts. The caller fills in which schema is the new one."""
    found = [each for name in SHOWN for each in differences(*INCOMPATIBLE[name][:2])]
    described = {
        each.kind: each.text.removeprefix(f"{{errorType:'{each.kind}', description:'").partition(
            "', additionalInfo:'"
        )[0]
        for each in found
    }
    assert described == TEXTS
