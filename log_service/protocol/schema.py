"""How a message declares its wire form: one ``Schema`` per struct, one ``Field`` per member, as facts and without behaviour.

The generated modules carry these beside their dataclasses, and the codec compiles from them. Versions are written as Kafka writes them:
``"3+"``, ``"0-12"``, ``"4"``; an empty string is no version at all. Nothing here knows bytes.

Invariants: a field with a tag is tagged in every version it has; a struct that is tagged and not nullable has ``None`` for "absent", so
that no object is built for a field that is not there.
"""

from collections.abc import Sized
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Protocol

from log_service.common.types import Buffer

Chunk = Buffer | Sized
"""What encoded messages are made of: bytes of ours, and ``records`` as they were handed in (anything with a length)."""

NO_LIMIT = 0x7FFF

OWN: Any = object()
"""Default of an argument whose value can be changed: each message gets a list, or a struct, of its own."""


class Field(NamedTuple):
    """One member of a struct; a tuple, because a node makes a thousand of them while it starts.

    ``wire_type`` is Kafka's name of a primitive, ``struct``, or either behind ``[]``; ``struct`` is then the class of the element.
    ``default`` is the value; ``()`` stands for an empty list and ``...`` for a struct made of its own defaults.
    ``flexible`` overrides the message's own flexible versions (the client id of a request header is never compact).
    ``is_secret`` is what ``repr`` leaves out.
    """

    name: str
    wire_type: str
    versions: str
    nullable: str = ""
    tag: int | None = None
    ignorable: bool = False
    default: Any = None
    struct: "type[Message] | None" = None
    flexible: str | None = None
    is_secret: bool = False

    @property
    def is_array(self) -> bool:
        """Whether the member is a list."""
        return self.wire_type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type without its ``[]``."""
        return self.wire_type.removeprefix("[]")


class Schema(NamedTuple):
    """The wire form of one struct: ``valid`` are the versions we speak, ``flexible`` those with compact lengths and tags.

    ``key`` is Kafka's number of a whole message: an API key, or the type of a stored record.
    """

    name: str
    valid: str
    flexible: str
    fields: tuple[Field, ...]
    key: int | None = None


class Struct:
    """What every generated class inherits: equality and ``repr`` by fields.

    ``dataclass`` would compile both for each class while it is imported, and a node imports 350 of them before it serves. For the same
    reason the generator writes each ``__init__`` out. The classes are dataclasses all the same: ``replace`` and ``fields`` know them.
    """

    __slots__: tuple[str, ...] = ()
    SCHEMA: ClassVar[Schema]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return not self.__slots__ or (values := attrgetter(*self.__slots__))(self) == values(other)

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __repr__(self) -> str:
        shown = (field.name for field in self.SCHEMA.fields if not field.is_secret)
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


class Message(Protocol):
    """Any generated class: a plain dataclass with its schema beside it."""

    SCHEMA: ClassVar[Schema]


@cache
def version_span(versions: str) -> tuple[int, int]:
    """Return (first, last) of a version text, both inclusive; no versions give an empty span (0, -1)."""
    if versions in {"", "none"}:
        return 0, -1
    if versions.endswith("+"):
        return int(versions[:-1]), NO_LIMIT
    first, _, last = versions.partition("-")
    return int(first), int(last or first)


def has_version(versions: str, version: int) -> bool:
    """Whether ``version`` lies in a version text."""
    first, last = version_span(versions)
    return first <= version <= last
