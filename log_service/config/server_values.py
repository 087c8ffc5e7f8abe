"""Typed values from the texts of one node's configuration, defaults included.

``config.server`` decides what values mean together.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from log_service.config.definition import Value
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.view_fields import KEYS_OF_VIEWS

T = TypeVar("T")


class ServerValues:
    """Typed access to the values of one configuration. Every text was accepted by its key."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def get(self, name: str) -> Value | None:
        """Return the value in effect, None if there is none."""
        key = SERVER_KEYS[name]
        text = self._texts.get(name, key.default)
        return None if text is None else key.parse(text)

    def view(self, view: type[T], **others: Any) -> T:
        """Return a view with the values in effect. ``others`` are the values of other fields."""
        values: dict[str, Any] = {}
        for name, key in KEYS_OF_VIEWS[view.__name__].items():
            if name not in others:
                values |= key.field_values(self.get(key.name), view.__name__)
        return view(**values | others)

    def is_set(self, name: str) -> bool:
        """Whether the file or an override sets the key."""
        return name in self._texts

    def text(self, name: str) -> str:
        """Return the value of a text key that always has a value."""
        value = self.get(name)
        assert isinstance(value, str)
        return value

    def optional_text(self, name: str) -> str | None:
        """Return the value of a text key, None if it is missing or empty."""
        value = self.get(name)
        assert value is None or isinstance(value, str)
        return value or None

    def number(self, name: str) -> int:
        """Return the value of a key of whole numbers."""
        value = self.get(name)
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """Return the value of a boolean key."""
        value = self.get(name)
        assert isinstance(value, bool)
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a list, or an empty tuple if the key has no value."""
        value = self.get(name)
        assert value is None or isinstance(value, tuple)
        return value or ()
