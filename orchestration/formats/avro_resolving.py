"""Reads Avro values, written with one schema, into the columns of another, declared schema.

Decides how a written type becomes a declared type, by the rules of Avro's specification for schema
resolution: fields by name or alias, defaults for fields that were not written, numbers and texts in
a wider type, symbols of an enum by name. Names of records are not compared, because a topic's
subject has one record. If a branch of a union cannot be resolved, only the values with this branch
are refused. Times keep their meaning: milliseconds become microseconds. Does not know files or
registries. Invariant: a pair of schemas that cannot be resolved is refused before any byte is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from struct import error as StructError  # noqa: N812 - an exception of a small name
from typing import Any

from orchestration.formats.avro_reading import (
    Convert,
    Read,
    array_reader,
    conversion_of,
    default_of,
    map_reader,
    raw_reader,
    read_long,
    reader_of,
)
from orchestration.formats.avro_types import NO_NULL, NOTHING, TOO_DEEP, AvroField, AvroType
from orchestration.formats.columns import UnfitError

WIDER: Mapping[str, Sequence[str]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""The types that a type may be read as, beside itself."""
NULL = AvroType(name="null", least_bytes=0)


class UnresolvableError(ValueError):
    """A schema cannot be read as the declared one. The text names the field."""


def resolving_reader(
    written: AvroType, declared: AvroType, begin: int = 0
) -> Callable[[bytes], Sequence[Any]]:
    """Return a function that reads a record of ``written`` as the fields of ``declared``.

    The record begins at offset ``begin`` of a value. A record of ``written`` may be nested within
    itself to any depth (``parse_written``).

    :raises UnresolvableError: ``written`` cannot be read as ``declared``.
    """
    fields, defaults = _fields(written, declared, "")
    places = {one.name: place for place, one in enumerate(_columns(declared))}
    placed = [
        (name, read_field, None if target is None else places[target])
        for name, read_field, target in fields
    ]
    template = [defaults.get(name) for name in places]

    def read(data: bytes) -> Sequence[Any]:
        at, name = begin, ""
        found = template.copy()
        try:
            for name, read_field, place in placed:  # noqa: B007 - the refusal below names the field
                value, at = read_field(data, at)
                if place is not None:
                    found[place] = value
        except (IndexError, StructError):
            raise UnfitError(f"the value ends within field {name}") from None
        if at != len(data):
            raise UnfitError(f"the value goes on after its record, for {len(data) - at} bytes")
        return found

    return read


def unread_fields(written: AvroType, declared: AvroType) -> list[str]:
    """Return the names of the written fields that the declared record lacks."""
    pairs, _ = field_pairs(written, declared)
    return [one.name for one in written.fields if one.name not in pairs]


def _columns(declared: AvroType) -> list[AvroField]:
    return [one for one in declared.fields if one.is_column]


def field_pairs(
    written: AvroType, declared: AvroType
) -> tuple[Mapping[str, AvroField], Sequence[AvroField]]:
    """Return declared fields by the names of the matching written fields, and those without one."""
    left = {one.name for one in written.fields}
    pairs: dict[str, AvroField] = {}
    lacking = []
    for one in declared.fields:
        match = next((name for name in (one.name, *one.aliases) if name in left), None)
        if match is None:
            lacking.append(one)
        else:
            left.remove(match)
            pairs[match] = one
    return pairs, lacking


Fields = Sequence[tuple[str, Read, str | None]]
"""The written fields in order: name, reader, and the declared field, None if it is skipped."""


def _fields(written: AvroType, declared: AvroType, path: str) -> tuple[Fields, Mapping[str, Any]]:
    """Return the readers of the written fields, and the defaults of declared fields not written."""
    pairs, lacking = field_pairs(written, declared)
    defaults = {one.name: _default(one, f"{path}{one.name}") for one in lacking if one.is_column}
    found: list[tuple[str, Read, str | None]] = []
    for each in written.fields:
        target, where = pairs.get(each.name), f"{path}{each.name}"
        if target is None or not (target.is_column or target.type.is_too_deep):
            found.append((each.name, reader_of(each.type, where), None))
            continue
        read = _resolved(each.type, target.type, f"{path}{target.name}")
        found.append((each.name, read, target.name if target.is_column else None))
    return found, defaults


def _default(one: AvroField, where: str) -> Any:
    if one.default is NOTHING:
        raise UnresolvableError(f"it has no field {where}, and the declared field has no default")
    try:
        return default_of(one)
    except ValueError as error:
        raise UnresolvableError(
            f"it has no field {where}, and the declared default cannot be read: {error}"
        ) from error


def _resolved(written: AvroType, declared: AvroType, where: str) -> Read:
    written = _unfolded(written)
    if written.is_union:
        return _from_union(written, declared, where)
    return _into(written, declared, where)


def _unfolded(kind: AvroType) -> AvroType:
    """Return the record type to which a type ``AGAIN`` refers, and any other type unchanged."""
    if kind.resolve is None:
        return kind
    return replace(kind.resolve(), is_union=kind.is_union, null_index=kind.null_index)


def _branches(kind: AvroType) -> list[tuple[str, AvroType]]:
    """Return the branches of a union in order, each with its name, or a single branch."""
    if kind.members:
        return list(kind.members)
    if kind.name == "null":
        return [("null", NULL)]
    only = (kind.name, replace(kind, is_union=False, null_index=NO_NULL))
    if kind.null_index == NO_NULL:
        return [only]
    return [("null", NULL), only] if kind.null_index == 0 else [only, ("null", NULL)]


