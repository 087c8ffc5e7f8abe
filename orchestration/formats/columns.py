"""The parts that all formats of values share: their protocol, Confluent's framing, and columns.

Decides nothing about a format. Invariant: each value either becomes a row of the columns, or gets a
fault that says why it does not. Rows keep the order of their values.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from orchestration.project.location import in_project
from orchestration.values.strict_json import NULL_VALUE
from orchestration.values.times import FIRST_US, LAST_US

Framing = Literal["plain", "confluent"]
FRAMINGS: Sequence[Framing] = ("plain", "confluent")
MAGIC, FRAME_BYTES = 0, 5
"""Confluent's framing: a zero, the schema's id in the registry in four bytes, then the value."""
NO_PREFIX = "the value does not begin with a zero and a schema's id, as Confluent's framing has it"
ROW_DELETED = (
    "the change is a DELETE: only a table with latest_by removes the row that its key names"
)
"""The reason for a value that deletes a row, and so is not a row."""
UNREAD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that a reader raises for a value, or for its columns, if a check is missing.

They count as a fault of the value, and do not stop a table.
"""
ReadValue = Callable[[bytes], Sequence[Any]]
"""Returns the fields of a value, as Arrow takes them."""


class SchemaFileError(ValueError):
    """A schema file is missing or cannot be used.

    The text names the file and the fault, and says what to do.
    """


class UnfitError(ValueError):
    """A value does not fit its schema. The text is the reason of a dead letter."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The choice of the fields of a schema that become columns.

    Fields at the paths ``leave_out`` do not. A type may be nested within itself ``depth`` times.
    """

    leave_out: tuple[str, ...] = ()
    depth: int = 0

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError(
                f"depth is {self.depth}: say how often a type may be within itself, or leave it out"
            )

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Return the choice in a declaration. Without one, as in older releases, all are chosen."""
        return cls(leave_out=tuple(declared.get("leave_out", ())), depth=declared.get("depth", 0))

    def declared(self) -> dict[str, Any]:
        """Return the choice as a JSON object."""
        return {"leave_out": list(self.leave_out), "depth": self.depth}

    def too_deep(self, where: str) -> UnfitError:
        """Return the error for a value that is nested deeper than ``depth``."""
        return UnfitError(f"field {where} is nested deeper than the declared depth {self.depth}")

    def within_itself(self, where: str, name: str) -> str:
        """Return the error text for a field whose type contains the field itself."""
        field = where.removesuffix("[]")
        return (
            f"field {field} is of the type {name} that it is part of, and no depth is declared."
            " Declare how often it may be within itself (depth=3), or leave the field out"
            f" (leave_out={field!r})"
        )

    def validate_used(self, used: Collection[str]) -> None:
        """Refuse paths in ``leave_out`` at which there is no field.

        :raises ValueError: there is no field at a path. The text names one path.
        """
        for one in self.leave_out:
            if one not in used:
                raise ValueError(
                    f"there is no field {one} to leave out; what is within an array or a map is"
                    " written lines[].price"
                )


class ValueFormat(Protocol):
    """A format that reads values into columns. It can be pickled for Spark's workers."""

    @property
    def fields(self) -> types.StructType:
        """Return the columns of a value. Only nullable columns may contain null."""

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Read those ``values`` (binary) that fit into rows. Return the rows and a fault per value.

        The fault is null if the value fits.
        """

    def declared(self) -> dict[str, Any]:
        """Return the format as a JSON object, for ``format_of``."""


def read_values(values: pa.Array, read: ReadValue, schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
    """Return rows (``schema``) of the values that ``read`` accepts, and a fault for each value.

    The fault is null for a value that fits. An unexpected exception becomes a fault, too, and names
    the exception's type, so that one value does not stop the table.
    """
    rows: list[Sequence[Any]] = []
    faults: list[str | None] = []
    for value in values.to_pylist():
        fault = NULL_VALUE if value is None else None
        try:
            if value is not None:
                rows.append(read(value))
        except UnfitError as refused:
            fault = str(refused)
        except UNREAD as error:
            fault = _unread(error)
        faults.append(fault)
    try:
        table = _table(rows, schema)
    except UNREAD:
        told = [_why_no_row(row, schema) for row in rows]
        table = _table([row for row, why in zip(rows, told, strict=True) if why is None], schema)
        reasons = iter(told)
        faults = [next(reasons) if fault is None else fault for fault in faults]
    return table, pa.array(faults, pa.string())


def _table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    if not rows:
        return schema.empty_table()
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


def _why_no_row(row: Sequence[Any], schema: pa.Schema) -> str | None:
    """Return why ``row`` does not fit the columns, or None if it does."""
    try:
        _table([row], schema)
    except UNREAD as error:
        return _unread(error)
    return None


def _unread(error: Exception) -> str:
    return f"the value cannot be read: {type(error).__name__}"


def in_places(table: pa.Table, faults: pa.Array) -> pa.StructArray:
    """Return the rows of ``table`` as structs, one for each value.

    A value with a fault has null instead of a row.
    """
    is_fit = np.asarray(faults.is_null())
    places = pa.array(np.cumsum(is_fit) - 1, mask=~is_fit)
    columns = [column.combine_chunks().take(places) for column in table.columns]
    return pa.StructArray.from_arrays(columns, fields=list(table.schema), mask=pa.array(~is_fit))


def arrow_schema(fields: types.StructType) -> pa.Schema:
    """Return ``fields`` as an Arrow schema, all nullable."""
    found = to_arrow_schema(
        types.StructType([types.StructField(one.name, nullable(one.dataType)) for one in fields]),
        timezone="UTC",
    )
    return pa.schema([pa.field(one.name, one.type) for one in found])


@lru_cache
def nullable(kind: types.DataType) -> types.DataType:
    """Return ``kind`` with nullable inner fields."""
    if isinstance(kind, types.StructType):
        return types.StructType(
            [types.StructField(one.name, nullable(one.dataType)) for one in kind]
        )
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(nullable(kind.elementType))
    if isinstance(kind, types.MapType):
        return types.MapType(nullable(kind.keyType), nullable(kind.valueType))
    return kind


def ddl_of(kind: types.DataType) -> str:
    """Return a type as Spark's DDL, with nullable inner fields and names in backquotes."""
    if isinstance(kind, types.StructType):
        return f"STRUCT<{', '.join(f'`{one.name}`: {ddl_of(one.dataType)}' for one in kind)}>"
    if isinstance(kind, types.ArrayType):
        return f"ARRAY<{ddl_of(kind.elementType)}>"
    if isinstance(kind, types.MapType):
        return f"MAP<{ddl_of(kind.keyType)}, {ddl_of(kind.valueType)}>"
    return kind.simpleString()


