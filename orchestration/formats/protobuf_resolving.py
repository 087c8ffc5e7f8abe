"""Decides whether a written Protobuf message can be read as another, declared message.

Fields are matched by number. Decides which types of a field may be read as which other types. The
bytes of some types look alike, but a number could lose its sign or its upper half. Such pairs of
types are refused here, because the runtime would not notice the loss. Does not read bytes.
"""

from collections.abc import Collection, Mapping
from typing import Any

from orchestration.formats.avro_resolving import UnresolvableError
from orchestration.formats.protobuf_reading import (
    BOOL,
    BYTES,
    DOUBLE,
    ENUM,
    F32,
    F64,
    FLOAT,
    I32,
    I64,
    MESSAGES,
    S32,
    S64,
    SF32,
    SF64,
    STRING,
    U32,
    U64,
    WELL_KNOWN,
)

WIDER: Mapping[int, Collection[int]] = {
    BOOL: (I32, I64, U32, U64),
    ENUM: (I32, I64),
    I32: (I64, ENUM),
    U32: (U64, I64),
    S32: (S64,),
    STRING: (BYTES,),
    BYTES: (STRING,),
}
"""The types that a type may be read as, beside itself."""
NAMES: Mapping[int, str] = {
    DOUBLE: "double",
    FLOAT: "float",
    I64: "int64",
    U64: "uint64",
    I32: "int32",
    F64: "fixed64",
    F32: "fixed32",
    BOOL: "bool",
    STRING: "string",
    BYTES: "bytes",
    U32: "uint32",
    SF32: "sfixed32",
    SF64: "sfixed64",
    S32: "sint32",
    S64: "sint64",
}


def validate_resolvable(written: Any, declared: Any, left_out: Collection[str] = ()) -> None:
    """Refuse a written message that cannot be read as the declared message.

    Fields at the paths ``left_out`` may have any type.

    :raises UnresolvableError: a field cannot be read. The text names it.
    """
    _validate(written, declared, "", left_out, set())


def _validate(
    written: Any, declared: Any, path: str, left_out: Collection[str], seen: set[tuple[str, str]]
) -> None:
    pair = (written.full_name, declared.full_name)
    if pair in seen:
        return
    seen.add(pair)
    known = {one.number: one for one in written.fields}
    for field in declared.fields:
        where = f"{path}{field.name}"
        if where in left_out:
            continue
        other = known.get(field.number)
        if other is not None:
            _validate_field(other, field, where, left_out, seen)
        elif field.is_required:
            raise UnresolvableError(f"it has no field {where}, which is required as declared")


def _validate_field(
    written: Any, declared: Any, where: str, left_out: Collection[str], seen: set[tuple[str, str]]
) -> None:
    is_alike = written.type == declared.type or declared.type in WIDER.get(written.type, ())
    if not is_alike or (written.is_repeated and not declared.is_repeated):
        raise _mismatch(written, declared, where)
    if declared.type not in MESSAGES:
        return
    inner, own = written.message_type, declared.message_type
    if {inner.full_name, own.full_name} & WELL_KNOWN.keys():
        if inner.full_name != own.full_name:
            raise _mismatch(written, declared, where)
        return
    _validate(inner, own, f"{where}{'[]' if declared.is_repeated else ''}.", left_out, seen)


def _mismatch(written: Any, declared: Any, where: str) -> UnresolvableError:
    return UnresolvableError(
        f"field {where} is {_type_name(written)}, and not {_type_name(declared)} as declared"
    )


def _type_name(field: Any) -> str:
    """Return the name of a field's type for an error text."""
    if field.type in MESSAGES:
        name = str(field.message_type.full_name)
    else:
        name = NAMES.get(field.type) or str(field.enum_type.full_name)
    return f"repeated {name}" if field.is_repeated else name
