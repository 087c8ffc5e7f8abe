"""Checks whether the newest version of a subject can be read as the declared columns of a topic.

Decides the result, its sentence, and how long a result counts as recent. Avro and Protobuf are
checked as when values are read. JSON is checked by the types of properties, because its values are
read one by one. Does not know Dagster.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql import types

from log_service.client.schemas.values import JSON
from log_service.common.counts import agreed
from orchestration.formats.columns import ddl_of
from orchestration.formats.json_schema_fields import json_schema_fields
from orchestration.formats.registered import RegistrySchema
from orchestration.formats.registry import (
    RegistryError,
    RegistrySchemaError,
    SubjectVersion,
    newest_version,
)
from orchestration.formats.resolving import (
    DeclaredColumns,
    columns_format,
    group_reader,
    new_fields,
)
from orchestration.settings import SettingsError

RECENT_S = 60.0
"""Seconds for which a process uses the last result without asking the registry again."""
UNDECIDED = (RegistryError, RegistrySchemaError, SettingsError)
"""Errors after which it is unknown whether the newest version can be read."""
NUMBERS = (types.NumericType, types.TimestampType, types.TimestampNTZType, types.DateType)
TEXTS = (types.TimestampType, types.TimestampNTZType, types.DateType, types.BinaryType)
READABLE: Mapping[type[types.DataType], tuple[type[types.DataType], ...]] = {
    types.StringType: (types.StringType, types.DecimalType, *TEXTS),
    types.LongType: NUMBERS,
    types.DoubleType: NUMBERS,
    types.BooleanType: (types.BooleanType,),
}
"""The column types that a property of JSON may be read as, by the type of the property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """The result of checking the newest version of a subject.

    ``fault`` says why it cannot be read as ``declared``, and is empty if it can. ``new_fields`` are
    its fields that the columns lack.
    """

    declared: SubjectVersion
    newest: SubjectVersion
    fault: str = ""
    new_fields: tuple[str, ...] = ()

    @property
    def is_compatible(self) -> bool:
        """Return whether the newest version can be read."""
        return not self.fault

    @property
    def text(self) -> str:
        """Return the result as a sentence that names both versions and the fields."""
        if self.fault:
            return f"{self.newest} cannot be read as {self.declared}: {self.fault}"
        if self.newest.version == self.declared.version:
            return f"{self.newest} is the newest, and is declared"
        if not self.new_fields:
            return f"{self.newest} can be read as {self.declared}"
        count = len(self.new_fields)
        return (
            f"{self.newest} can be read as {self.declared}, which lacks the "
            f"{agreed(count, 'field', 'fields')} {', '.join(self.new_fields)}"
        )


def newest_compatibility(schema: RegistrySchema) -> Compatibility:
    """Return whether the registry's newest version can be read as the declared version.

    :raises UnknownSchemaError: the subject has no version.
    :raises RegistryAwayError: no registry responds.
    :raises RegistrySchemaError: a schema that the newest version refers to is missing or invalid.
    """
    newest = newest_version(schema.address, schema.declared_version.subject)
    return decide_compatibility(schema.columns, newest)


def recent_compatibility(schema: RegistrySchema) -> Compatibility | str:
    """Return a result that is at most ``RECENT_S`` old, or the reason why there is none."""
    return _recent(schema, int(time.monotonic() / RECENT_S))


@lru_cache(maxsize=1_000)
def _recent(schema: RegistrySchema, period: int) -> Compatibility | str:
    del period
    try:
        return newest_compatibility(schema)
    except UNDECIDED as error:
        return str(error)


def decide_compatibility(columns: DeclaredColumns, newest: SubjectVersion) -> Compatibility:
    """Decide whether the newest version of a subject can be read as the declared columns."""
    declared = columns.version
    if newest.language != declared.language:
        fault = f"it is {newest.language}, and not {declared.language}"
        return Compatibility(declared=declared, newest=newest, fault=fault)
    try:
        if newest.language == JSON:
            _validate_json(columns, newest)
        else:
            group_reader(columns, newest.schema)
        further = new_fields(columns, newest.schema)
    except ValueError as error:
        return Compatibility(declared=declared, newest=newest, fault=str(error))
    return Compatibility(declared=declared, newest=newest, new_fields=tuple(further))


def _validate_json(columns: DeclaredColumns, newest: SubjectVersion) -> None:
    """Refuse properties that do not fit the columns. Raises ValueError, which names one of them."""
    written = json_schema_fields(newest.content, newest.references, columns.chosen)
    _validate_struct(written, columns_format(columns).fields, "")


def _validate_struct(written: types.StructType, declared: types.StructType, path: str) -> None:
    known = {one.name: one for one in written}
    for field in declared:
        where, other = f"{path}{field.name}", known.get(field.name)
        if other is None and not field.nullable:
            raise ValueError(f"it has no property {where}, which is NOT NULL as declared")
        if other is None:
            continue
        if other.nullable and not field.nullable:
            raise ValueError(
                f"property {where} may be missing or null, and is NOT NULL as declared"
            )
        _validate_type(other.dataType, field.dataType, where)


def _validate_type(written: types.DataType, declared: types.DataType, where: str) -> None:
    if isinstance(declared, types.VariantType):
        return
    if isinstance(written, types.StructType) and isinstance(declared, types.StructType):
        _validate_struct(written, declared, f"{where}.")
    elif isinstance(written, types.ArrayType) and isinstance(declared, types.ArrayType):
        _validate_type(written.elementType, declared.elementType, f"{where}[]")
    elif isinstance(written, types.MapType) and isinstance(declared, types.MapType):
        _validate_type(written.valueType, declared.valueType, f"{where}[]")
    elif not isinstance(declared, READABLE.get(type(written), ())):
        raise ValueError(  # noqa: TRY004 - a fault of the schema
            f"property {where} is {ddl_of(written)}, and not {ddl_of(declared)} as declared"
        )