def _from_union(written: AvroType, declared: AvroType, where: str) -> Read:
    """Return a function that reads a union, by the branch of each value.

    A value with a branch that the declared type lacks is refused.
    """
    readers: list[Read] = []
    refusals: list[UnresolvableError] = []
    for name, branch in _branches(written):
        try:
            readers.append(_into(branch, declared, where, name))
        except UnresolvableError as error:
            refusals.append(error)
            readers.append(_refusing(str(error)))
    if len(refusals) == len(readers):
        raise refusals[-1]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = read_long(data, at, where)
        if not 0 <= index < len(readers):
            raise UnfitError(f"field {where} is of type {index} of its union, which there is not")
        return readers[index](data, at)

    return read


def _refusing(reason: str) -> Read:
    def read(_data: bytes, _at: int) -> tuple[Any, int]:
        raise UnfitError(reason)

    return read


def _into(written: AvroType, declared: AvroType, where: str, name: str = "") -> Read:
    """Return a function that reads a type that is not a union, as any declared type.

    ``name`` is the type's name as a branch of a written union.
    """
    written = _unfolded(written)
    if not declared.is_union:
        return _plain(written, declared, where)
    names = [
        one
        for one, branch in _branches(declared)
        if branch.name != "null" and not branch.is_too_deep
    ]
    for member, branch in sorted(
        _branches(declared), key=lambda one: _distance(written, name, *one)
    ):
        try:
            read = _plain(written, branch, where)
        except UnresolvableError:
            continue
        is_member = declared.members and member in names
        return _in_struct(read, member, names) if is_member else read
    raise _mismatch(written, declared, where)


def _distance(
    written: AvroType, name: str, member: str, branch: AvroType
) -> tuple[bool, bool, bool]:
    """Return a sort key that is smaller, the more a declared branch resembles a written type."""
    return (
        branch.name != written.name,
        member != (name or written.name),
        branch.logical != written.logical,
    )


def _in_struct(read: Read, member: str, names: Sequence[str]) -> Read:
    nothing: Mapping[str, Any] = dict.fromkeys(names)

    def read_member(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        return {**nothing, member: value}, at

    return read_member


def _plain(written: AvroType, declared: AvroType, where: str) -> Read:
    """Return a function that reads one type as another type. Neither is a union."""
    if declared.name == TOO_DEEP and written.name == "record":
        return reader_of(declared, where)
    is_same = written.name == declared.name
    if is_same and written.name == "record":
        return _struct(written, declared, where)
    if is_same and written.items is not None and declared.items is not None:
        read_item = _resolved(written.items, declared.items, f"{where}[]")
        return (
            array_reader(read_item, where)
            if written.name == "array"
            else map_reader(read_item, where)
        )
    if is_same and written.name == "enum":
        return _converted(raw_reader(written, where), _symbol(written, declared, where))
    if not is_same and declared.name not in WIDER.get(written.name, ()):
        raise _mismatch(written, declared, where)
    if written.size != declared.size or (
        written.logical == declared.logical == "decimal" and written.scale != declared.scale
    ):
        raise _mismatch(written, declared, where)
    return _scalar(written, declared, where)


def _scalar(written: AvroType, declared: AvroType, where: str) -> Read:
    if {written.name, declared.name} == {"string", "bytes"}:
        read = raw_reader(declared, where)
    else:
        read = raw_reader(written, where)
        if declared.name in {"float", "double"} and written.name in {"int", "long"}:
            read = _converted(read, float)
    are_times = "timestamp" in written.logical and "timestamp" in declared.logical
    convert = conversion_of(written if are_times else declared, where)
    return read if convert is None else _converted(read, convert)


def _struct(written: AvroType, declared: AvroType, where: str) -> Read:
    fields, defaults = _fields(written, declared, f"{where}.")

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = dict(defaults)
        for _, read_field, target in fields:
            value, at = read_field(data, at)
            if target is not None:
                found[target] = value
        return found, at

    return read


def _symbol(written: AvroType, declared: AvroType, where: str) -> Convert:
    """Return a function that converts the index of a written symbol to the declared symbol."""
    known, spare = frozenset(declared.symbols), declared.default_symbol
    name_of = conversion_of(written, where)
    assert name_of is not None, "an enum has a conversion"

    def convert(index: int) -> str:
        symbol: str = name_of(index)
        if symbol in known:
            return symbol
        if not spare:
            raise UnfitError(f"field {where} is {symbol}, which the declared enum does not have")
        return spare

    return convert


def _converted(read: Read, convert: Convert) -> Read:
    def read_converted(data: bytes, at: int) -> tuple[Any, int]:
        value, end = read(data, at)
        return convert(value), end

    return read_converted


def _mismatch(written: AvroType, declared: AvroType, where: str) -> UnresolvableError:
    return UnresolvableError(
        f"field {where} is {_type_name(written)}, and not {_type_name(declared)} as declared"
    )


def _type_name(kind: AvroType) -> str:
    """Return the name of a type for an error text."""
    if kind.is_union:
        return f"a union of {' and '.join(name for name, _ in _branches(kind))}"
    if kind.logical == "decimal":
        return f"a decimal of scale {kind.scale}"
    return f"fixed({kind.size})" if kind.name == "fixed" else kind.logical or kind.name
