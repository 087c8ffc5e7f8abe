"""Declares the protocol of a schema language, and the types of its arguments and results."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class SchemaType(StrEnum):
    """The name of a language in requests and records. A schema without a type is Avro."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class InvalidSchemaError(Exception):
    """A text is not a valid schema, or takes more than its limits allow.

    The message about an invalid text names the line, or the path inside the schema.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSchema:
    """A schema that another one refers to, and the name that the reference uses for it.

    The name is the full name of a type in Avro, a ``$ref`` in JSON Schema, and the path of an
    import in Protobuf.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One reason why a reader's schema cannot read a writer's data.

    ``kind`` is Confluent's name, for instance ``READER_FIELD_MISSING_DEFAULT_VALUE``. ``path`` is
    the position in the schema. ``text`` is the whole line that a verbose response lists.
    """

    kind: str
    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The words for the two compared schemas in messages, such as "new" and "old"."""

    reader: str
    writer: str


BACKWARD_SIDES = Sides(reader="new", writer="old")
"""A new schema reads what an old one wrote."""
FORWARD_SIDES = Sides(reader="old", writer="new")
"""An old schema reads values of a new one."""


class ParsedSchema(Protocol):
    """A parsed schema with the schemas that it refers to.

    Only a schema that was parsed as a new one is known to be valid.
    """

    @property
    def schema_type(self) -> SchemaType:
        """The schema's language."""

    @property
    def canonical(self) -> str:
        """The text that is stored, and returned in responses."""

    @property
    def top_level_fields(self) -> frozenset[str]:
        """The names of the fields at the top level of a value, without nested fields."""

    def normalized(self) -> str:
        """Return the text in its normal form.

        Schemas that differ only in layout have the same one. Each language decides what counts as
        layout.
        """

    def formatted(self, form: str) -> str:
        """Return the text in a format that a client asks for, such as ``resolved``.

        Any unknown format means the canonical text, as in Confluent's registry.
        """

    def differences(
        self, writer: Any, *, sides: Sides = BACKWARD_SIDES, is_lenient: bool = False
    ) -> list[Difference]:
        """Return the reasons that keep this schema from reading values of ``writer``.

        The result is empty if the schema can read them.

        ``sides`` are the words for both schemas in the texts of the result. ``is_lenient`` accepts
        more changes of properties in JSON Schema. Other languages ignore it.

        Raises:
            InvalidSchemaError: the comparison takes more steps than its budget has.
        """


class Language(Protocol):
    """A schema language. Implementations have no state."""

    @property
    def schema_type(self) -> SchemaType:
        """The language's name in requests and records."""

    def parse(
        self, text: str, dependencies: Sequence[NamedSchema] = (), *, is_new: bool = True
    ) -> ParsedSchema:
        """Parse a text, and return its schema.

        ``dependencies`` has each schema that is referred to, also indirectly, once. A schema comes
        after those that it refers to. ``is_new`` adds the checks that only new schemas must pass,
        because a laxer registry may have accepted a schema that is already registered.

        Raises:
            InvalidSchemaError: the text is not a schema of this language, or is over a bound.
        """
