"""Reads the fields of a Protobuf message into the columns of a record, with one function per field.

The functions are made once from the message's descriptor. Decides the column of each field. A field
with presence may be null, others have their default if the value lacks them. A number of an enum
becomes its name. The column of a message without fields is true if the message is set. JSON of any
shape (Struct) becomes its text. Protobuf's own runtime reads the bytes. Does not know files.
Invariant: every refusal is an ``UnfitError``.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from decimal import Decimal
from itertools import islice
from typing import Any

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import types

from orchestration.formats.columns import Chosen, UnfitError, microseconds, unframed, validate_names

Convert = Callable[[Any], Any]
TIMESTAMP = "google.protobuf.Timestamp"
NANOS_END = 1_000_000_000
NAMED_COUNT, KEY_LENGTH = 3, 40
"""The most missing fields, and the most characters of a map's key, that a reason shows."""
INT, BIGINT, UNSIGNED = types.IntegerType(), types.LongType(), types.DecimalType(20, 0)
(
    DOUBLE,
    FLOAT,
    I64,
    U64,
    I32,
    F64,
    F32,
    BOOL,
    STRING,
    GROUP,
    MESSAGE,
    BYTES,
    U32,
    ENUM,
    SF32,
    SF64,
    S32,
    S64,
) = range(1, 19)
"""The types of fields, by their numbers in descriptors."""
SPARK_TYPES: dict[int, types.DataType] = {
    DOUBLE: types.DoubleType(),
    FLOAT: types.FloatType(),
    I64: BIGINT,
    U64: UNSIGNED,
    I32: INT,
    F64: UNSIGNED,
    F32: BIGINT,
    BOOL: types.BooleanType(),
    STRING: types.StringType(),
    BYTES: types.BinaryType(),
    U32: BIGINT,
    ENUM: types.StringType(),
    SF32: INT,
    SF64: BIGINT,
    S32: INT,
    S64: BIGINT,
}
MESSAGES = (GROUP, MESSAGE)
WELL_KNOWN: Mapping[str, types.DataType] = {
    TIMESTAMP: types.TimestampType(),
    **{f"google.protobuf.{name}": types.StringType() for name in ("Struct", "Value", "ListValue")},
}
"""Messages that become one value: a time, and JSON of any form, which is kept as text."""
ALL = Chosen()


# From a field to a column


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a message within a schema.

    ``above`` has the full names of the enclosing messages, and last that of the message itself.
    ``path`` leads from the root to the message. ``met`` collects the paths at which a field was
    left out as ``chosen`` demands.
    """

    chosen: Chosen
    above: tuple[str, ...] = ()
    path: str = ""
    met: set[str] = attribute(default_factory=set, compare=False)

    def of(self, name: str) -> str:
        """Return the path of a field of this message."""
        return f"{self.path}.{name}".lstrip(".")

    def within(self, message: Any, path: str) -> "Place":
        """Return the position of a message in the field at ``path``."""
        return replace(self, above=(*self.above, message.full_name), path=path)

    def kept(self, message: Any) -> list[Any]:
        """Return the fields of the message that become columns."""
        fields = []
        for one in message.fields:
            if self.of(one.name) in self.chosen.leave_out:
                self.met.add(self.of(one.name))
            elif not self.is_cut(one):
                fields.append(one)
        return fields

    def is_cut(self, field: Any) -> bool:
        """Return whether a field's message is nested within itself more often than declared."""
        inner = _message_of(field)
        return inner is not None and self.above.count(inner.full_name) > self.chosen.depth > 0


def spark_fields(message: Any, chosen: Chosen = ALL) -> types.StructType:
    """Return the columns of a message.

    :raises ValueError: a message is nested within itself or has no fields, a list or map has values
        of a closed enum, or a field to leave out is missing. The text names the field.
    """
    place = Place(chosen, above=(message.full_name,))
    if not place.kept(message):
        raise ValueError(
            f"the message {message.full_name} has no fields, and nothing can be a column"
        )
    found = _columns(message, place)
    chosen.validate_used(place.met)
    return found


def _columns(message: Any, place: Place) -> types.StructType:
    kept = place.kept(message)
    validate_names([one.name for one in kept], f"the message {message.full_name}")
    return types.StructType(
        [
            types.StructField(one.name, _column(one, place, place.of(one.name)), has_null(one))
            for one in kept
        ]
    )


def _message_of(field: Any) -> Any:
    """Return the message type of a field's values, or None if they are not messages.

    For a map it is the type of the map's values.
    """
    one = _map_fields(field)[1] if is_map(field) else field
    return one.message_type if one.type in MESSAGES else None


