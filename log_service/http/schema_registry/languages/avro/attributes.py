"""Reads single attributes of types and fields.

Attributes that Avro does not define are called properties.
"""

from typing import TypeAlias

from log_service.http.schema_registry.languages.avro.defaults import LONG_BITS, fits_bits, number_in
from log_service.http.schema_registry.languages.avro.definitions import invalid
from log_service.http.schema_registry.languages.avro.json_text import scalars
from log_service.http.schema_registry.languages.avro.types import (
    Json,
    Kind,
    Primitive,
    Properties,
    Use,
)

Attributes: TypeAlias = dict[str, Json]

FIELD_ATTRIBUTES = frozenset({"default", "doc", "name", "order", "type", "aliases"})
TYPE_ATTRIBUTES = frozenset(
    {"aliases", "doc", "fields", "items", "name", "namespace", "size", "symbols", "type", "values"}
)
ENUM_ATTRIBUTES = TYPE_ATTRIBUTES | {"default"}
ORDERS = ("ascending", "descending", "ignore")


def attribute(value: Attributes, key: str, path: str) -> Json:
    """Return a required attribute of a type or field.

    Raises:
        InvalidSchemaError: the attribute is missing.
    """
    if key not in value:
        raise invalid(path, f"the attribute {key} is missing")
    return value[key]


def properties_of(value: Attributes, reserved: frozenset[str] = TYPE_ATTRIBUTES) -> Properties:
    """Return the attributes that Avro does not define."""
    return {key: own for key, own in value.items() if key not in reserved}


def text_of(value: Attributes, key: str) -> str | None:
    """Return the text of an attribute. An attribute that is not text counts as missing."""
    text = value.get(key)
    return text if isinstance(text, str) else None


def aliases_of(value: Attributes, path: str) -> list[str]:
    """Return the aliases without repetitions. Namespaces are not added to them.

    Raises:
        InvalidSchemaError: the aliases are not a list of texts.
    """
    listed = value.get("aliases", [])
    if not isinstance(listed, list):
        raise invalid(f"{path}/aliases", "aliases must be a list of texts")
    texts = [alias for alias in listed if isinstance(alias, str)]
    if len(texts) < len(listed):
        raise invalid(f"{path}/aliases", "an alias must be a text")
    return list(dict.fromkeys(texts))


def order_of(value: Attributes, path: str) -> str:
    """Return the sort order of a field in lower case. It is ``ascending`` if none is given.

    Raises:
        InvalidSchemaError: the order is not one that Avro defines.
    """
    order = value.get("order", "ascending")
    if not isinstance(order, str) or order.upper().lower() not in ORDERS:
        raise invalid(f"{path}/order", f"an order must be one of {', '.join(ORDERS)}")
    return order.upper().lower()


def default_of(value: Attributes, use: Use, path: str) -> Json:
    """Return the default of a field, or None if it has none.

    The default of a float or double may be a text, such as ``NaN``. It is returned as a number.

    Raises:
        InvalidSchemaError: such a text is not a number.
    """
    default = value.get("default")
    is_number = isinstance(use, Primitive) and use.kind in {Kind.FLOAT, Kind.DOUBLE}
    if not is_number or not isinstance(default, str):
        return default
    number = number_in(default)
    if number is None:
        raise invalid(f"{path}/default", f"{default!r} is not a number")
    return number


def fits_long(value: Json) -> bool:
    """Return whether all whole numbers inside a value fit 64 bits."""
    numbers = (one for one in scalars(value) if isinstance(one, int))
    return all(fits_bits(number, LONG_BITS) for number in numbers)
