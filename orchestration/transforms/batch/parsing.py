"""Values of records as typed columns, parsed by Spark with a declared schema.

Decides how texts of times, dates and decimals are read, and refuses invalid ones. Spark alone reads
JSON more leniently than tables may (it stops at the end of the first document and converts numbers
to texts). So only values that ``strict_json`` has accepted are parsed here.
Invariant: the columns of provenance pass through unchanged.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as sql
from pyspark.sql import types

from orchestration.spark.source import FAULT, PARSED
from orchestration.transforms.batch.variants import as_text, without_nulls
from orchestration.values.strict_json import load_object
from orchestration.values.type_names import type_name

PROVENANCE_COLUMNS = ("_topic_id", "_partition", "_offset", "_timestamp")
MISFIT = "_misfit"
NULLS = "_nulls"
UNREADABLE = "the value does not fit the schema"
CORRUPT = "_corrupt_record"
JSON_OPTIONS: Mapping[str, str] = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
NESTED = (types.StructType, types.ArrayType, types.MapType)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFrame:
    """The records of a batch with their parsed value, and a flag for records that do not fit.

    ``fields`` is None if the topic has no schema. With ``has_headers`` the frame has the column
    ``headers``, and the transform gets it.
    """

    frame: Any
    fields: types.StructType | None
    has_headers: bool = False

    def fitting(self) -> Any:
        """Return the transform's input: provenance, ``_key``, ``_headers``, and the fields.

        Without a schema ``_value`` takes the place of the fields.
        """
        if self.fields is None:
            own = (sql.col("key").alias("_key"), *self._headers(), sql.col("value").alias("_value"))
            return self.frame.where(~sql.col(MISFIT)).select(*PROVENANCE_COLUMNS, *own)
        columns = [
            without_nulls(sql.col(PARSED)[field.name], field.dataType).alias(field.name)
            for field in self.fields
        ]
        return self.frame.where(~sql.col(MISFIT)).select(
            *PROVENANCE_COLUMNS, text_key("key").alias("_key"), *self._headers(), *columns
        )

    def decided(self) -> Any:
        """Return all records with the flag for misfits, the raw ``_key``, and the fields.

        Each VARIANT is JSON.
        """
        assert self.fields is not None
        columns = [
            as_text(sql.col(PARSED)[field.name], field.dataType).alias(field.name)
            for field in self.fields
        ]
        own = (sql.col("key").alias("_key"), *self._headers())
        return self.frame.select("_partition", "_offset", "_timestamp", *own, MISFIT, *columns)

    def _headers(self) -> tuple[Any, ...]:
        return (sql.col("headers").alias("_headers"),) if self.has_headers else ()

    def misfits(self) -> Any:
        """Return the places of the records that do not fit.

        The columns are partition, offset, reason, and the names of null fields. The reason is null
        if Spark could not read the value.
        """
        nulls = [
            sql.when(sql.col(PARSED)[field.name].isNull(), sql.lit(field.name))
            for field in self.fields or ()
        ]
        return self.frame.where(sql.col(MISFIT)).select(
            "_partition",
            "_offset",
            sql.col(FAULT),
            sql.array_compact(sql.array(*nulls).cast("array<string>")).alias(NULLS),
        )


def text_key(column: str) -> Any:
    """Return a key as text. Bytes that are not UTF-8 become replacement characters."""
    return sql.make_valid_utf8(sql.col(column).cast("string"))


def nullable_fields(fields: types.StructType) -> list[types.StructField]:
    """Return ``fields`` with every field nullable, nested ones too.

    Required fields were checked earlier, and if a struct is null, its fields are null, too.
    """
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
    """Return ``frame`` parsed as ``fields``.

    ``frame`` has the columns of the source, and ``_fault`` (null for values that were not refused).
    Values in formats other than JSON are parsed already, as ``_parsed``. Then only values with a
    fault are misfits.
    """
    if fields is None:
        return ParsedFrame(
            frame=frame.withColumn(MISFIT, sql.col(FAULT).isNotNull()),
            fields=None,
            has_headers=has_headers,
        )
    if PARSED in frame.columns:
        return ParsedFrame(
            frame=frame.withColumn(MISFIT, sql.col(FAULT).isNotNull()),
            fields=fields,
            has_headers=has_headers,
        )
    with_corrupt = types.StructType(
        [*nullable_fields(fields), types.StructField(CORRUPT, types.StringType())]
    )
    text = sql.when(sql.col(FAULT).isNull(), sql.col("value").cast("string"))
    parsed = frame.withColumn(
        PARSED,
        sql.from_json(text, with_corrupt, {**JSON_OPTIONS, "columnNameOfCorruptRecord": CORRUPT}),
    )
    is_misfit = (
        sql.col(FAULT).isNotNull() | sql.col(PARSED).isNull() | sql.col(PARSED)[CORRUPT].isNotNull()
    )
    for one in fields:
        if not one.nullable:
            is_misfit |= sql.col(PARSED)[one.name].isNull()
    return ParsedFrame(
        frame=parsed.withColumn(MISFIT, is_misfit), fields=fields, has_headers=has_headers
    )


def explain_unread(value: bytes | None, fields: types.StructType, nulls: Collection[str]) -> str:
    """Return why Spark could not read a ``value`` that is JSON of the right types.

    ``nulls`` are the fields that it read as null.
    """
    try:
        document = load_object(value)
    except ValueError as refused:
        return str(refused)
    present = [field for field in fields if document.get(field.name) is not None]
    unread = [field for field in present if field.name in nulls] or [
        field for field in present if type(field.dataType) in NESTED
    ]
    return (
        "; ".join(f"field {field.name} is not {type_name(field.dataType)}" for field in unread)
        or UNREADABLE
    )
