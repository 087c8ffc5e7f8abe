"""A text with its path, and errors that name a line and a column of it."""

from dataclasses import dataclass

from log_service.http.schema_registry.languages.language import InvalidSchemaError

NOWHERE = -1
"""The position of a node that did not come from a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of one file. ``path`` is how others import it, and is empty for the schema itself.

    ``text`` is empty if the schema came as a serialized descriptor.
    """

    path: str = ""
    text: str = ""

    def error(self, at: int, sentence: str) -> InvalidSchemaError:
        """Return an error that says where it is. ``at`` is an offset into the text."""
        place = f"{self.path}: " if self.path else ""
        if at != NOWHERE and self.text:
            before = self.text[:at]
            column = at - (before.rfind("\n") + 1) + 1
            place += f"line {before.count(chr(10)) + 1}, column {column}: "
        return InvalidSchemaError(place + sentence)
