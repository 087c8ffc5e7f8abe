"""The syntax tree of a ``.proto`` file. It holds all statements in their written order.

Names of types stay as written, relative or with a leading dot. Positions (``at``) are offsets into
the text, and are ignored when trees are compared. Comments are not kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from log_service.http.schema_registry.languages.protobuf.source import NOWHERE

MAX_NUMBER = 536_870_911
"""The highest number of a field: 2**29 - 1."""
MAX_INT32 = 2**31 - 1
MIN_INT32 = -(2**31)


def position() -> int:
    """Declare a dataclass field for a position, which comparisons ignore."""
    return field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """An identifier as a value, such as ``true``, ``SPEED``, ``inf`` or ``-nan``."""

    text: str
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number as it is written, such as ``-0x1F`` or ``1e5``."""

    text: str
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A string without its quotes and escapes, as bytes, because an escape may be any byte."""

    data: bytes
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """``key: value`` in an aggregate. A key in brackets names an extension.

    Only before a message or a list of messages may the colon be missing.
    """

    key: str
    value: "Value"
    has_colon: bool = field(default=True, compare=False)
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A message as a value, in braces."""

    entries: tuple[Entry, ...]
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list of values, in brackets."""

    values: tuple["Value", ...]
    at: int = position()


Scalar = Word | Number | Quoted
Value = Scalar | Aggregate | Items


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePart:
    """One part of an option's name. The name of an extension is written in parentheses."""

    text: str
    is_extension: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """``name = value``."""

    name: tuple[NamePart, ...]
    value: Value
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Numbers from ``start`` to ``end``, both included. ``end`` is None for a single number."""

    start: int
    end: int | None = None
    at: int = position()

    @property
    def last(self) -> int:
        """The last number of the range."""
        return self.start if self.end is None else self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedName:
    """A name that no field or value may have. Editions write it without quotes."""

    text: str
    is_quoted: bool = True
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """One ``reserved`` statement."""

    values: tuple[Range | ReservedName, ...]
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """One ``extensions`` statement: numbers that extensions of the message may use."""

    ranges: tuple[Range, ...]
    options: tuple[Option, ...] = ()
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field, also of a oneof or an extension.

    ``type`` is the type of values if ``map_key`` names a type of keys. A field with ``group`` is a
    group: ``name`` and ``type`` are the name of its message.
    """

    name: str
    type: str
    number: int
    label: str = ""
    map_key: str = ""
    group: "Message | None" = None
    default: Value | None = None
    json_name: Quoted | None = None
    options: tuple[Option, ...] = ()
    at: int = position()
    type_at: int = position()
    number_at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """A oneof: fields of which a message has at most one."""

    name: str
    fields: tuple[Field, ...]
    options: tuple[Option, ...] = ()
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumValue:
    """A value of an enum: a name and its number."""

    name: str
    number: int
    options: tuple[Option, ...] = ()
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Enum:
    """An enum. ``visibility`` is ``export``, ``local`` or empty."""

    name: str
    values: tuple[EnumValue, ...]
    reserved: tuple[Reserved, ...] = ()
    options: tuple[Option, ...] = ()
    visibility: str = ""
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """An ``extend`` statement: fields that are added to a message from outside."""

    extendee: str
    fields: tuple[Field, ...]
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message. Its body keeps its order, because generated code numbers nested messages by it."""

    name: str
    body: "tuple[Field | OneOf | Message | Enum | Extend | Extensions | Reserved, ...]"
    options: tuple[Option, ...] = ()
    visibility: str = ""
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    is_request_stream: bool = False
    is_response_stream: bool = False
    options: tuple[Option, ...] = ()
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service."""

    name: str
    rpcs: tuple[Rpc, ...]
    options: tuple[Option, ...] = ()
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import. ``kind`` is ``public``, ``weak``, ``option`` or empty."""

    path: str
    kind: str = ""
    at: int = position()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoFile:
    """A whole file. ``syntax`` and ``edition`` are empty if the file does not state them."""

    syntax: str = ""
    edition: str = ""
    package: str = ""
    imports: tuple[Import, ...] = ()
    options: tuple[Option, ...] = ()
    body: tuple[Message | Enum | Extend | Service, ...] = ()
    package_at: int = position()
    edition_at: int = position()


def has_option(options: Iterable[Option], name: str) -> bool:
    """Return whether an option with this name, without further parts, is set."""
    return any(option.name == (NamePart(text=name),) for option in options)


def has_flag(options: Iterable[Option], name: str) -> bool:
    """Return whether an option with this name, without further parts, is set to true."""
    return any(
        option.name == (NamePart(text=name),) and option.value == Word(text="true")
        for option in options
    )
