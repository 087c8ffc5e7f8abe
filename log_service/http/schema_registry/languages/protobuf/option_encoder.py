"""Turns options of a text into the bytes of a descriptor's options, as protoc interprets them.

A name is resolved to a field of ``FileOptions`` or the like, or to an extension of it. A value is
checked against the type of the field.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import (
    FieldDefinition,
    FileDefinition,
    MessageDefinition,
    NameKind,
)
from log_service.http.schema_registry.languages.protobuf.option_decoder import as_float32
from log_service.http.schema_registry.languages.protobuf.pool import Found, Pool, visible_files
from log_service.http.schema_registry.languages.protobuf.tree import (
    Aggregate,
    Entry,
    Items,
    NamePart,
    Number,
    Option,
    ProtoFile,
    Quoted,
    Value,
    Word,
)
from log_service.http.schema_registry.languages.protobuf.values import integer_of
from log_service.http.schema_registry.languages.protobuf.wire_format import (
    BYTES,
    END_GROUP,
    GROUP,
    WIRE_TYPES,
    encoded_number,
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
SPECIAL_FLOATS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
BOOLEANS = {"true": 1, "false": 0}
TEXT_BOOLEANS = BOOLEANS | {"t": 1, "f": 0, "True": 1, "False": 0}
FORBIDDEN = {"uninterpreted_option"}
OTHER_BASE = re.compile(r"-?0[xX0-9]")
EDITIONS = {"proto2": 998, "proto3": 999, "2023": 1000, "2024": 1001}
FEATURE_SET = "google.protobuf.FeatureSet"
TARGETS = {
    "FileOptions": "TARGET_TYPE_FILE",
    "ExtensionRangeOptions": "TARGET_TYPE_EXTENSION_RANGE",
    "MessageOptions": "TARGET_TYPE_MESSAGE",
    "FieldOptions": "TARGET_TYPE_FIELD",
    "OneofOptions": "TARGET_TYPE_ONEOF",
    "EnumOptions": "TARGET_TYPE_ENUM",
    "EnumValueOptions": "TARGET_TYPE_ENUM_ENTRY",
    "ServiceOptions": "TARGET_TYPE_SERVICE",
    "MethodOptions": "TARGET_TYPE_METHOD",
}
ANY = "google.protobuf.Any"


class OptionUses:
    """Checks where an option may stand, and in which editions. ``target`` is the kind of element."""

    def __init__(self, file: ProtoFile) -> None:
        self.target = ""
        self._edition = EDITIONS.get(file.edition or file.syntax, EDITIONS["proto2"])

    def __repr__(self) -> str:
        return f"<OptionUses {self.target}>"

    def checked(self, definition: FieldDefinition, at: int) -> FieldDefinition:
        """Return a field of options that may be used here."""
        name = definition.name
        targets = [
            option.value.text
            for option in definition.node.options
            if option.name == (NamePart(text="targets"),) and isinstance(option.value, Word)
        ]
        if targets and self.target not in targets:
            raise OptionError(at, f"{name} cannot be set on {self.target.lower()[12:]} elements")
        if definition.type_name == FEATURE_SET and self._edition < EDITIONS["2023"]:
            raise OptionError(at, "only editions have features")
        for option in definition.node.options:
            if option.name[0].text == "feature_support":
                self._check_support(name, option, at)
        return definition

    def _check_support(self, name: str, option: Option, at: int) -> None:
        entries = option.value.entries if isinstance(option.value, Aggregate) else ()
        for entry in entries:
            word = (
                entry.value.text.removeprefix("EDITION_") if isinstance(entry.value, Word) else ""
            )
            edition = EDITIONS.get(word.lower(), 0)
            if entry.key == "edition_introduced" and self._edition < edition:
                raise OptionError(at, f"{name} is there from edition {word} on")
            if entry.key == "edition_removed" and edition and self._edition >= edition:
                raise OptionError(at, f"edition {word} has removed {name}")


class OptionError(Exception):
    """An option cannot be interpreted. ``at`` is where, ``sentence`` is why."""

    def __init__(self, at: int, sentence: str) -> None:
        super().__init__(sentence)
        self.at = at
        self.sentence = sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageValue:
    """The values of one message: encoded scalars and messages, by the number of their field.

    The entry of a map has its key and value on the wire, even if they are zero.
    """

    is_map_entry: bool = False
    fields: dict[int, FieldDefinition] = field(default_factory=dict)
    values: "dict[int, list[bytes | MessageValue]]" = field(default_factory=dict)

    def add(self, definition: FieldDefinition, value: "bytes | MessageValue") -> None:
        """Add a value of a field."""
        self.fields[definition.number] = definition
        self.values.setdefault(definition.number, []).append(value)

    def encoded(self) -> bytes:
        """Return the message in the binary format, its fields by number."""
        return b"".join(
            encoded_field(self.fields[number], self.values[number])
            for number in sorted(self.values)
            if self.is_map_entry or not self._is_left_out(number)
        )

    def _is_left_out(self, number: int) -> bool:
        definition = self.fields[number]
        values = self.values[number]
        return definition.is_implicit and all(is_zero(definition.kind, each) for each in values)


def encoded_field(definition: FieldDefinition, values: list[bytes | MessageValue]) -> bytes:
    """Return the values of a field with their tags."""
    number, kind = definition.number, definition.kind
    payloads = [each.encoded() if isinstance(each, MessageValue) else each for each in values]
    if kind == "group":
        end = tag(number, END_GROUP)
        return b"".join(tag(number, GROUP) + each + end for each in payloads)
    wire_type = WIRE_TYPES.get(kind, 0)
    if wire_type == BYTES:
        return b"".join(tag(number, BYTES) + varint(len(each)) + each for each in payloads)
    if definition.is_repeated and is_packed(definition):
        whole = b"".join(payloads)
        return tag(number, BYTES) + varint(len(whole)) + whole
    return b"".join(tag(number, wire_type) + each for each in payloads)


def is_zero(kind: str, value: bytes | MessageValue) -> bool:
    """Tell whether a value is an empty string or a number of zero."""
    if isinstance(value, MessageValue):
        return False
    return not (value if kind in {"string", "bytes"} else value.strip(b"\0"))


def is_packed(definition: FieldDefinition) -> bool:
    """Tell whether the values of a repeated field share one tag."""
    for option in definition.node.options:
        if option.name == (NamePart(text="packed"),):
            return option.value == Word(text="true")
    return definition.features.repeated_field_encoding == "PACKED"


class OptionEncoder:
    """Interprets the options of one file."""

    def __init__(self, file: FileDefinition, pool: Pool, budget: Budget) -> None:
        self._pool = pool
        self._visible = visible_files(file)
        self._source = file.source
        self._budget = budget
        self._uses = OptionUses(file.node)
        self._names: dict[str, dict[str, FieldDefinition]] = {}

    def __repr__(self) -> str:
        return f"<OptionEncoder of {self._source.path!r}>"

    def checked(self, type_name: str, options: Iterable[Option], scope: str) -> bytes:
        """Return the bytes of options.

        Raises:
            InvalidSchemaError: an option is unknown or has a wrong value.
        """
        data, left = self.interpreted(type_name, options, scope)
        if left:
            _, error = left[0]
            raise self._source.error(error.at, error.sentence)
        return data

    def interpreted(self, type_name: str, options: Iterable[Option], scope: str) -> tuple[bytes, list[tuple[Option, OptionError]]]:
        """Return the bytes of options, and the options that cannot be interpreted."""
        root = self._pool.message("google.protobuf." + type_name)
        assert root is not None
        self._uses.target = TARGETS[type_name]
        whole = MessageValue()
        left = []
        for option in options:
            self._budget.spend()
            try:
                self._add(root, whole, option, scope)
            except OptionError as error:
                left.append((option, error))
        return whole.encoded(), left

    def _add(self, root: MessageDefinition, whole: MessageValue, option: Option, scope: str) -> None:
        """Set one option. Messages on the way are made, and their other values kept."""
        message, holder = root, whole
        for part in option.name[:-1]:
            self._budget.spend()
            definition = self._part(message, part, scope, option)
            message = self._message(definition, option)
            values = holder.values.get(definition.number)
            inner = values[0] if values else MessageValue()
            if not isinstance(inner, MessageValue):
                raise OptionError(option.at, f"{definition.name} is set twice")
            if not values:
                holder.add(definition, inner)
            holder = inner
        definition = self._part(message, option.name[-1], scope, option)
        if definition.number in holder.values and not definition.is_repeated:
            raise OptionError(option.at, f"the option {definition.name} is set already")
        if isinstance(option.value, Items):
            raise OptionError(option.value.at, "an option takes one value: repeat the option")
        holder.add(definition, self._value(definition, option.value, is_text=False))

    def _part(self, message: MessageDefinition, part: NamePart, scope: str, option: Option) -> FieldDefinition:
        if part.is_extension:
            return self._extension(message, part.text, scope, option.at)
        definition = self._fields_by_name(message).get(part.text)
        if definition is None or definition.name != part.text or part.text in FORBIDDEN:
            raise OptionError(option.at, f"{short_name(message)} has no option {part.text}")
        return self._uses.checked(definition, option.at)

    def _fields_by_name(self, message: MessageDefinition) -> dict[str, FieldDefinition]:
        """Return the fields of a message by their names in the text format."""
        if message.full_name not in self._names:
            self._budget.spend(1 + len(message.fields))
            self._names[message.full_name] = text_names(message)
        return self._names[message.full_name]

    def _extension(
        self, message: MessageDefinition, name: str, scope: str, at: int
    ) -> FieldDefinition:
        found = self._pool.resolve(name, scope, self._visible, self._budget)
        if not isinstance(found, Found) or found.kind is not NameKind.EXTENSION:
            raise OptionError(at, f"the option ({name}) is not defined in this file or an import")
        definition = self._pool.extensions.get(found.full_name)
        if definition is None or definition.extendee != message.full_name:
            raise OptionError(at, f"({name}) is no extension of {message.full_name}")
        return self._uses.checked(definition, at)

    def _message(self, definition: FieldDefinition, option: Option) -> MessageDefinition:
        message = self._pool.message(definition.type_name)
        if message is None or definition.kind not in {"message", "group"}:
            raise OptionError(option.at, f"the option {definition.name} has no parts")
        if definition.is_repeated:
            raise OptionError(option.at, f"the option {definition.name} is repeated: set it as a whole")
        return message

    def _value(self, definition: FieldDefinition, value: Value, *, is_text: bool) -> bytes | MessageValue:
        """Return a value of a field. ``is_text`` has the looser rules of the text format."""
        self._budget.spend()
        if not definition.kind:
            raise OptionError(value.at, f"the type of {definition.name} is unknown")
        match definition.kind:
            case "message" | "group":
                if not isinstance(value, Aggregate):
                    raise OptionError(value.at, f"{definition.name} takes a message in braces")
                message = self._pool.message(definition.type_name)
                if message is None:
                    raise OptionError(value.at, f"the type of {definition.name} is unknown")
                return self._aggregate(message, value)
            case "string" | "bytes":
                if not isinstance(value, Quoted):
                    raise OptionError(value.at, f"{definition.name} takes a string")
                return value.data
            case "bool":
                return encoded_number("bool", boolean(definition, value, is_text=is_text))
            case "enum":
                return encoded_number("enum", self._enum(definition, value, is_text=is_text))
            case "float" | "double":
                return encoded_number(definition.kind, float_of(definition, value, is_text=is_text))
            case _:
                return encoded_number(definition.kind, whole_number(definition, value))

    def _enum(self, definition: FieldDefinition, value: Value, *, is_text: bool) -> int:
        enum = self._pool.enum(definition.type_name)
        if enum is None:
            raise OptionError(value.at, f"the type of {definition.name} is unknown")
        self._budget.spend(1 + len(enum.node.values) // 8)
        if is_text and isinstance(value, Number):
            number = integer_between(definition, value, INTEGER_RANGES["int32"])
            is_known = any(each.number == number for each in enum.node.values)
            if is_known or enum.features.enum_type == "OPEN":
                return number
        name = value.text if isinstance(value, Word) else ""
        for each in enum.node.values:
            # The first value of a feature means that it is not set.
            if each.name == name and (each.number or not enum.full_name.startswith(FEATURE_SET)):
                return each.number
        shown = name or "that"
        raise OptionError(value.at, f"{enum.full_name} has no value {shown}")

    def _aggregate(self, message: MessageDefinition, aggregate: Aggregate) -> MessageValue:
        """Return a message in braces, by the rules of the text format."""
        found = MessageValue(is_map_entry=message.is_map_entry)
        oneofs: dict[int, str] = {}
        names = self._fields_by_name(message)
        for entry in aggregate.entries:
            self._budget.spend()
            if "/" in entry.key:
                self._any(message, entry, found)
                continue
            definition = self._entry_field(message, names, entry)
            self._check_oneof(definition, oneofs, entry)
            self._add_entry(found, definition, entry)
        self._budget.spend(1 + len(message.fields) // 8)
        for definition in message.fields:
            if is_required(definition) and definition.number not in found.values:
                raise OptionError(aggregate.at, f"the field {definition.full_name} is required")
        if message.is_map_entry:
            self._fill_entry(message, found)
        return found

    def _entry_field(self, message: MessageDefinition, names: Mapping[str, FieldDefinition], entry: Entry) -> FieldDefinition:
        if entry.key.startswith("["):
            return self._extension(message, entry.key[1:-1], message.full_name, entry.at)
        if entry.key not in names:
            raise OptionError(entry.at, f"{message.full_name} has no field {entry.key}")
        return self._uses.checked(names[entry.key], entry.at)

    def _check_oneof(self, definition: FieldDefinition, oneofs: dict[int, str], entry: Entry) -> None:
        if definition.oneof is None:
            return
        other = oneofs.setdefault(definition.oneof, definition.name)
        if other != definition.name:
            raise OptionError(entry.at, f"{definition.name} and {other} are of one oneof: give one of them")

    def _add_entry(self, found: MessageValue, definition: FieldDefinition, entry: Entry) -> None:
        values: tuple[Value, ...] = (entry.value,)
        if isinstance(entry.value, Items):
            values = entry.value.values
        is_list = isinstance(entry.value, Items)
        if not entry.has_colon and definition.kind not in {"message", "group"}:
            raise OptionError(entry.at, f"a colon is missing after {entry.key}")
        if not definition.is_repeated and (is_list or definition.number in found.values):
            raise OptionError(entry.at, f"the field {definition.name} takes one value")
        for value in values:
            found.add(definition, self._value(definition, value, is_text=True))

    def _fill_entry(self, message: MessageDefinition, found: MessageValue) -> None:
        """Give the entry of a map both its key and its value."""
        for definition in message.fields:
            if definition.number not in found.values:
                found.add(definition, self._zero(definition))

    def _zero(self, definition: FieldDefinition) -> bytes | MessageValue:
        if definition.kind == "message":
            return MessageValue()
        if definition.kind in {"string", "bytes"}:
            return b""
        return encoded_number(definition.kind, 0)

    def _any(self, message: MessageDefinition, entry: Entry, found: MessageValue) -> None:
        """Set ``[host/name] { ... }``, which is short for an ``Any``."""
        host, _, name = entry.key[1:-1].rpartition("/")
        inner = self._pool.message(name)
        is_there = inner is not None and self._pool.find(name, self._visible) is not None
        if message.full_name != ANY or found.values or not is_there or inner is None:
            raise OptionError(entry.at, f"{entry.key} cannot stand in {message.full_name}")
        if not isinstance(entry.value, Aggregate):
            raise OptionError(entry.at, f"{entry.key} takes a message in braces")
        type_url, value = message.fields
        found.add(type_url, f"{host}/{name}".encode())
        found.add(value, self._aggregate(inner, entry.value).encoded())


def short_name(message: MessageDefinition) -> str:
    """Return the name of a message without its package."""
    return message.full_name.rpartition(".")[2]


def text_names(message: MessageDefinition) -> dict[str, FieldDefinition]:
    """Return the fields by their names in the text format, where groups have capitals."""
    groups = {each.node.name: each for each in message.fields if each.kind == "group"}
    return groups | message.fields_by_name()


def is_required(definition: FieldDefinition) -> bool:
    """Tell whether a message is invalid without the field."""
    return definition.label == "required" or definition.features.field_presence == "LEGACY_REQUIRED"


def boolean(definition: FieldDefinition, value: Value, *, is_text: bool) -> int:
    """Return 1 or 0."""
    words = TEXT_BOOLEANS if is_text else BOOLEANS
    if isinstance(value, Word) and value.text in words:
        return words[value.text]
    if is_text and isinstance(value, Number) and is_integer_text(value.text):
        return integer_between(definition, value, (0, 1))
    raise OptionError(value.at, f"{definition.name} takes true or false")


def whole_number(definition: FieldDefinition, value: Value) -> int:
    """Return an integer of a field."""
    return integer_between(definition, value, INTEGER_RANGES[definition.kind])


def integer_between(definition: FieldDefinition, value: Value, bounds: tuple[int, int]) -> int:
    """Return an integer in a range."""
    if not isinstance(value, Number) or not is_integer_text(value.text):
        raise OptionError(value.at, f"{definition.name} takes an integer")
    number = integer_of(value.text)
    if not bounds[0] <= number <= bounds[1]:
        raise OptionError(value.at, f"{definition.name} takes {bounds[0]} to {bounds[1]}")
    return number


def is_integer_text(text: str) -> bool:
    """Tell whether a number is written as an integer."""
    digits = text.removeprefix("-")
    return digits.isdigit() or digits[:2] in {"0x", "0X"}


def float_of(definition: FieldDefinition, value: Value, *, is_text: bool) -> float:
    """Return a float or double of a field. The text format takes decimal numbers only."""
    if isinstance(value, Number) and not (is_text and OTHER_BASE.match(value.text)):
        number = float_value(value.text)
    elif isinstance(value, Word) and (word := special_float(value.text, is_text=is_text)):
        number = SPECIAL_FLOATS[word]
        number = -number if value.text.startswith("-") else number
    else:
        raise OptionError(value.at, f"{definition.name} takes a number")
    return as_float32(number) if definition.kind == "float" else number


def special_float(text: str, *, is_text: bool) -> str:
    """Return which special number a word is, or nothing. The text format has more words."""
    word = text.removeprefix("-")
    if is_text:
        word = word.lower()
    return word if word in SPECIAL_FLOATS and (is_text or word != "infinity") else ""


def float_value(text: str) -> float:
    """Return the value of a number, however it is written."""
    if not is_integer_text(text):
        return float(text)
    try:
        return float(integer_of(text))
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf
