"""Values of records as typed columns by Spark: those that ``strict_json`` has let through, by a declared schema.

Decides what texts of times, dates and decimals mean, and refuses those that mean none. By itself Spark reads JSON more lightly than this
product does (it stops at the end of the first document and makes texts of numbers), so no value comes here that was not judged before.
Invariant: the columns of provenance pass through unchanged.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sql
from pyspark.sql import types

from orchestration.spark.source import FAULT, PARSED
from orchestration.transforms.variants import as_text, without_nulls
from orchestration.values.strict_json import load_object
from orchestration.values.type_names import type_name

PROVENANCE_COLUMNS = ("_topic_id", "_partition", "_offset", "_timestamp")
MISFIT = "_misfit"
NULLS = "_nulls"
UNREADABLE = "the value does not fit the schema"
CORRUPT = "_corrupt_record"
JSON_OPTIONS: Mapping[str, str] = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
NESTED = (types.StructType, types.ArrayType, types.MapType)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFrame:
    """The records of a batch with their parsed value and whether they misfit; ``fields`` is None where the topic has no schema.

    ``has_headers``: the frame has the column ``headers``, and a transform is given it.
    """

    frame: Any
    fields: types.StructType | None
    has_headers: bool = False

    def fitting(self) -> Any:
        """Return what a transform is given: provenance, ``_key``, ``_headers``, and the fields (``_value`` without a schema)."""
        if self.fields is None:
            own = (sql.col("key").alias("_key"), *self._headers(), sql.col("value").alias("_value"))
            return self.frame.where(~sql.col(MISFIT)).select(*PROVENANCE_COLUMNS, *own)
        columns = [without_nulls(sql.col(PARSED)[field.name], field.dataType).alias(field.name) for field in self.fields]
        return self.frame.where(~sql.col(MISFIT)).select(*PROVENANCE_COLUMNS, text_key("key").alias("_key"), *self._headers(), *columns)

    def decided(self) -> Any:
        """Return every record with whether it misfits, the key as it came as ``_key``, and the fields, each VARIANT as JSON."""
        assert self.fields is not None
        columns = [as_text(sql.col(PARSED)[field.name], field.dataType).alias(field.name) for field in self.fields]
        own = (sql.col("key").alias("_key"), *self._headers())
        return self.frame.select("_partition", "_offset", "_timestamp", *own, MISFIT, *columns)

    def _headers(self) -> tuple[Any, ...]:
        return (sql.col("headers").alias("_headers"),) if self.has_headers else ()

    def misfits(self) -> Any:
        """Return partition and offset of the records that do not fit, why they were refused (null: Spark could not read them), and which
        fields are null in them."""
        nulls = [sql.when(sql.col(PARSED)[field.name].isNull(), sql.lit(field.name)) for field in self.fields or ()]
        return self.frame.where(sql.col(MISFIT)).select(
            "_partition", "_offset", sql.col(FAULT), sql.array_compact(sql.array(*nulls).cast("array<string>")).alias(NULLS)
        )


def text_key(column: str) -> Any:
    """Return a key as text; bytes that are not UTF-8 become replacement characters."""
    return sql.make_valid_utf8(sql.col(column).cast("string"))


def nullable_fields(fields: types.StructType) -> list[types.StructField]:
    """Return ``fields`` that may all be null, the inner ones too: what is required was looked for before, and a null struct has none."""
    return [types.StructField(one.name, _nullable(one.dataType)) for one in fields]


def _nullable(kind: types.DataType) -> types.DataType:
    if isinstance(kind, types.StructType):
        return types.StructType(nullable_fields(kind))
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_nullable(kind.elementType))
    if isinstance(kind, types.MapType):
        return types.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


def parse(frame: Any, fields: types.StructType | None, *, has_headers: bool = False) -> ParsedFrame:
    """Return ``frame`` (the columns of the source, and ``_fault`` of what was refused before, else null) parsed as ``fields``.

    What was read in a format of its own is there already, as ``_parsed``; only what is at fault does not fit then.
    """
    if fields is None:
        return ParsedFrame(frame=frame.withColumn(MISFIT, sql.col(FAULT).isNotNull()), fields=None, has_headers=has_headers)
    if PARSED in frame.columns:
        return ParsedFrame(frame=frame.withColumn(MISFIT, sql.col(FAULT).isNotNull()), fields=fields, has_headers=has_headers)
    with_corrupt = types.StructType([*nullable_fields(fields), types.StructField(CORRUPT, types.StringType())])
    text = sql.when(sql.col(FAULT).isNull(), sql.col("value").cast("string"))
    parsed = frame.withColumn(PARSED, sql.from_json(text, with_corrupt, {**JSON_OPTIONS, "columnNameOfCorruptRecord": CORRUPT}))
    is_misfit = sql.col(FAULT).isNotNull() | sql.col(PARSED).isNull() | sql.col(PARSED)[CORRUPT].isNotNull()
    for one in fields:
        if not one.nullable:
            is_misfit |= sql.col(PARSED)[one.name].isNull()
    return ParsedFrame(frame=parsed.withColumn(MISFIT, is_misfit), fields=fields, has_headers=has_headers)


def explain_unread(value: bytes | None, fields: types.StructType, nulls: Collection[str]) -> str:
    """Return why Spark could not read a ``value`` that is JSON of the right types: ``nulls`` are the fields that it read as null."""
    try:
        document = load_object(value)
    except ValueError as refused:
        return str(refused)
    present = [field for field in fields if document.get(field.name) is not None]
    unread = [field for field in present if field.name in nulls] or [field for field in present if type(field.dataType) in NESTED]
    return "; ".join(f"field {field.name} is not {type_name(field.dataType)}" for field in unread) or UNREADABLE
