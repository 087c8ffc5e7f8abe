"""The columns of a JSON Schema."""

import json
from typing import Any

import pytest

from orchestration.formats.json_schema_fields import json_schema_fields


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_properties_are_columns() -> None:
    """Scalars, arrays, objects and maps. What is required and not null is never null."""
    schema = of(
        id={"type": "integer", "description": "the number"},
        price={"type": ["number", "null"]},
        note={"oneOf": [{"type": "null"}, {"type": "string"}]},
        is_new={"anyOf": [{"type": "boolean"}]},
        lines={"type": "array", "items": of(sku={"type": "string"})},
        counts={"type": "object", "additionalProperties": {"type": "integer"}},
    )
    fields = json_schema_fields(json.dumps({**schema, "required": ["id", "price", "lines"]}))
    assert [(one.name, one.dataType.simpleString(), one.nullable) for one in fields] == [
        ("id", "bigint", False),
        ("price", "double", True),
        ("note", "string", True),
        ("is_new", "boolean", True),
        ("lines", "array<struct<sku:string>>", False),
        ("counts", "map<string,bigint>", True),
    ]
    assert fields["id"].metadata == {"comment": "the number"}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "the schema is not an object with properties"),
        ({"type": "object"}, "the schema is an object without properties"),
        (
            of(a={"$ref": "#/definitions/A"}),
            "property a refers to #/definitions/A, which is neither in the schema",
        ),
        (of(a={"type": ["string", "integer"]}), "property a is of 2 types"),
        (of(a={}), "property a is of 0 types"),
        (of(a=True), "property a is true, and nothing tells its type"),
        (
            of(a={"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            "property a is a choice of 2 schemas",
        ),
        (of(a={"type": "array"}), r"property a\[\] is null, and nothing tells its type"),
        (of(a={"type": "text"}), "property a is of the type 'text'"),
        (
            of(a={"type": "string"}, A={"type": "string"}),
            "the schema has the fields a and A, which would be the same column",
        ),
    ],
)
def test_a_schema_without_columns_is_refused_with_the_property(
    schema: dict[str, Any], text: str
) -> None:
    """Each says what is wrong with it."""
    with pytest.raises(ValueError, match=text):
        json_schema_fields(json.dumps(schema))


def test_a_text_that_is_not_json_is_refused() -> None:
    """A registry may hold anything."""
    with pytest.raises(ValueError, match="it is not JSON"):
        json_schema_fields("{")
