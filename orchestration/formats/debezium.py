"""Reads rows from Debezium's envelope of changes: ``TopicSpec(..., envelope="debezium")``.

Decides the row that results from a change. For an insert, an update and a row of a snapshot it is
the row ``after``. A delete has no row, and counts as a tombstone. A truncate and a message do not
fit, because they name no row. A row with a placeholder, which Debezium writes for a value that the
source did not send, does not fit either. JSON within ``after`` is read by the rule of JSON values.
In other formats the envelope is a record of the schema.

Invariant: each value is a row, a deletion, or has a fault. Rows keep the values' order.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types

from orchestration.formats.columns import ROW_DELETED, ValueFormat, arrow_schema
from orchestration.formats.keys import connect_payload
from orchestration.values.strict_json import (
    NULL_VALUE,
    RepeatedNames,
    StrictSchema,
    load_object,
)

Envelope = Literal["debezium"]
OP, AFTER = "op", "after"
ROW_OPS = frozenset(("c", "u", "r"))
"""A row was inserted, updated, or read by a snapshot."""
DELETE_OP = "d"
REFUSED_OPS: Mapping[str, str] = {
    "t": "the change is a TRUNCATE (op t), which names no row. Empty the table by hand, "
    "or leave such changes out at the source (skipped.operations=t)",
    "m": "the change is a logical message (op m), which names no row",
}
NO_OP = (
    "the value has no field op, so it is not in Debezium's envelope. "
    "A topic of flattened rows is declared without envelope"
)
PLACEHOLDER = "__debezium_unavailable_value"
"""Debezium's value of a column that an update left as it was, and that the source did not send."""
PLACEHOLDERS = (PLACEHOLDER, b64encode(PLACEHOLDER.encode()).decode())
"""The placeholder of a text, and that of bytes."""


