"""Encodes values of options in the binary format: scalars by the types of fields, and messages."""

import re
from dataclasses import dataclass, field

from log_service.http.schema_registry.languages.protobuf.definitions import FieldDefinition
from log_service.http.schema_registry.languages.protobuf.number_text import (
    SPECIAL_FLOATS,
    as_float32,
    float_value,
    integer_of,
    is_integer_text,
)
from log_service.http.schema_registry.languages.protobuf.option_uses import OptionError
from log_service.http.schema_registry.languages.protobuf.tree import NamePart, Number, Value, Word
from log_service.http.schema_registry.languages.protobuf.wire_format import (
    BYTES,
    END_GROUP,
    GROUP,
    WIRE_TYPES,
    tag,
    varint,
)

INTEGER_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}
BOOLEANS = {"true": 1, "false": 0}
TEXT_BOOLEANS = BOOLEANS | {"t": 1, "f": 0, "True": 1, "False": 0}
OTHER_BASE = re.compile(r"-?0[xX0-9]")


@dataclass(slots=True, kw_only=True)
class MessageValue:
    """The values of one message: encoded scalars and messages, by the number of their field."""

    fields: dict[int, FieldDefinition] = field(default_factory=dict)
    values: "dict[int, list[bytes | MessageValue]]" = field(default_factory=dict)

    def add(self, definition: FieldDefinition, value: "bytes | MessageValue") -> None:
        """Add a value of a field."""
        self.fields[definition.number] = definition
        self.values.setdefault(definition.number, []).append(value)

    def encoded(self) -> bytes:
        """Encode the message in the binary format, its fields in the order of their numbers."""
        return b"".join(
            encoded_field(self.fields[number], self.values[number])
            for number in sorted(self.values)
        )


def encoded_field(definition: FieldDefinition, values: list[bytes | MessageValue]) -> bytes:
    """Encode the values of a field with their tags."""
    number, kind = definition.number, definition.kind
    payloads = [each.encoded() if isinstance(each, MessageValue) else each for each in values]
    if definition.is_delimited:
        end = tag(number, END_GROUP)
        return b"".join(tag(number, GROUP) + each + end for each in payloads)
    wire_type = WIRE_TYPES.get(kind, 0)
    if wire_type == BYTES:
        return b"".join(tag(number, BYTES) + varint(len(each)) + each for each in payloads)
    if definition.is_repeated and is_packed(definition):
        whole = b"".join(payloads)
        return tag(number, BYTES) + varint(len(whole)) + whole
    return b"".join(tag(number, wire_type) + each for each in payloads)


def is_packed(definition: FieldDefinition) -> bool:
    """Return whether a repeated field is packed, so that its values share one tag."""
    for option in definition.node.options:
        if option.name == (NamePart(text="packed"),):
            return option.value == Word(text="true")
    return definition.features.repeated_field_encoding == "PACKED"


def is_required(definition: FieldDefinition) -> bool:
    """Return whether a field is required."""
    return definition.label == "required" or definition.features.field_presence == "LEGACY_REQUIRED"


def boolean(definition: FieldDefinition, value: Value, *, is_text: bool) -> int:
    """Return 1 for true and 0 for false.

    Raises:
        OptionError: the value is not a boolean.
    """
    words = TEXT_BOOLEANS if is_text else BOOLEANS
    if isinstance(value, Word) and value.text in words:
        return words[value.text]
    if is_text and isinstance(value, Number) and is_integer_text(value.text):
        return integer_between(definition, value, (0, 1))
    raise OptionError(value.at, f"{definition.name} takes true or false")


def whole_number(definition: FieldDefinition, value: Value) -> int:
    """Return the integer in a value, checked against the range of the field's type.

    Raises:
        OptionError: the value is not an integer, or out of range.
    """
    return integer_between(definition, value, INTEGER_RANGES[definition.kind])


def integer_between(definition: FieldDefinition, value: Value, bounds: tuple[int, int]) -> int:
    """Return the integer in a value, checked against ``bounds``, both included.

    Raises:
        OptionError: the value is not an integer, or out of bounds.
    """
    if not isinstance(value, Number) or not is_integer_text(value.text):
        raise OptionError(value.at, f"{definition.name} takes an integer")
    number = integer_of(value.text)
    if not bounds[0] <= number <= bounds[1]:
        raise OptionError(value.at, f"{definition.name} takes {bounds[0]} to {bounds[1]}")
    return number


def float_of(definition: FieldDefinition, value: Value, *, is_text: bool) -> float:
    """Return the float or double in a value. The text format allows decimal numbers only.

    Raises:
        OptionError: the value is not a number.
    """
    if isinstance(value, Number) and not (is_text and OTHER_BASE.match(value.text)):
        number = float_value(value.text)
    elif isinstance(value, Word) and (word := special_float(value.text, is_text=is_text)):
        number = SPECIAL_FLOATS[word]
        number = -number if value.text.startswith("-") else number
    else:
        raise OptionError(value.at, f"{definition.name} takes a number")
    return as_float32(number) if definition.kind == "float" else number


def special_float(text: str, *, is_text: bool) -> str:
    """Return ``inf``, ``infinity`` or ``nan`` if a text is one of them, or an empty text.

    The result has no minus sign, which the text may have. Only the text format ignores case and
    has ``infinity``.
    """
    word = text.removeprefix("-")
    if is_text:
        word = word.lower()
    return word if word in SPECIAL_FLOATS and (is_text or word != "infinity") else ""
