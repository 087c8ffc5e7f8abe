"""Compares the columns of a result with the columns of a table.

Decides whether rows may be appended as they are, with added columns, only with wider columns, or
not at all, and gives the reason. Knows Arrow types only.

Invariant: rows that conform have exactly the table's columns, in its order and types. If evolution
is allowed, they may have wider types, and new columns after those of the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import pyarrow as pa

from orchestration.values.type_names import arrow_type_name

SchemaMode = Literal["merge", "widen"]
"""The change of a table's columns: new ones, or types that its files do not have."""
INTEGER_DIGITS: Mapping[int, int] = {8: 3, 16: 5, 32: 10, 64: 19}
"""The decimal digits of integers, by their bits."""
DOUBLES_INTEGER_BITS = 32
"""The bits of the widest integer type whose values are all DOUBLEs, too."""
DAY, LOCAL_TIME = pa.date32(), pa.timestamp("us")


class SchemaConflictError(Exception):
    """A result does not have the table's columns, so it cannot be written.

    The text names each column and the remedy.
    """


def conform(
    rows: pa.Table, name: str, schema: pa.Schema, *, is_evolving: bool = False
) -> tuple[pa.Table, SchemaMode | None]:
    """Return ``rows`` in the table's order and types, and how the table's columns have to change.

    A mode of None means no change. "merge" adds columns, or fields of structs. "widen" makes a type
    of the table wider, so that its files have to be written anew.

    With ``is_evolving`` rows may have new columns and lack some, and so may structs with their
    fields. Numbers and days may be of a smaller or a wider type than the table's, if every value of
    one is a value of the other.

    :raises SchemaConflictError: a column is missing, new or of another type, and that is not
        allowed.
    """
    validate_types(rows.schema, name)
    joined = {
        field.name: joined_type(field.type, rows.schema.field(field.name).type)
        for field in schema
        if is_evolving and field.name in rows.schema.names
    }
    problems = _changed_types(rows.schema, schema, is_evolving=is_evolving)
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
            " columns"
            f"{'' if is_evolving else ', allow new and missing ones with is_evolving=True'},"
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
    changed = [
        (before.type, field.type)
        for field, before in zip(fields, schema, strict=True)
        if field.type != before.type
    ]
    mode: SchemaMode | None = "merge" if added or changed else None
    if any(_has_wider_values(*one) for one in changed):
        mode = "widen"
    return pa.table(columns, schema=pa.schema([*fields, *added])), mode


def joined_type(table: pa.DataType, result: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the values of the types ``table`` and ``result``, or None.

    None means that the types do not fit. A struct has the fields of both. A number or a day has the
    wider type of both, if that one holds every value of the other.
    """
    if _is_same(table, result) or _is_narrower(result, table):
        return table
    if _is_narrower(table, result):
        return result
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
    """Whether every value of the type ``one`` is also a value of the type ``other``.

    These are the type changes of Delta's feature typeWidening, without those that need a rounding.
    """
    if pa.types.is_signed_integer(one):
        if pa.types.is_decimal(other):
            return bool(other.precision - other.scale >= INTEGER_DIGITS[one.bit_width])
        if pa.types.is_float64(other):
            return bool(one.bit_width <= DOUBLES_INTEGER_BITS)
        return bool(pa.types.is_signed_integer(other) and one.bit_width < other.bit_width)
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        return bool(
            one.scale <= other.scale and one.precision - one.scale <= other.precision - other.scale
        )
    if pa.types.is_float32(one):
        return bool(pa.types.is_float64(other))
    return bool(one == DAY and other == LOCAL_TIME)


def _has_wider_values(before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether the type of any value changes. New fields of structs do not count."""
    if pa.types.is_struct(before):
        return any(_has_wider_values(field.type, after.field(field.name).type) for field in before)
    if _is_list(before):
        return _has_wider_values(before.value_type, after.value_type)
    if pa.types.is_map(before):
        return _has_wider_values(before.item_type, after.item_type)
    return not _is_same(before, after)


def _misfits(where: str, table: pa.DataType, result: pa.DataType) -> Iterator[str]:
    """Yield a text on each type of a column, or inside it, that does not fit the table's."""
    if joined_type(table, result) is not None:
        return
    inner: list[str] = []
    if pa.types.is_struct(table) and pa.types.is_struct(result):
        names = [field.name for field in table if result.get_field_index(field.name) >= 0]
        for name in names:
            inner += _misfits(f"{where}.{name}", table.field(name).type, result.field(name).type)
    elif _is_list(table) and _is_list(result):
        inner += _misfits(f"{where}[]", table.value_type, result.value_type)
    yield from inner or [_types_text(where, table, result)]


def _types_text(where: str, table: pa.DataType, result: pa.DataType) -> str:
    return (
        f"{where} is {arrow_type_name(table)} in the table and {arrow_type_name(result)} in the"
        " result"
    )


def validate_shape(name: str, existing: Sequence[str], declared: Sequence[str]) -> None:
    """Refuse a declaration whose key columns differ from those of the table in the lake.

    ``existing`` are the columns by which the table keeps one row per value, and ``declared`` those
    of the declaration. There are none if all rows are kept.

    :raises SchemaConflictError: names the rows that the table and the declaration keep.
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


def _changed_types(result: pa.Schema, table: pa.Schema, *, is_evolving: bool) -> list[str]:
    found: list[str] = []
    for field in table:
        if field.name not in result.names:
            continue
        other = result.field(field.name).type
        if is_evolving:
            found += _misfits(field.name, field.type, other)
        elif not _is_same(field.type, other):
            found.append(_types_text(field.name, field.type, other))
    return found


def _is_same(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two types are the same to a table.

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