class _NoRowError(ValueError):
    """No row results from a change. The text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumJson:
    """A format that reads the row from an envelope in JSON.

    The envelope may itself be in Connect's envelope of ``schema`` and ``payload``.

    ``fields`` are the columns of the row.

    With ``is_lenient`` a field that does not fit is null, and no value is refused.
    """

    fields: types.StructType
    is_lenient: bool = False

    def leniently(self) -> "DebeziumJson":
        """Return this format with ``is_lenient``, so that no value is refused."""
        return replace(self, is_lenient=True)

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Read the rows in ``values`` (binary). Return the rows and a fault per value.

        The fault is null for a value with a row.
        """
        schema, strict = arrow_schema(self.fields), StrictSchema(self.fields)
        found = [self._row_of(value, strict) for value in values.to_pylist()]
        rows = [row for row, fault in found if fault is None]
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        faults = pa.array([fault for _, fault in found], pa.string())
        return pa.table(arrays, schema=schema), faults

    def declared(self) -> dict[str, Any]:
        """Return the format as a JSON object with the fields of the row."""
        return {"json": self.fields.jsonValue()}

    def _row_of(
        self, value: bytes | None, strict: StrictSchema
    ) -> tuple[Sequence[Any], str | None]:
        try:
            after = _after(value)
            _refuse_placeholders(after, self.fields.names)
            row, fault = strict.row_of(after)
        except ValueError as refused:
            row, fault = [None] * len(self.fields), str(refused)
        return row, None if self.is_lenient else fault


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumRecords:
    """A format that reads the row from an envelope that is a record of the format ``envelope``.

    ``debezium_format`` makes it.
    """

    envelope: ValueFormat

    @property
    def fields(self) -> types.StructType:
        """Return the columns of the row."""
        found = self.envelope.fields[AFTER].dataType
        assert isinstance(found, types.StructType)
        return found

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Read the rows in ``values`` (binary). Return the rows and a fault per value.

        The fault is null for a value with a row.
        """
        table, faults = self.envelope.read(values)
        after = table[AFTER].combine_chunks()
        changes = zip(table[OP].to_pylist(), after.is_valid().to_pylist(), strict=True)
        row_faults = [_fault_of(op, has_row=has_row) for op, has_row in changes]
        for name, places in _placeholders(after):
            row_faults = [
                _placeholder_fault(name) if is_placeholder and fault is None else fault
                for fault, is_placeholder in zip(row_faults, places, strict=True)
            ]
        reasons = iter(row_faults)
        whole = [next(reasons) if fault is None else fault for fault in faults.to_pylist()]
        rows = after.filter(pa.array([fault is None for fault in row_faults], pa.bool_()))
        schema = arrow_schema(self.fields)
        columns = [
            column.cast(field.type) for column, field in zip(rows.flatten(), schema, strict=True)
        ]
        return pa.table(columns, schema=schema), pa.array(whole, pa.string())

    def declared(self) -> dict[str, Any]:
        """Return the format of the envelope as a JSON object."""
        return self.envelope.declared()


def debezium_format(schema: types.StructType | ValueFormat) -> DebeziumJson | DebeziumRecords:
    """Return the format that reads rows from Debezium's envelope.

    If ``schema`` has the fields of the row, the envelope is JSON. If it is a format, the envelope
    is a record of that format.

    :raises ValueError: the record is not an envelope.
    """
    if isinstance(schema, types.StructType):
        return DebeziumJson(fields=schema)
    kinds = {field.name: field.dataType for field in schema.fields}
    wanted = ((OP, types.StringType, "a text"), (AFTER, types.StructType, "a record"))
    missing = [
        f"{name} that is {text}"
        for name, kind, text in wanted
        if not isinstance(kinds.get(name), kind)
    ]
    if missing:
        raise ValueError(f"it has no field {missing[0]}")
    return DebeziumRecords(envelope=schema)


def _after(value: bytes | None) -> Mapping[str, Any]:
    """Return the row that results from a change in JSON.

    :raises ValueError: the change has no row, or the value is not a change. The text says why.
    """
    change = connect_payload(load_object(value))
    if change is None:
        raise _NoRowError(NULL_VALUE)
    if not isinstance(change, dict):
        raise _NoRowError("the payload of the value is not a JSON object")
    op, after = _member(change, OP), _member(change, AFTER)
    fault = _fault_of(op, has_row=after is not None)
    if fault is not None:
        raise _NoRowError(fault)
    if not isinstance(after, dict):
        raise _NoRowError(f"field {AFTER} is not a JSON object")
    return after


def _member(change: Mapping[str, Any], name: str) -> Any:
    if isinstance(change, RepeatedNames) and name in change.names:
        raise _NoRowError(f"field {name} is given more than once")
    return change.get(name)


def _fault_of(op: Any, *, has_row: bool) -> str | None:
    """Return why no row results from a change, or None if one does.

    ``has_row`` tells whether the change has the row ``after``.
    """
    if op == DELETE_OP:
        return ROW_DELETED
    if op is None:
        return NO_OP
    if not isinstance(op, str) or op not in ROW_OPS:
        return (
            REFUSED_OPS.get(str(op))
            or f"field {OP} is {str(op)[:20]!r}, which is not a change of Debezium's"
        )
    return None if has_row else f"field {AFTER} is missing, and a change with op {op} needs it"


def _refuse_placeholders(after: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse a row in which a field of ``names`` has Debezium's placeholder for a missing value.

    :raises ValueError: names the field.
    """
    for name in names:
        value = after.get(name)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, str) and first in PLACEHOLDERS:
            raise _NoRowError(_placeholder_fault(name))


def _placeholders(rows: pa.StructArray) -> Iterator[tuple[str, list[bool]]]:
    """Yield the name of each column of texts or bytes, and which rows have a placeholder there.

    Columns of arrays of texts or bytes count, too. An array that did not change has the placeholder
    as its only item.
    """
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        values = _first_items(column) if pa.types.is_list(field.type) else column
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            same = pc.equal(values, pa.scalar(PLACEHOLDER.encode()).cast(values.type))
            yield field.name, pc.fill_null(same, False).to_pylist()


def _first_items(column: pa.ListArray) -> pa.Array:
    """Return the first item of each array, or null for an empty array."""
    has_items = pc.fill_null(pc.greater(pc.list_value_length(column), 0), False)
    firsts = pc.list_element(column.filter(has_items), 0)
    return pc.replace_with_mask(pa.nulls(len(column), firsts.type), has_items, firsts)


def _placeholder_fault(name: str) -> str:
    return (
        f"field {name} has Debezium's placeholder of a value that did not change, so the row is not"
        " whole. Set REPLICA IDENTITY FULL at the source's table"
    )
