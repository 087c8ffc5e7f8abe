"""The properties of a JSON Schema as the columns of a topic.

Decides which schemas have columns: an object whose properties are scalars, arrays, objects, or one
of these or null. A property that is required and cannot be null is never null. Constraints such as
``minimum`` are not checked here. Knows no values.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import types

from orchestration.formats.columns import validate_names

SCALARS: Mapping[str, types.DataType] = {
    "string": types.StringType(),
    "integer": types.LongType(),
    "number": types.DoubleType(),
    "boolean": types.BooleanType(),
}
CHOICES = ("oneOf", "anyOf")
MAX_DEPTH = 100


def json_schema_fields(text: str) -> types.StructType:
    """Return the columns of an object's properties.

    :raises ValueError: the schema has no columns. The text names the property.
    """
    try:
        declared = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    kind, is_nullable = _column(declared, "", 0)
    if not isinstance(kind, types.StructType) or is_nullable:
        raise ValueError("the schema is no object with properties: only these can become columns")
    return kind


def _column(declared: Any, path: str, depth: int) -> tuple[types.DataType, bool]:
    """Return the type of a column, and whether its values may be null."""
    where = f"property {path}" if path else "the schema"
    if not isinstance(declared, Mapping) or depth > MAX_DEPTH:
        raise ValueError(
            f"{where} is {json.dumps(declared)[:80]}, and nothing tells its type: declare the"
            " topic's columns in DDL"
        )
    if "$ref" in declared or "allOf" in declared:
        raise ValueError(
            f"{where} is made of other schemas ($ref, allOf), which no column is made of: declare"
            " the topic's columns in DDL"
        )
    for choice in CHOICES:
        if choice in declared:
            return _chosen(declared[choice], path, depth, where)
    named = declared.get("type")
    kinds = [named] if isinstance(named, str) else list(named or ())
    others = [one for one in kinds if one != "null"]
    if len(others) != 1:
        raise ValueError(
            f"{where} is of {len(others)} types, and a column has one: declare the topic's columns"
            " in DDL"
        )
    return _single(others[0], declared, path, depth, where), len(others) < len(kinds)


def _chosen(
    choices: Sequence[Any], path: str, depth: int, where: str
) -> tuple[types.DataType, bool]:
    """Return the column of a choice between null and one type."""
    others = [one for one in choices if one != {"type": "null"}]
    if len(others) != 1:
        raise ValueError(
            f"{where} is a choice of {len(others)} schemas, and a column has one: declare the"
            " topic's columns in DDL"
        )
    kind, is_nullable = _column(others[0], path, depth + 1)
    return kind, is_nullable or len(others) < len(choices)


def _single(
    kind: Any, declared: Mapping[str, Any], path: str, depth: int, where: str
) -> types.DataType:
    if kind in SCALARS:
        return SCALARS[kind]
    if kind == "array":
        return types.ArrayType(_column(declared.get("items"), f"{path}[]", depth + 1)[0])
    if kind != "object":
        raise ValueError(f"{where} is of the type {kind!r}, which JSON Schema does not have")
    properties = declared.get("properties")
    if isinstance(properties, Mapping) and properties:
        return _struct(properties, declared.get("required") or (), path, depth)
    if isinstance(declared.get("additionalProperties"), Mapping) and path:
        return types.MapType(
            types.StringType(), _column(declared["additionalProperties"], f"{path}[]", depth + 1)[0]
        )
    raise ValueError(f"{where} is an object without properties, and nothing can be a column")


def _struct(
    properties: Mapping[str, Any], required: Sequence[str], path: str, depth: int
) -> types.StructType:
    validate_names(list(properties), f"property {path}" if path else "the schema")
    fields = []
    for name, one in properties.items():
        kind, is_nullable = _column(one, f"{path}.{name}" if path else name, depth + 1)
        comment = {"comment": str(one["description"])} if one.get("description") else None
        fields.append(types.StructField(name, kind, is_nullable or name not in required, comment))
    return types.StructType(fields)
