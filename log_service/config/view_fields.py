"""The fields of views that get the value of a key, collected from the declarations of keys.

A view marks such a field with ``KEY`` instead of a default. The declaration of the key names the
field and has the default. Exactly one key names each such field.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from log_service.config.definition import ConfigKey
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS

T = TypeVar("T")

KEY: Final[Any] = object()
"""Marks a field of a view whose default a key declares."""


def keys_of_views(keys: Iterable[ConfigKey]) -> dict[str, dict[str, ConfigKey]]:
    """Return the key of each field that keys declare, by view and field."""
    found: dict[str, dict[str, ConfigKey]] = {}
    for key in keys:
        for field in key.fields:
            named = found.setdefault(field.view, {}).setdefault(field.name, key)
            assert named is key, (
                f"{named.name} and {key.name} both declare {field.view}.{field.name}"
            )
    return found


KEYS_OF_VIEWS: Final[Mapping[str, Mapping[str, ConfigKey]]] = keys_of_views(
    (*TOPIC_KEYS.values(), *SERVER_KEYS.values())
)
"""The key of each such field, by view and field."""


def field_defaults(view: str) -> dict[str, Any]:
    """Return the default values of the fields of a view that have keys, by field name."""
    defaults: dict[str, Any] = {}
    for key in KEYS_OF_VIEWS[view].values():
        defaults |= key.field_values(None if key.default is None else key.parse(key.default), view)
    return defaults


def with_key_defaults(view: type[T]) -> type[T]:
    """Give the fields of a class the defaults of their keys, before it becomes a dataclass.

    The keys of an inherited field are those of the class that inherits it.
    """
    inherited = {
        field.name: field.type
        for base in view.__bases__
        if base is not object
        for field in fields(base)
    }
    for name, default in field_defaults(view.__name__).items():
        view.__annotations__.setdefault(name, inherited.get(name))
        setattr(view, name, default)
    return view
