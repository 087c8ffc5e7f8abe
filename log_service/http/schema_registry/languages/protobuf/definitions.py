"""Definitions of a file, with full names and resolved types. The linker builds them from a tree.

As in descriptors, a map field has an entry message, and an optional field of proto3 has a oneof of
its own. A full name has no leading dot.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from log_service.http.schema_registry.languages.protobuf.features import Features
from log_service.http.schema_registry.languages.protobuf.source import Source
from log_service.http.schema_registry.languages.protobuf.tree import (
    MAX_INT32,
    MAX_NUMBER,
    Enum,
    Extensions,
    Field,
    Message,
    OneOf,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
    has_flag,
)

SCALARS = frozenset(
    {
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "sint32",
        "sint64",
        "fixed32",
        "fixed64",
        "sfixed32",
        "sfixed64",
        "bool",
        "string",
        "bytes",
    }
)


class NameKind(StrEnum):
    """A kind of definition that has a full name. The value is its name in error texts."""

    PACKAGE = "a package"
    MESSAGE = "a message"
    ENUM = "an enum"
    VALUE = "an enum value"
    FIELD = "a field"
    EXTENSION = "an extension"
    ONEOF = "a oneof"
    SERVICE = "a service"
    METHOD = "a method"


TYPES = frozenset({NameKind.MESSAGE, NameKind.ENUM})
SCOPES = TYPES | {NameKind.PACKAGE, NameKind.SERVICE}
"""Names that have other names inside of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDefinition:
    """A field or an extension.

    ``kind`` is a scalar, ``message``, ``group``, ``enum``, or empty if the type is unknown. In that
    case ``type_name`` is the type as it is written. ``oneof`` is an index into the message's
    ``oneofs``.
    """

    node: Field
    name: str
    full_name: str
    label: str
    kind: str
    features: Features
    type_name: str = ""
    extendee: str = ""
    oneof: int | None = None
    is_optional_of_proto3: bool = False

    @property
    def number(self) -> int:
        """The number on the wire."""
        return self.node.number

    @property
    def is_repeated(self) -> bool:
        """Whether there may be several values."""
        return self.label == "repeated"

    @property
    def is_delimited(self) -> bool:
        """Whether the message is enclosed by two tags on the wire, as a group is."""
        has_own_encoding = self.kind == "message" and self.features.message_encoding == "DELIMITED"
        return self.kind == "group" or (has_own_encoding and not self.node.map_key)

    @property
    def is_implicit(self) -> bool:
        """Whether a zero counts as not set (implicit presence), so that it is not on the wire."""
        is_scalar = self.kind not in {"message", "group"}
        has_presence = self.is_repeated or self.oneof is not None or bool(self.extendee)
        return is_scalar and not has_presence and self.features.field_presence == "IMPLICIT"

    @property
    def scope(self) -> str:
        """The full name of the scope that contains the field."""
        return scope_of(self.full_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumDefinition:
    """An enum. Its values are names in the scope around it, as in C++."""

    node: Enum
    full_name: str
    features: Features

    @property
    def scope(self) -> str:
        """The full name of the scope that contains the enum."""
        return scope_of(self.full_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDefinition:
    """A message.

    ``oneofs`` has names: first those in the text, then those made for proto3's optional fields.
    """

    node: Message
    full_name: str
    features: Features
    fields: tuple[FieldDefinition, ...]
    oneofs: tuple[str, ...] = ()
    messages: "tuple[MessageDefinition, ...]" = ()
    enums: tuple[EnumDefinition, ...] = ()
    extensions: tuple[FieldDefinition, ...] = ()
    is_map_entry: bool = False

    @property
    def scope(self) -> str:
        """The full name of the scope that contains the message."""
        return scope_of(self.full_name)

    @property
    def is_message_set(self) -> bool:
        """Whether the message has the option ``message_set_wire_format``."""
        return has_flag(self.node.options, "message_set_wire_format")

    def last_number(self, numbers: Range) -> int:
        """Return the last number of an extension range.

        In a message set, ``max`` is a higher number than elsewhere.
        """
        return MAX_INT32 - 1 if self.is_message_set and numbers.last == MAX_NUMBER else numbers.last

    @property
    def oneof_nodes(self) -> list[OneOf]:
        """The oneofs that the schema's text declares."""
        return [each for each in self.node.body if isinstance(each, OneOf)]

    @property
    def extension_ranges(self) -> list[Extensions]:
        """The ``extensions`` statements: numbers that extensions of the message may use."""
        return [each for each in self.node.body if isinstance(each, Extensions)]

    @property
    def reserved(self) -> list[Reserved]:
        """The ``reserved`` statements: numbers and names that no field may use."""
        return [each for each in self.node.body if isinstance(each, Reserved)]

    def text_names(self) -> dict[str, FieldDefinition]:
        """Return the fields by their names in the text format.

        A group is also found by the name of its message.
        """
        groups = {each.node.name: each for each in self.fields if each.node.group}
        return groups | {each.name: each for each in self.fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodDefinition:
    """A method. ``request`` and ``response`` are full names of types, or empty if unknown."""

    node: Rpc
    full_name: str
    request: str
    response: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDefinition:
    """A service."""

    node: Service
    full_name: str
    methods: tuple[MethodDefinition, ...]

    @property
    def scope(self) -> str:
        """The full name of the scope that contains the service."""
        return scope_of(self.full_name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileDefinition:
    """A linked file. ``imports`` has the imported files by path, except those not found."""

    path: str
    source: Source = field(repr=False)
    node: ProtoFile = field(repr=False)
    features: Features
    imports: "Mapping[str, FileDefinition]" = field(repr=False)
    names: Mapping[str, NameKind] = field(repr=False)
    messages: tuple[MessageDefinition, ...]
    enums: tuple[EnumDefinition, ...]
    extensions: tuple[FieldDefinition, ...]
    services: tuple[ServiceDefinition, ...]

    def all_messages(self) -> Iterator[MessageDefinition]:
        """Yield every message. A nested message comes after its parent."""
        waiting = list(reversed(self.messages))
        while waiting:
            message = waiting.pop()
            yield message
            waiting.extend(reversed(message.messages))

    def all_enums(self) -> Iterator[EnumDefinition]:
        """Yield every enum."""
        yield from self.enums
        for message in self.all_messages():
            yield from message.enums

    def all_extensions(self) -> Iterator[FieldDefinition]:
        """Yield every extension."""
        yield from self.extensions
        for message in self.all_messages():
            yield from message.extensions


def joined(scope: str, name: str) -> str:
    """Return the full name of a name in a scope."""
    return f"{scope}.{name}" if scope else name


def scope_of(full_name: str) -> str:
    """Return the full name of the scope that contains a name."""
    return full_name.rpartition(".")[0]
