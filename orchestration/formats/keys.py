"""Converts keys of records to values of a table's key columns, to delete rows by tombstones.

Decides which formats a key may have. A topic that declares ``key_schema`` has keys of that schema:
JSON, Avro or Protobuf. Otherwise a key that is a JSON object with all key columns gives their
values, and the text of any other key is the value of the only key column. JSON is read by the rule
of JSON values. Connect's envelope (``{"schema": ..., "payload": ...}``) is read as its payload. A
bare JSON value is the value of the only column. An array has the values of several columns in their
order, as ``sql_source`` writes them. Invariant: the column ``_key`` is the original key. Each key
gives a value for every column, or has a fault.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types

from orchestration.formats.columns import UnfitError, ValueFormat, arrow_schema
from orchestration.formats.registered import read_records
from orchestration.values.strict_json import StrictSchema, load_document
from orchestration.values.type_names import arrow_type_name, spark_type

KEY_COLUMN = "_key"
ENVELOPE = frozenset(("schema", "payload"))

KeySchema = types.StructType | ValueFormat
"""The fields of keys in JSON, or the format of others."""
Named = tuple[Sequence[pa.Scalar] | None, str | None]
"""The values of the key columns, or the reason why the key names none."""
ReadKey = Callable[[bytes], Sequence[pa.Scalar]]
"""Returns the values of the key columns. Raises UnfitError if a key names none."""


def read_keys(
    keys: pa.Array,
    columns: pa.Schema,
    declared: KeySchema | None,
    headers: pa.Array | None = None,
) -> list[Named]:
    """Return the values for ``columns`` in each of ``keys``, or the reason why a key has none.

    ``keys`` are binary and not null. ``headers`` are the headers of the records.
    """
    if columns.names == [KEY_COLUMN] or declared is None:
        return _each(keys, _reader(columns))
    fields = declared if isinstance(declared, types.StructType) else declared.fields
    lacking = [name for name in columns.names if name not in fields.names]
    if lacking:
        return [(None, f"the key has no field {', '.join(lacking)}")] * len(keys)
    if isinstance(declared, types.StructType):
        return _each(
            keys,
            _json_reader(
                types.StructType([fields[name] for name in columns.names]), columns, fields.names
            ),
        )
    return _formatted(keys, declared, columns, headers)


def _each(items: pa.Array, read: Callable[[Any], Sequence[pa.Scalar]]) -> list[Named]:
    found: list[Named] = []
    for item in items.to_pylist():
        try:
            found.append((read(item), None))
        except UnfitError as refused:
            found.append((None, str(refused)))
    return found


def _reader(columns: pa.Schema) -> ReadKey:
    """Return a function that reads keys without a declared schema."""
    only = columns.field(0) if len(columns) == 1 else None
    if only is not None and (only.name == KEY_COLUMN or _is_bytes(only.type)):
        return lambda key: [_text_value(key, only.type)]
    read_json = _json_reader(_fields_of(columns), columns, columns.names)

    def read(key: bytes) -> Sequence[pa.Scalar]:
        if _has_all(key, columns.names):
            return read_json(key)
        if only is None:
            raise UnfitError(
                f"the key is neither a JSON object with {', '.join(columns.names)} nor an array of"
                " them, and no key_schema is declared"
            )
        return [_text_value(key, only.type)]

    return read


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _text_value(key: bytes, kind: pa.DataType) -> pa.Scalar:
    if _is_bytes(kind):
        return pa.scalar(key, kind)
    try:
        return pa.scalar(key.decode()).cast(kind)
    except (UnicodeDecodeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UnfitError(f"the key is not {arrow_type_name(kind)}") from None


def _has_all(key: bytes, names: Sequence[str]) -> bool:
    """Return whether a key is JSON that has a value for each of ``names``.

    It may be an object with these names, an array if there are several names, or Connect's envelope
    of an object, of an array or of a single value.
    """
    if not key.lstrip().startswith((b"{", b"[")):
        return False
    try:
        document = load_document(key)
    except ValueError:
        return False
    inner = connect_payload(document, names)
    if isinstance(inner, dict):
        return all(name in inner for name in names)
    return isinstance(inner, list) if len(names) > 1 else inner is not document


def connect_payload(document: Any, names: Sequence[str] = ()) -> Any:
    """Return the payload of Connect's envelope, and any other document unchanged.

    An object is not an envelope if ``schema`` or ``payload`` is among ``names``.
    """
    is_envelope = (
        isinstance(document, dict) and document.keys() == ENVELOPE and not ENVELOPE & set(names)
    )
    return document["payload"] if is_envelope else document


def _fields_of(columns: pa.Schema) -> types.StructType:
    """Convert ``columns`` to fields of JSON. A type that cannot be declared becomes text."""
    return types.StructType(
        [types.StructField(one.name, _spark_type(one.type), nullable=False) for one in columns]
    )


def _spark_type(kind: pa.DataType) -> types.DataType:
    try:
        return spark_type(kind)
    except TypeError:
        return types.StringType()


def _json_reader(fields: types.StructType, columns: pa.Schema, order: Sequence[str]) -> ReadKey:
    """Return a function that reads keys in JSON. ``order`` is the order of an array's values."""
    schema, strict = arrow_schema(fields), StrictSchema(fields)

    def read(key: bytes) -> Sequence[pa.Scalar]:
        try:
            document = connect_payload(load_document(key), order)
        except ValueError as refused:
            raise UnfitError(_of_key(str(refused))) from None
        if not isinstance(document, dict):
            document = _named(document, order)
        row, fault = strict.row_of(document)
        if fault is not None:
            raise UnfitError(f"in the key {fault}")
        return _cast(dict(zip(schema.names, row, strict=True)), schema, columns)

    return read


def _named(document: Any, order: Sequence[str]) -> Mapping[str, Any]:
    """Return the values in a key that is not a JSON object, by the names of their columns."""
    if isinstance(document, list) and len(order) > 1:
        if len(document) != len(order):
            raise UnfitError(
                f"the key has {len(document)} values, and not those of {', '.join(order)}"
            )
        return dict(zip(order, document, strict=True))
    if len(order) > 1:
        raise UnfitError("the key is not a JSON object")
    return {order[0]: document}


def _formatted(
    keys: pa.Array, declared: ValueFormat, columns: pa.Schema, headers: pa.Array | None
) -> list[Named]:
    """Return the values of the key columns in keys of a declared format."""
    table, faults = read_records(declared, keys, headers, is_key=True)
    rows = iter(table.select(columns.names).to_pylist())

    def named(fault: str | None) -> Sequence[pa.Scalar]:
        if fault is not None:
            raise UnfitError(_of_key(fault))
        return _cast(next(rows), table.schema, columns)

    return _each(faults, named)


def _of_key(fault: str) -> str:
    return fault.replace("the value", "the key", 1)


def _cast(values: Mapping[str, Any], schema: pa.Schema, columns: pa.Schema) -> list[pa.Scalar]:
    """Convert the values of a key from the types in ``schema`` to those of the key columns."""
    found = []
    for column in columns:
        if values[column.name] is None:
            raise UnfitError(f"the key's field {column.name} is null")
        try:
            found.append(
                pa.scalar(values[column.name], schema.field(column.name).type).cast(column.type)
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise UnfitError(
                f"the key's field {column.name} is not {arrow_type_name(column.type)}"
            ) from None
    return found