def has_null(field: Any) -> bool:
    """Return whether a field may be absent, instead of having its default."""
    return bool(field.has_presence) and not field.is_required


def _column(field: Any, place: Place, path: str) -> types.DataType:
    if is_map(field):
        key, value = _map_fields(field)
        _validate_keeps_all(value, path)
        return types.MapType(_single(key, place, path), _single(value, place, f"{path}[]"))
    if field.is_repeated:
        _validate_keeps_all(field, path)
    found = _single(field, place, f"{path}[]" if field.is_repeated else path)
    return types.ArrayType(found) if field.is_repeated else found


def _validate_keeps_all(field: Any, path: str) -> None:
    """Refuse a list or a map of an enum that would silently lose items.

    :raises ValueError: the enum is closed, so that the runtime leaves out items whose numbers have
        no name.
    """
    if field.type == ENUM and field.enum_type.is_closed:
        raise ValueError(
            f"field {path} holds several values of {field.enum_type.full_name}, a closed enum as"
            " proto2 has them: Protobuf leaves out numbers that have no name there, and nothing"
            " tells that they are gone. Declare the field as int32, which has the same bytes, in"
            " the file that the topic reads, or the enum in a file of proto3"
        )


def _single(field: Any, place: Place, path: str) -> types.DataType:
    if field.type not in MESSAGES:
        return SPARK_TYPES[field.type]
    message = field.message_type
    if message.full_name in WELL_KNOWN:
        return WELL_KNOWN[message.full_name]
    if message.full_name in place.above and not place.chosen.depth:
        raise ValueError(place.chosen.within_itself(path, message.full_name))
    within = place.within(message, path)
    return _columns(message, within) if within.kept(message) else types.BooleanType()


def is_map(field: Any) -> bool:
    """Return whether a field is a map.

    On the wire a map is repeated messages of a key and a value.
    """
    return field.type == MESSAGE and bool(field.message_type.GetOptions().map_entry)


def _map_fields(field: Any) -> tuple[Any, Any]:
    return field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]


# From bytes to a value


def message_reader(
    message: Any, *, is_framed: bool, chosen: Chosen = ALL, place: Sequence[int] | None = None
) -> Callable[[bytes], Sequence[Any]]:
    """Return a function that reads a value as the fields of ``message``.

    ``place`` are the message's indexes in the file it was written with, by default in its own file.
    """
    made: Any = GetMessageClass(message)
    read_fields = _reader(message, Place(chosen, above=(message.full_name,)))
    place = index_of(message) if place is None else list(place)

    def read(data: bytes) -> Sequence[Any]:
        try:
            found = made.FromString(data[_begin(data, place) :] if is_framed else data)
            if not found.IsInitialized():
                raise UnfitError(_lacking(found))
            return list(read_fields(found).values())
        except DecodeError:
            raise UnfitError(
                f"the value is not a {message.full_name}: its bytes are damaged or end early"
            ) from None

    return read


def _lacking(found: Any) -> str:
    """Return the fault of a message that lacks required fields.

    The runtime's own list is not used, because it has no bound, and crashes the process if a map's
    key is not UTF-8.
    """
    missing = _missing(found, "")
    named = list(islice(missing, NAMED_COUNT))
    count = sum(1 for _ in missing)
    return (
        "the value lacks required fields:"
        f" {', '.join(named)}{f' and {count} more' if count else ''}"
    )


def _missing(found: Any, path: str) -> Iterator[str]:
    """Yield the paths of required fields that are missing in a message and its inner messages.

    :raises UnfitError: the key of a map on the path to a missing field is not UTF-8.
    """
    for field in found.DESCRIPTOR.fields:
        if field.is_required and not found.HasField(field.name):
            yield f"{path}{field.name}"
    for field, value in found.ListFields():
        where = f"{path}({field.full_name})" if field.is_extension else f"{path}{field.name}"
        for place, inner in _messages(field, value, where):
            yield from _missing(inner, f"{where}{place}.")


