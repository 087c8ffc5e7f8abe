"""The declaration of a message's wire format: one class per struct, one ``wire`` call per field.

    class HeartbeatRequest(Struct, key=12, valid="0-4", flexible="4+"):
        group_id: str = wire("string", "0+", default="")

The class gets slots, an ``__init__`` with every field as a keyword, and its ``SCHEMA``, from which
the codec compiles. Versions are written as Kafka writes them: ``"3+"``, ``"0-12"``, ``"4"``. An
empty string means no version. Nothing here knows bytes.

Invariants: a field with a tag is tagged in every version it has. A tagged struct that is not
nullable is ``None`` if it is absent, so that no object is built for a missing field.
"""

from collections.abc import Sized
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, dataclass_transform
from uuid import UUID

from log_service.common.types import Buffer
from log_service.protocol.source import SourceWriter

Chunk = Buffer | Sized
"""What encoded messages are made of: bytes of ours, and ``records`` as they were handed in
(anything with a length).
"""

NO_LIMIT = 0x7FFF

OWN: Any = object()
"""Default of an argument whose value can be changed: each message gets a list, or a struct, of its
own.
"""


class Field(NamedTuple):
    """One member of a struct.

    ``wire_type`` is Kafka's name of a primitive or ``struct``, with ``[]`` before it for a list.
    ``struct`` is the class of a struct or of the list's elements. A ``default`` of ``()`` means an
    empty list, and ``...`` means a struct made of its own defaults. ``flexible`` overrides the
    message's own flexible versions (the client id of a request header is never compact). If
    ``is_secret`` is true, ``repr`` omits the field. The class is a tuple, because a node makes a
    thousand of them while it starts.
    """

    name: str
    wire_type: str
    versions: str
    nullable: str = ""
    tag: int | None = None
    ignorable: bool = False
    default: Any = None
    struct: "type[Struct] | None" = None
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
    """The wire format of one struct.

    ``valid`` are the supported versions, and ``flexible`` are the versions with compact lengths and
    tags. ``key`` is Kafka's number of a whole message: an API key, or the type of a stored record.
    """

    name: str
    valid: str
    flexible: str
    fields: tuple[Field, ...]
    key: int | None = None


def wire(
    wire_type: "str | type[Struct] | list[type[Struct]]",
    versions: str,
    *,
    default: Any,
    nullable: str = "",
    tag: int | None = None,
    ignorable: bool = False,
    flexible: str | None = None,
    is_secret: bool = False,
) -> Any:
    """Declare a field of a message class.

    ``wire_type`` is Kafka's name of a primitive, perhaps with ``"[]"`` before it, a struct, or a
    list with one struct in it. The other arguments are those of ``Field``.
    """
    struct: type[Struct] | None = None
    if isinstance(wire_type, str):
        name = wire_type
    elif isinstance(wire_type, list):
        name, struct = "[]struct", wire_type[0]
    else:
        name, struct = "struct", wire_type
    return Field("", name, versions, nullable, tag, ignorable, default, struct, flexible, is_secret)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(wire,))
class StructType(type):
    """The metaclass of message classes. It turns ``wire`` calls into slots and a schema."""

    SCHEMA: Schema

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        valid: str = "",
        flexible: str = "",
    ) -> "StructType":
        """Make the class. ``key``, ``valid`` and ``flexible`` are those of ``Schema``."""
        fields = tuple(
            [
                Field._make((each, *field[1:]))
                for each, field in namespace.items()
                if type(field) is Field
            ]
        )
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple([field.name for field in fields])
        namespace["SCHEMA"] = Schema(name, valid, flexible, fields, key)
        return super().__new__(mcs, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any
    ) -> None:
        """Ignore the keywords of ``__new__``, because ``type.__init__`` would refuse them."""
        super().__init__(name, bases, namespace)


class _DataclassFields:
    """Makes a message class a dataclass when its ``__dataclass_fields__`` are first read.

    Making all classes dataclasses at import took a tenth of a node's start.
    """

    def __get__(self, message: object, owner: type["Struct"]) -> dict[str, Any]:
        if owner is Struct:  # no message
            raise AttributeError
        # The call sets ``__dataclass_fields__`` on the class, so that this getter runs only once.
        dataclass(init=False, repr=False, eq=False, kw_only=True)(owner)
        fields: dict[str, Any] = owner.__dict__["__dataclass_fields__"]
        return fields


class Struct(metaclass=StructType):
    """Base class of every message class, with ``__init__``, equality and ``repr`` by fields.

    ``dataclasses.replace``, ``fields`` and ``asdict`` work on messages.
    """

    SCHEMA: ClassVar[Schema]
    __slots__: ClassVar[tuple[str, ...]]
    __dataclass_fields__: ClassVar[Any] = _DataclassFields()

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compiled_init(cls)  # type: ignore[method-assign]  # from now on it is as fast as one that was written out
        self.__init__(**values)  # type: ignore[misc]  # once

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return not self.__slots__ or (values := attrgetter(*self.__slots__))(self) == values(other)

    __hash__ = None  # type: ignore[assignment]  # it can change

    def __repr__(self) -> str:
        shown = (field.name for field in self.SCHEMA.fields if not field.is_secret)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"


Message = Struct
"""Any message class."""


def _compiled_init(cls: type[Struct]) -> Any:
    """Compile ``__init__`` of a class. This happens when its first message is made."""
    source = SourceWriter({"OWN": OWN})
    arguments, assigned = [], []
    for field in cls.SCHEMA.fields:
        name, default, made = field.name, repr(field.default), ""
        if field.default == () and field.is_array:
            made = "[]"
        elif field.default is ...:
            assert field.struct is not None
            made = f"{source.constant('cls', field.struct, field.struct)}()"
        elif isinstance(field.default, UUID):
            default = source.constant("uuid", field.default, field.default)
        arguments.append(f", {name}={'OWN' if made else default}")
        assigned.append(
            f"self.{name} = " + (f"{made} if {name} is OWN else {name}" if made else name)
        )
    with source.block(f"def __init__(self{', *' if arguments else ''}{''.join(arguments)}):"):
        for line in assigned or ["pass"]:
            source.line(line)
    return source.function("__init__", f"{cls.__name__}()")


@cache
def version_span(versions: str) -> tuple[int, int]:
    """Return (first, last) of a version text, both inclusive.

    The result is the empty span (0, -1) for no versions.
    """
    if versions in {"", "none"}:
        return 0, -1
    if versions.endswith("+"):
        return int(versions[:-1]), NO_LIMIT
    first, _, last = versions.partition("-")
    return int(first), int(last or first)


@cache
def has_records(cls: type[Struct]) -> bool:
    """Return whether a message has record batches, in any of its structs."""
    return any(
        field.wire_type == "records" or (field.struct is not None and has_records(field.struct))
        for field in cls.SCHEMA.fields
    )


def has_version(versions: str, version: int) -> bool:
    """Whether a version text contains ``version``."""
    first, last = version_span(versions)
    return first <= version <= last
