"""Compares the columns of a result with the columns of a table.

Decides whether rows may be appended as they are, with added columns, or not at all, and tells why.
Knows Arrow types only.
Invariant: rows that conform have exactly the table's columns, in its order and types, or those plus
new ones where that is allowed.
"""

from collections.abc import Collection, Sequence
from typing import Literal

import pyarrow as pa

from orchestration.values.type_names import arrow_type_name


class SchemaConflictError(Exception):
    """A result does not have the table's columns, so it cannot be written.

    The text names each column and the remedy.
    """


def conform(
    rows: pa.Table, name: str, schema: pa.Schema, *, is_evolving: bool = False
) -> tuple[pa.Table, Literal["merge"] | None]:
    """Return ``rows`` in the table's order and types, and the schema mode of the write.

    The mode is "merge" where columns are new. With ``is_evolving`` structs may have new fields and
    lack some, and numbers may be of a smaller type than the table's.

    :raises SchemaConflictError: a column is missing, new or of another type, and that is not
        allowed.
    """
    validate_types(rows.schema, name)
    joined = {
        field.name: joined_type(field.type, rows.schema.field(field.name).type)
        for field in schema
        if is_evolving and field.name in rows.schema.names
    }
    fitting = {name for name, one in joined.items() if one is not None}
    problems = [*_changed_types(rows.schema, schema, fitting)]
    missing = [field for field in schema if field.name not in rows.schema.names]
    added = [field for field in rows.schema if field.name not in schema.names]
    if not is_evolving:
        problems += [
            f"{field.name} ({arrow_type_name(field.type)}) is in the table and not in the result"
            for field in missing
        ]
        problems += [
            f"{field.name} ({arrow_type_name(field.type)}) is in the result and not in the table"
            for field in added
        ]
    if problems:
        raise SchemaConflictError(
            f"the result does not fit the table {name}: {'; '.join(problems)}. Nothing was"
            " committed. Let the transform return the table's"
            f" columns{'' if is_evolving else ', allow new and missing ones with is_evolving=True'},"
            " or move the table away and let it be built anew"
        )
    fields = [field.with_type(joined.get(field.name) or field.type) for field in schema]
    columns = [
        (
            rows[field.name].cast(field.type)
            if field.name in rows.schema.names
            else pa.nulls(rows.num_rows, field.type)
        )
        for field in fields
    ]
    columns += [rows[field.name] for field in added]
    is_wider = any(field.type != before.type for field, before in zip(fields, schema, strict=True))
    return pa.table(columns, schema=pa.schema([*fields, *added])), (
        "merge" if added or is_wider else None
    )


def joined_type(table: pa.DataType, result: pa.DataType) -> pa.DataType | None:
    """Return the type of a table's column after rows of another type, or None if they do not fit.

    A struct gets the new fields. A table's number keeps its type, because its existing files keep
    it. A smaller number fits it.
    """
    if _is_same(table, result) or _is_narrower(result, table):
        return table
    if pa.types.is_struct(table) and pa.types.is_struct(result):
        return _joined_struct(table, result)
    if _is_list(table) and _is_list(result):
        items = joined_type(table.value_type, result.value_type)
        return None if items is None else pa.list_(table.value_field.with_type(items))
    if (
        pa.types.is_map(table)
        and pa.types.is_map(result)
        and _is_same(table.key_type, result.key_type)
    ):
        items = joined_type(table.item_type, result.item_type)
        return (
            None if items is None else pa.map_(table.key_field, table.item_field.with_type(items))
        )
    return None


def _joined_struct(table: pa.StructType, result: pa.StructType) -> pa.DataType | None:
    mine, theirs = ({field.name: field for field in one} for one in (table, result))
    joined = {
        name: joined_type(field.type, theirs[name].type) if name in theirs else field.type
        for name, field in mine.items()
    }
    added = [field for name, field in theirs.items() if name not in mine]
    is_ambiguous = bool({field.name.lower() for field in added} & {name.lower() for name in mine})
    if None in joined.values() or is_ambiguous:
        return None
    return pa.struct([*(field.with_type(joined[name]) for name, field in mine.items()), *added])


def _is_list(given: pa.DataType) -> bool:
    return bool(pa.types.is_list(given) or pa.types.is_large_list(given))


def _is_narrower(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether every value of ``one`` is one of ``other``, too."""
    if pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other):
        return bool(one.bit_width < other.bit_width)
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        return bool(
            one.scale <= other.scale and one.precision - one.scale <= other.precision - other.scale
        )
    return bool(pa.types.is_float32(one) and pa.types.is_float64(other))


def validate_shape(name: str, existing: Sequence[str], declared: Sequence[str]) -> None:
    """Refuse a declaration that keeps other rows than the table.

    A table keeps all rows, or the newest by certain columns.

    :raises SchemaConflictError: tells what the table and the declaration keep.
    """
    if tuple(existing) != tuple(declared):
        raise SchemaConflictError(
            f"the table {name} keeps {_kept(existing)}, and its declaration keeps"
            f" {_kept(declared)}: one cannot become the other. Nothing was committed. Declare it as"
            " it was, give it another name, or move the table away and let it be built anew"
        )


def _kept(latest_by: Sequence[str]) -> str:
    return f"one row by {', '.join(latest_by)}" if latest_by else "all rows"


def validate_types(schema: pa.Schema, name: str) -> None:
    """Refuse columns that no Delta table can hold: columns without a type, and repeated names.

    :raises SchemaConflictError: names the columns.
    """
    void = [field.name for field in schema if pa.types.is_null(field.type)]
    repeated = sorted({column for column in schema.names if schema.names.count(column) > 1})
    if void:
        raise SchemaConflictError(
            f"the result for {name} has columns without a type: {', '.join(void)}. Cast them, e.g."
            " lit(None).cast('string')"
        )
    if repeated:
        raise SchemaConflictError(
            f"the result for {name} names columns twice: {', '.join(repeated)}. Rename or drop one"
            " of each"
        )


def _changed_types(result: pa.Schema, table: pa.Schema, fitting: Collection[str]) -> list[str]:
    common = [field for field in table if field.name in result.names and field.name not in fitting]
    return [
        f"{field.name} is {arrow_type_name(field.type)} in the table and"
        f" {arrow_type_name(result.field(field.name).type)} in the result"
        for field in common
        if not _is_same(field.type, result.field(field.name).type)
    ]


def _is_same(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether a table takes two types for the same.

    They may differ in the width of offsets and in the names of list items.
    """
    return bool(_plain(one) == _plain(other))


def _plain(given: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(given) or pa.types.is_string_view(given):
        return pa.string()
    if pa.types.is_large_binary(given) or pa.types.is_binary_view(given):
        return pa.binary()
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return pa.list_(pa.field("element", _plain(given.value_type)))
    if pa.types.is_struct(given):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in given])
    if pa.types.is_map(given):
        return pa.map_(_plain(given.key_type), _plain(given.item_type))
    return given


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the same columns, each of which may be null, without their metadata."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])
