"""Converts VARIANTs to JSON when rows leave Spark.

Neither Arrow nor Delta has a VARIANT. Spark returns one as two columns of bytes that may not be
null. So a null VARIANT stops the whole batch, and no other program reads the bytes. Decides that a
VARIANT leaves Spark as JSON, at any place in a type, and becomes a VARIANT again before a transform
sees it. A table of an earlier release keeps its bytes.
Invariant: JSON's null is null, as in every other type.
"""

from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql import types

from orchestration.formats.json_values import has_variant

BYTES = ("value", "metadata")


def as_text(column: Any, kind: types.DataType) -> Any:
    """Return ``column``, of the type ``kind``, with each VARIANT as JSON."""
    return _each(column, kind, lambda one: sql.when(~sql.is_variant_null(one), sql.to_json(one)))


def without_nulls(column: Any, kind: types.DataType) -> Any:
    """Return ``column``, of the type ``kind``, with null for each VARIANT that is JSON's null."""
    return _each(column, kind, lambda one: sql.when(~sql.is_variant_null(one), one))


def as_variant(column: Any, kind: types.DataType) -> Any:
    """Return ``column``, which ``as_text`` made, with the VARIANTs of ``kind`` restored."""
    return _each(column, kind, sql.parse_json)


def text_kind(kind: types.DataType) -> types.DataType:
    """Return ``kind`` with a text in the place of each VARIANT."""
    if isinstance(kind, types.VariantType):
        return types.StringType()
    if not has_variant(kind):
        return kind
    if isinstance(kind, types.StructType):
        return types.StructType(
            [types.StructField(one.name, text_kind(one.dataType), one.nullable) for one in kind]
        )
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(text_kind(kind.elementType), kind.containsNull)
    assert isinstance(kind, types.MapType)
    return types.MapType(kind.keyType, text_kind(kind.valueType), kind.valueContainsNull)


def without_variants(frame: Any, kept: Collection[str]) -> Any:
    """Return ``frame`` with each VARIANT as JSON.

    Columns ``kept`` stay VARIANT, and hold JSON's null if they are null.
    """
    columns = []
    for one in frame.schema:
        column = sql.col(f"`{one.name}`")
        if one.name in kept:
            column = (
                sql.coalesce(column, sql.parse_json(sql.lit("null")))
                if isinstance(one.dataType, types.VariantType)
                else column
            )
        elif has_variant(one.dataType):
            column = as_text(column, one.dataType)
        columns.append(column.alias(one.name))
    return frame.select(*columns)


def kept_as_bytes(schema: pa.Schema | None) -> tuple[str, ...]:
    """Return the columns that hold a VARIANT's bytes, as an earlier release wrote them."""
    return () if schema is None else tuple(field.name for field in schema if _is_bytes(field.type))


def holds_bytes(schema: pa.Schema) -> bool:
    """Return whether a result of Spark has the bytes of a VARIANT anywhere."""
    return any(_holds_bytes(field.type) for field in schema)


def _each(column: Any, kind: types.DataType, convert: Callable[[Any], Any]) -> Any:
    if isinstance(kind, types.VariantType):
        return convert(column)
    if not has_variant(kind):
        return column
    if isinstance(kind, types.StructType):
        fields = [_each(column[one.name], one.dataType, convert).alias(one.name) for one in kind]
        return sql.when(column.isNotNull(), sql.struct(*fields))
    if isinstance(kind, types.ArrayType):
        return sql.transform(column, lambda one: _each(one, kind.elementType, convert))
    assert isinstance(kind, types.MapType)
    return sql.transform_values(column, lambda _, one: _each(one, kind.valueType, convert))


def _is_bytes(kind: pa.DataType) -> bool:
    return (
        pa.types.is_struct(kind)
        and tuple(field.name for field in kind) == BYTES
        and all(pa.types.is_binary(field.type) for field in kind)
    )


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return _is_bytes(kind) or any(_holds_bytes(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _holds_bytes(kind.item_type)
    return pa.types.is_list(kind) and _holds_bytes(kind.value_type)