def unframed(value: bytes) -> int:
    """Return the offset at which the content begins after Confluent's prefix.

    :raises UnfitError: the value does not have this prefix.
    """
    if len(value) < FRAME_BYTES or value[0] != MAGIC:
        raise UnfitError(NO_PREFIX)
    return FRAME_BYTES


def microseconds(time_us: int, where: str) -> int:
    """Return ``time_us``, microseconds since 1970, if it is within the years 1 to 9999.

    :raises UnfitError: the time is outside these years. The text names the field ``where``.
    """
    if not FIRST_US <= time_us <= LAST_US:
        raise UnfitError(f"field {where} is not a time of the years 1 to 9999")
    return time_us


def validate_framing(framing: str) -> None:
    """Refuse an unknown framing.

    :raises ValueError: the framing is unknown. The text names the known ones.
    """
    if framing not in FRAMINGS:
        raise ValueError(f"there is no framing {framing!r}: it is one of {', '.join(FRAMINGS)}")


def validate_names(names: Sequence[str], where: str) -> None:
    """Refuse fields whose names differ only in case, and records without fields.

    Names of columns are not case-sensitive.

    :raises ValueError: the record has no fields, or names differ only in case. The text names them.
    """
    if not names:
        raise ValueError(f"{where} has no fields, and nothing can be a column")
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise ValueError(
                f"{where} has the fields {seen[name.lower()]} and {name}, which would be the same"
                " column"
            )
        seen[name.lower()] = name


def read_file(file: str | Path) -> bytes:
    """Return the bytes of a schema file.

    :raises SchemaFileError: the file cannot be read.
    """
    try:
        return in_project(file).read_bytes()
    except OSError as error:
        raise SchemaFileError(
            f"the schema file {in_project(file)} cannot be read: {error.strerror or error}. A"
            " relative path begins at the project's folder"
        ) from error