def _messages(field: Any, value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the messages in a field, each after its index or key in the field, such as ``[0]``."""
    if field.type not in MESSAGES:
        return
    if not field.is_repeated:
        yield "", value
    elif not is_map(field):
        yield from ((f"[{index}]", one) for index, one in enumerate(value))
    elif _map_fields(field)[1].type in MESSAGES:
        for key in value:
            shown_key = (
                _text(key, where)[:KEY_LENGTH] if _map_fields(field)[0].type == STRING else key
            )
            yield f"[{json.dumps(shown_key, ensure_ascii=False)}]", value[key]


def index_of(message: Any) -> list[int]:
    """Return the indexes of a message in its file.

    A nested message has the indexes of its parent, and then its own index within the parent.
    """
    outer = message.containing_type
    if outer is not None:
        return [
            *index_of(outer),
            [one.full_name for one in outer.nested_types].index(message.full_name),
        ]
    return [list(message.file.message_types_by_name).index(message.name)]


def _begin(data: bytes, place: Sequence[int]) -> int:
    """Return the offset at which a message begins after Confluent's prefix.

    The prefix also has the message's indexes in its file.

    :raises UnfitError: the value does not have this prefix, or is another message.
    """
    try:
        path, at = _place(data, unframed(data))
    except IndexError:
        raise UnfitError(
            "the value does not tell its message's place in its file, as Confluent's framing has it"
        ) from None
    if (path or [0]) != place:
        raise UnfitError(f"the value is message {path or [0]} of its file, and not {list(place)}")
    return at


def _place(data: bytes, at: int) -> tuple[list[int], int]:
    count, at = _varint(data, at)
    if not 0 <= count <= len(data):
        raise IndexError
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        if shift > 28:
            raise IndexError


def _reader(message: Any, place: Place) -> Callable[[Any], dict[str, Any]]:
    """Return a function that reads the fields of a message, by name."""
    getters = [(one.name, _getter(one, place, place.of(one.name))) for one in place.kept(message)]
    cut = [
        one
        for one in message.fields
        if place.is_cut(one) and place.of(one.name) not in place.chosen.leave_out
    ]
    if not cut:
        return lambda found: {name: get(found) for name, get in getters}

    def read(found: Any) -> dict[str, Any]:
        for one in cut:
            if len(getattr(found, one.name)) if one.is_repeated else found.HasField(one.name):
                raise place.chosen.too_deep(place.of(one.name))
        return {name: get(found) for name, get in getters}

    return read


def _getter(field: Any, place: Place, where: str) -> Convert:
    """Return a function that gets the value of ``field`` from its message."""
    name = field.name
    if is_map(field):
        key, value = (
            _conversion(one, place, at) or _same
            for one, at in zip(_map_fields(field), (where, f"{where}[]"), strict=True)
        )
        return lambda found: [
            (told, value(held[one]))
            for held in (getattr(found, name),)
            for told, one in sorted((key(one), one) for one in held)
        ]
    convert = _conversion(field, place, f"{where}[]" if field.is_repeated else where)
    if field.is_repeated:
        if convert is None:
            return lambda found: list(getattr(found, name))
        return lambda found: [convert(one) for one in getattr(found, name)]
    get: Convert = (
        (lambda found: getattr(found, name))
        if convert is None
        else (lambda found: convert(getattr(found, name)))
    )
    if not has_null(field):
        return get
    return lambda found: get(found) if found.HasField(name) else None


def _same(value: Any) -> Any:
    return value


def _conversion(field: Any, place: Place, where: str) -> Convert | None:
    """Return a function that converts one value for Arrow, or None if no conversion is needed."""
    if field.type == ENUM:
        names = {number: one.name for number, one in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number) or str(number)
    if field.type == STRING:
        return lambda text: _text(text, where)
    if field.type in (U64, F64):
        return Decimal
    if field.type not in MESSAGES:
        return None
    message = field.message_type
    if message.full_name in WELL_KNOWN:
        return lambda found: (_time if message.full_name == TIMESTAMP else _json)(found, where)
    within = place.within(message, where)
    read = _reader(message, within)
    return read if within.kept(message) else lambda found: read(found) == {}


def _text(text: str | bytes, where: str) -> str:
    """Return a text field's value as ``str``.

    The runtime returns bytes if the syntax does not require UTF-8.

    :raises UnfitError: the bytes are not UTF-8.
    """
    if not isinstance(text, str):
        raise UnfitError(f"field {where} is not UTF-8 text")
    return text


def _json(found: Any, where: str) -> str:
    """Return a Struct, a Value or a ListValue as JSON."""
    try:
        return json.dumps(
            MessageToDict(found), ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
    except (SerializeToJsonError, ValueError, UnicodeError):
        raise UnfitError(f"field {where} holds what JSON has no form for") from None


def _time(found: Any, where: str) -> int:
    if not 0 <= found.nanos < NANOS_END:
        raise UnfitError(f"field {where} has {found.nanos} nanoseconds, which no second has")
    return microseconds(1_000_000 * found.seconds + found.nanos // 1_000, where)
