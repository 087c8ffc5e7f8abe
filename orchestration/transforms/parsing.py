"""Values of records as typed columns: JSON by a declared schema, and in words why a record does not fit.

Decides which records fit: JSON objects whose fields have the declared types, required ones (NOT NULL) present. Unknown fields are ignored,
missing optional ones are null, bytes that are not UTF-8 do not fit (Spark would replace them in silence). Spark decides for every record;
``explain_misfit`` finds the words for the few that do not fit.
Invariant: the columns of provenance pass through unchanged.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sql
from pyspark.sql import types

PROVENANCE_COLUMNS = ("_topic_id", "_partition", "_offset", "_timestamp")
PARSED = "_parsed"
MISFIT = "_misfit"
CORRUPT = "_corrupt_record"
SCHEMA_RULE = "schema"
JSON_OPTIONS: Mapping[str, str] = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
INTEGER_BITS: Mapping[type[types.DataType], int] = {
    types.ByteType: 8,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFrame:
    """The records of a batch with their parsed value and whether they misfit; ``fields`` is None where the topic has no schema."""

    frame: Any
    fields: types.StructType | None

    def fitting(self) -> Any:
        """Return what a transform is given: provenance, ``_key``, and the fields (``_value`` without a schema)."""
        if self.fields is None:
            return self.frame.select(*PROVENANCE_COLUMNS, sql.col("key").alias("_key"), sql.col("value").alias("_value"))
        columns = [sql.col(PARSED)[field.name].alias(field.name) for field in self.fields]
        return self.frame.where(~sql.col(MISFIT)).select(*PROVENANCE_COLUMNS, text_key("key").alias("_key"), *columns)

    def decided(self) -> Any:
        """Return every record with whether it misfits, the key as it came as ``_key``, and the fields."""
        assert self.fields is not None
        columns = [sql.col(PARSED)[field.name].alias(field.name) for field in self.fields]
        return self.frame.select("_partition", "_offset", "_timestamp", sql.col("key").alias("_key"), MISFIT, *columns)

    def misfits(self) -> Any:
        """Return partition and offset of the records that do not fit."""
        return self.frame.where(sql.col(MISFIT)).select("_partition", "_offset")


def text_key(column: str) -> Any:
    """Return a key as text; bytes that are not UTF-8 become replacement characters."""
    return sql.make_valid_utf8(sql.col(column).cast("string"))


def schema_fields(session: Any, ddl: str | None) -> types.StructType | None:
    """Return the fields that ``ddl`` declares; Spark reads it."""
    return None if ddl is None else session.createDataFrame([], ddl).schema


def parse(frame: Any, fields: types.StructType | None) -> ParsedFrame:
    """Return ``frame`` (the columns of the source) parsed as ``fields``."""
    if fields is None:
        return ParsedFrame(frame=frame.withColumn(MISFIT, sql.lit(False)), fields=None)
    with_corrupt = types.StructType(
        [*(types.StructField(one.name, one.dataType) for one in fields), types.StructField(CORRUPT, types.StringType())]
    )
    text = sql.col("value").cast("string")
    parsed = frame.withColumn(PARSED, sql.from_json(text, with_corrupt, {**JSON_OPTIONS, "columnNameOfCorruptRecord": CORRUPT}))
    is_misfit = ~sql.is_valid_utf8(text) | sql.col(PARSED).isNull() | sql.col(PARSED)[CORRUPT].isNotNull()
    for one in fields:
        if not one.nullable:
            is_misfit |= sql.col(PARSED)[one.name].isNull()
    return ParsedFrame(frame=parsed.withColumn(MISFIT, is_misfit), fields=fields)


def explain_misfit(value: bytes | None, fields: types.StructType) -> str:
    """Return why ``value`` does not fit, naming the field where one is to blame; the same words for the same fault."""
    if value is None:
        return "the value is null"
    try:
        document = json.loads(value.decode())
    except UnicodeDecodeError:
        return "the value is not UTF-8 text"
    except (json.JSONDecodeError, RecursionError):
        return "the value is not JSON"
    if not isinstance(document, dict):
        return "the value is not a JSON object"
    faults = [fault for field in fields if (fault := _fault_of(field, document))]
    return "; ".join(faults) or "the value does not fit the schema"


def _fault_of(field: types.StructField, document: Mapping[str, Any]) -> str | None:
    value = document.get(field.name)
    if value is None:
        return None if field.nullable else f"field {field.name} is required and {'null' if field.name in document else 'missing'}"
    if not _fits(field.dataType, value):
        return f"field {field.name} is not {field.dataType.simpleString().upper()}"
    return None


def _fits(wanted: types.DataType, value: Any) -> bool:
    """Whether a JSON value plainly has the type; in doubt it has, because Spark has decided already and only the words are missing."""
    bits = INTEGER_BITS.get(type(wanted))
    if bits is not None:
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    check = _PLAIN_TYPES.get(type(wanted))
    return check is None or check(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_PLAIN_TYPES: Mapping[type[types.DataType], Callable[[Any], bool]] = {
    types.FloatType: _is_number,
    types.DoubleType: _is_number,
    types.DecimalType: lambda value: isinstance(value, int | float | str) and not isinstance(value, bool),
    types.BooleanType: lambda value: isinstance(value, bool),
    types.TimestampType: lambda value: isinstance(value, str | int) and not isinstance(value, bool),
    types.TimestampNTZType: lambda value: isinstance(value, str),
    types.DateType: lambda value: isinstance(value, str),
    types.StructType: lambda value: isinstance(value, dict),
    types.ArrayType: lambda value: isinstance(value, list),
    types.MapType: lambda value: isinstance(value, dict),
}
