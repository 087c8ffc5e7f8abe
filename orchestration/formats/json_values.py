"""Reads JSON values into the columns of a declared schema, in bulk or one by one.

Arrow reads most values in bulk. Decides nothing of its own: ``plain_json`` only accepts values that
``strict_json`` accepts, and reads the same from them. So tables, ``topics.NAME`` in SQL, fixes and
senders read a record in the same way. Spark reads schemas with a VARIANT.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types

from orchestration.formats.columns import arrow_schema
from orchestration.values.plain_json import Flags, PlainSchema, plain_schema, read_plain
from orchestration.values.strict_json import StrictSchema


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """A format that reads values in JSON as ``fields``.

    With ``is_lenient`` a field that does not fit is null, and no value is refused.
    """

    fields: types.StructType
    is_lenient: bool = False

    def read(self, values: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Read those ``values`` (binary) that fit into rows. Return the rows and a fault per value.

        The fault is null if the value fits.
        """
        schema, plain = _schemas(self.fields)
        if plain is None:
            return self._read_each(values, schema)
        table, is_plain = read_plain(values, plain)
        table = table.cast(schema)
        doubtful = np.flatnonzero(~is_plain)
        if not doubtful.size:
            return table, pa.nulls(len(values), pa.string())
        others, exact = self._read_each(values.take(pa.array(doubtful)), schema)
        places = np.full(len(values), None, object)
        places[doubtful] = exact.to_pylist()
        faults = pa.array(places, pa.string())
        return _merged(table, others, is_plain, faults), faults

    def declared(self) -> dict[str, Any]:
        """Return the format as a JSON object with the fields."""
        return {"json": self.fields.jsonValue()}

    def _read_each(self, values: pa.Array, schema: pa.Schema) -> tuple[pa.Table, pa.Array]:
        found = StrictSchema(self.fields).rows_of(values)
        faults = [None if self.is_lenient else fault for _, fault in found]
        rows = [row for (row, _), fault in zip(found, faults, strict=True) if fault is None]
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        return pa.table(arrays, schema=schema), pa.array(faults, pa.string())


@lru_cache
def _schemas(fields: types.StructType) -> tuple[pa.Schema, PlainSchema | None]:
    return arrow_schema(fields), plain_schema(fields)


def json_format(fields: types.StructType | None, *, is_lenient: bool = False) -> JsonFormat | None:
    """Return the format of JSON with ``fields``.

    The result is None without fields, or if only Spark can read them, because of a VARIANT.
    """
    return (
        None
        if fields is None or not len(fields) or has_variant(fields)
        else JsonFormat(fields, is_lenient)
    )


def has_variant(kind: types.DataType) -> bool:
    """Return whether ``kind`` is a VARIANT or contains one."""
    match kind:
        case types.StructType():
            return any(has_variant(field.dataType) for field in kind)
        case types.ArrayType():
            return has_variant(kind.elementType)
        case types.MapType():
            return has_variant(kind.valueType)
    return isinstance(kind, types.VariantType)


def _merged(plain: pa.Table, others: pa.Table, is_plain: Flags, faults: pa.Array) -> pa.Table:
    """Return the rows read in bulk and the rows read one by one, in the order of their values."""
    places = np.where(is_plain, np.cumsum(is_plain) - 1, 0)
    is_read = ~is_plain & np.asarray(faults.is_null())
    places[is_read] = plain.num_rows + np.arange(others.num_rows)
    return pa.concat_tables([plain, others]).take(pa.array(places[is_plain | is_read]))
