"""A text with its path, and errors that name a line and a column of it."""

from dataclasses import dataclass

from log_service.http.schema_registry.languages.language import InvalidSchemaError

MAX_SENTENCE = 400
"""The longest sentence of an error. Without a bound it could quote a name as long as the text."""
NOWHERE = -1
"""The position of a node that did not come from a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of one file.

    ``path`` is the path by which other files import it, or empty for the schema itself. ``text`` is
    empty if the schema came as a serialized descriptor.
    """

    path: str = ""
    text: str = ""

    def error(self, at: int, sentence: str) -> InvalidSchemaError:
        """Return an error that names its line and column. ``at`` is an offset into the text."""
        place = f"{self.path}: " if self.path else ""
        if at != NOWHERE and self.text:
            before = self.text[:at]
            column = at - (before.rfind("\n") + 1) + 1
            place += f"line {before.count(chr(10)) + 1}, column {column}: "
        shown = sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[:MAX_SENTENCE]} ..."
        return InvalidSchemaError(place + shown)
