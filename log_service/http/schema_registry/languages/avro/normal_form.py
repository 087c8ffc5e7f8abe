"""Computes the normal form of a type, in which types that differ only in layout are equal.

Aliases and properties are sorted, an error becomes a record, and a default is written as its type
prints it. The rules are those of Confluent's registry, with two exceptions. A default that does not
fit the first branch of a union is kept, while Confluent drops it. A name without a namespace
remains without one.
"""

import math
import struct
from dataclasses import replace

from log_service.http.schema_registry.languages.avro.defaults import INT_BITS, fits_bits
from log_service.http.schema_registry.languages.avro.types import (
    Array,
    AvroType,
    Field,
    Fixed,
    Json,
    Kind,
    Map,
    Name,
    Named,
    Primitive,
    Properties,
    Record,
    Union,
    Use,
    target,
    utf16_order,
)

LOGICAL_TYPES = {
    "big-decimal": {Kind.BYTES},
    "date": {Kind.INT},
    "decimal": {Kind.BYTES, Kind.FIXED},
    "duration": {Kind.FIXED},
    "local-timestamp-micros": {Kind.LONG},
    "local-timestamp-millis": {Kind.LONG},
    "local-timestamp-nanos": {Kind.LONG},
    "time-micros": {Kind.LONG},
    "time-millis": {Kind.INT},
    "timestamp-micros": {Kind.LONG},
    "timestamp-millis": {Kind.LONG},
    "timestamp-nanos": {Kind.LONG},
    "uuid": {Kind.STRING, Kind.FIXED},
}
"""The kinds that may carry a logical type."""

FIXED_SIZES = {"duration": 12, "uuid": 16}
JAVA_CLASS_PROPERTIES = ("avro.java.string", "java-class", "java-key-class", "java-element-class")
"""With one of these properties, Java ignores a property that names a logical type."""


def normal(avro_type: AvroType) -> AvroType:
    """Return a type with its own attributes in normal form. The types inside it are unchanged."""
    match avro_type:
        case Union():
            return avro_type
        case Primitive() | Array() | Map():
            return replace(avro_type, properties=_normal_properties(avro_type))
    named = replace(
        avro_type,
        doc=avro_type.doc or None,
        aliases=_sorted_aliases(avro_type),
        properties=_normal_properties(avro_type),
    )
    if not isinstance(named, Record):
        return named
    fields = {field.name: _normal_field(field) for field in named.fields.values()}
    return replace(named, is_error=False, fields=fields)


def _sorted_aliases(named: Named) -> tuple[Name, ...]:
    return tuple(sorted(named.aliases, key=lambda alias: utf16_order(alias_text(named, alias))))


def alias_text(named: Named, alias: Name) -> str:
    """Return an alias as Java compares and sorts it.

    It starts with a dot if the alias has no namespace, but the type has one.
    """
    return f".{alias.simple}" if named.name.namespace and not alias.namespace else alias.full


def _normal_field(field: Field) -> Field:
    return replace(
        field,
        default=normal_default(field.type, field.default) if field.has_default else None,
        aliases=tuple(sorted(field.aliases, key=utf16_order)),
        properties=_sorted_object(field.properties),
    )


def _normal_properties(avro_type: AvroType) -> Properties:
    """Return a type's properties, sorted by name, but those of a valid logical type first."""
    properties = _sorted_object(avro_type.properties)
    first = {"logicalType"} if (name := logical_type(avro_type)) else set()
    if name == "decimal":
        first |= {"precision"} | ({"scale"} if properties.get("scale") else set())
    return {key: properties[key] for key in sorted(first)} | properties


def logical_type(avro_type: AvroType) -> str | None:
    """Return the valid logical type that a type's properties declare, or None."""
    name = avro_type.properties.get("logicalType")
    if not isinstance(name, str) or avro_type.kind not in LOGICAL_TYPES.get(name, ()):
        return None
    if any(isinstance(avro_type.properties.get(key), str) for key in JAVA_CLASS_PROPERTIES):
        return None
    if isinstance(avro_type, Fixed) and FIXED_SIZES.get(name, avro_type.size) != avro_type.size:
        return None
    return name if name != "decimal" or _is_decimal(avro_type) else None


def _is_decimal(avro_type: AvroType) -> bool:
    """Return whether precision, scale and the type's size are valid for a decimal."""
    precision, scale = _int(avro_type, "precision", 0), _int(avro_type, "scale", 0)
    if precision is None or scale is None:
        return False
    digits = precision
    if isinstance(avro_type, Fixed):
        digits = math.floor(math.log10(2) * (8 * avro_type.size - 1))
    return 0 < precision <= digits and 0 <= scale <= precision


def _int(avro_type: AvroType, key: str, missing: int) -> int | None:
    value = avro_type.properties.get(key, missing)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if fits_bits(value, INT_BITS) else None


def normal_default(use: Use, value: Json) -> Json:
    """Return a default as its type prints it. The type of a union's default is the first branch."""
    avro_type = target(use)
    if isinstance(avro_type, Union) and avro_type.branches:
        return normal_default(avro_type.branches[0], value)
    match avro_type, value:
        case Array(items=items), list():
            default: Json = [normal_default(items, part) for part in value]
        case Map(values=values), dict():
            default = {key: normal_default(values, value[key]) for key in _sorted_keys(value)}
        case Record(fields=fields), dict():
            keys = _sorted_keys(value)
            default = {key: _normal_part(fields.get(key), value[key]) for key in keys}
        case Fixed() | Primitive(kind=Kind.BYTES), str():
            default = value.encode("latin-1", "replace").decode("latin-1")
        case Primitive(kind=Kind.FLOAT | Kind.DOUBLE as kind), (int() | float()):
            default = value if isinstance(value, bool) else _number(kind, value)
        case _:
            default = sorted_json(value)
    return default


def _normal_part(field: Field | None, value: Json) -> Json:
    return normal_default(field.type, value) if field else sorted_json(value)


def _number(kind: Kind, value: float) -> float:
    """Return a number with the precision of its type. Beyond the type's range it is infinite."""
    try:
        return float(value) if kind is Kind.DOUBLE else _float(float(value))
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def _float(number: float) -> float:
    """Return the number with the fewest digits that has the same single-precision value."""
    packed = struct.pack("f", number)
    single: float = struct.unpack("f", packed)[0]
    candidates = (float(f"{single:.{digits}g}") for digits in range(1, 10))
    return next((each for each in candidates if struct.pack("f", each) == packed), single)


def sorted_json(value: Json) -> Json:
    """Return a value with the keys of its objects sorted."""
    if isinstance(value, dict):
        return _sorted_object(value)
    return [sorted_json(element) for element in value] if isinstance(value, list) else value


def _sorted_object(value: Properties) -> dict[str, Json]:
    return {key: sorted_json(value[key]) for key in _sorted_keys(value)}


def _sorted_keys(value: Properties) -> list[str]:
    return sorted(value, key=utf16_order)
