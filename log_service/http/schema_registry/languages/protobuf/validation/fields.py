"""Rules on each field: its number, label, type, default and JSON name."""

from log_service.http.schema_registry.languages.protobuf.definitions import (
    SCALARS,
    FieldDefinition,
    MessageDefinition,
)
from log_service.http.schema_registry.languages.protobuf.number_text import (
    integer_of,
    is_integer_text,
)
from log_service.http.schema_registry.languages.protobuf.option_values import (
    INTEGER_RANGES,
    is_required,
)
from log_service.http.schema_registry.languages.protobuf.tree import (
    MAX_INT32,
    MAX_NUMBER,
    Number,
    Quoted,
    Value,
    Word,
    has_option,
)
from log_service.http.schema_registry.languages.protobuf.validation.context import Context
from log_service.http.schema_registry.languages.protobuf.validation.field_options import (
    check_field_options,
)
from log_service.http.schema_registry.languages.protobuf.validation.ranges import extension_ranges

FIRST_RESERVED, LAST_RESERVED = 19_000, 19_999
"""Numbers that are kept for implementations of Protobuf."""
KEYS = SCALARS - {"float", "double", "bytes"}
EXTENDABLE_IN_PROTO3 = frozenset(
    f"google.protobuf.{name}Options"
    for name in (
        "File",
        "Message",
        "Field",
        "Enum",
        "EnumValue",
        "Service",
        "Method",
        "Oneof",
        "ExtensionRange",
    )
)


def check_field(context: Context, field: FieldDefinition, message: MessageDefinition) -> None:
    """Check a field of a message.

    Raises:
        InvalidSchemaError: a rule is broken.
    """
    context.budget.spend()
    check_number(context, field, MAX_NUMBER)
    if not message.is_map_entry:
        check_label(context, field)
    check_type(context, field)
    check_default(context, field)
    check_field_options(context, field)


def check_extension(context: Context, field: FieldDefinition) -> None:
    """Check an extension.

    Raises:
        InvalidSchemaError: a rule is broken.
    """
    context.budget.spend()
    node, extendee = field.node, context.pool.message(field.extendee)
    check_number(context, field, MAX_INT32 - 1)
    check_label(context, field)
    context.require(node.at, "an extension cannot be a map", that=not node.map_key)
    context.require(node.at, "an extension has no json_name", that=node.json_name is None)
    context.require(node.at, "an extension cannot be required", that=not is_required(field))
    context.require(
        node.at,
        "proto3 extends options only, such as google.protobuf.FieldOptions",
        that=not context.is_proto3 or field.extendee in EXTENDABLE_IN_PROTO3,
    )
    ranges = extension_ranges(extendee.extension_ranges) if extendee else []
    context.budget.spend(1 + len(ranges) // 8)
    context.require(
        node.number_at,
        f"{field.extendee} does not declare {field.number} as the number of an extension",
        that=extendee is not None
        and any(each.start <= field.number <= extendee.last_number(each) for each in ranges),
    )
    context.require(
        node.at,
        "an extension of a message set is an optional message",
        that=extendee is None
        or not extendee.is_message_set
        or (field.kind == "message" and field.label == "optional"),
    )
    other = context.pool.numbered_extensions.get((field.extendee, field.number), field)
    context.require(
        node.number_at,
        f"number {field.number} of {field.extendee} is used by {other.full_name} already",
        that=other.full_name == field.full_name,
    )
    check_type(context, field)
    check_default(context, field)
    check_field_options(context, field)


def check_number(context: Context, field: FieldDefinition, most: int) -> None:
    """Check that a field's number is from 1 to ``most``, and not reserved for implementations."""
    number, at = field.number, field.node.number_at
    context.require(at, "the numbers of fields begin at 1", that=number > 0)
    context.require(at, f"the highest number of a field is {most}", that=number <= most)
    context.require(
        at,
        f"the numbers {FIRST_RESERVED} to {LAST_RESERVED} are reserved for implementations",
        that=not FIRST_RESERVED <= number <= LAST_RESERVED,
    )


def check_label(context: Context, field: FieldDefinition) -> None:
    """Check that the syntax allows a field's label: optional, required, repeated or none."""
    node = field.node
    if node.map_key:
        context.require(node.at, "a map has no label", that=not node.label)
    elif context.is_proto3:
        context.require(node.at, "proto3 has no required fields", that=node.label != "required")
    elif context.is_edition:
        context.require(
            node.at,
            f"editions have no label {node.label}: use features.field_presence",
            that=node.label in {"", "repeated"},
        )
    elif field.oneof is None:
        context.require(
            node.at,
            f"the field {field.name} needs a label in proto2: optional, required or repeated",
            that=bool(node.label),
        )


def check_type(context: Context, field: FieldDefinition) -> None:
    """Check that a field may have its type, if it is a group, a map's entry or a closed enum."""
    node = field.node
    if node.group:
        context.require(
            node.at, "only proto2 has groups: use a nested message", that=context.is_proto2
        )
        context.require(
            node.group.at,
            "the name of a group begins with a capital letter",
            that=node.name[0].isupper(),
        )
        context.require(
            node.group.at,
            "a group is not an entry of a map",
            that=not has_option(node.group.options, "map_entry"),
        )
    target = context.pool.message(field.type_name) if field.kind == "message" else None
    if target is not None and target.is_map_entry and not node.map_key:
        context.require(
            node.type_at,
            f"{field.type_name} is the entry of a map, which only a repeated field beside it has",
            that=field.is_repeated and target.scope == field.scope and not field.extendee,
        )
    enum = context.pool.enum(field.type_name) if field.kind == "enum" else None
    if enum is not None and enum.features.enum_type == "CLOSED":
        is_implicit = field.features.field_presence == "IMPLICIT" and not field.is_repeated
        context.require(
            node.type_at,
            f"{enum.full_name} is a closed enum: proto3 and implicit fields take open ones only",
            that=not context.is_proto3 and not (is_implicit and field.oneof is None),
        )


def check_map_key(context: Context, key: FieldDefinition) -> None:
    """Check the type of a map's keys."""
    context.require(
        key.node.type_at,
        "the keys of a map are integers, booleans or strings",
        that=key.kind in KEYS,
    )


def check_default(context: Context, field: FieldDefinition) -> None:
    """Check the default of a field, and its explicit JSON name."""
    name = field.node.json_name
    if name is not None:
        context.require(
            name.at,
            "json_name is UTF-8 without a zero byte, and not in brackets",
            that=b"\0" not in name.data
            and is_utf8(name.data)
            and not (name.data[:1] == b"[" and name.data[-1:] == b"]"),
        )
    default = field.node.default
    if default is None:
        return
    at = default.at
    context.require(at, "proto3 has no defaults", that=not context.is_proto3)
    context.require(at, "a repeated field has no default", that=not field.is_repeated)
    context.require(at, "a message has no default", that=field.kind not in {"message", "group"})
    context.require(
        at,
        "a field with implicit presence has no default",
        that=field.features.field_presence != "IMPLICIT" or field.oneof is not None,
    )
    sentence = wrong_default(context, field, default)
    context.require(at, sentence, that=not sentence)


def wrong_default(context: Context, field: FieldDefinition, value: Value) -> str:
    """Return why a value is not a valid default of a field, or an empty text if it is."""
    kind = field.kind
    if kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[kind]
        is_integer = isinstance(value, Number) and is_integer_text(value.text)
        is_good = (
            is_integer
            and isinstance(value, Number)
            and low <= integer_of(value.text) <= high
            and not (low == 0 and value.text.startswith("-"))
        )
        return "" if is_good else f"the default of {field.name} is an integer, {low} to {high}"
    if kind in {"float", "double"}:
        is_special = isinstance(value, Word) and value.text.removeprefix("-") in {"inf", "nan"}
        is_good = isinstance(value, Number) or is_special
        return "" if is_good else f"the default of {field.name} is a number"
    if kind == "bool":
        is_good = isinstance(value, Word) and value.text in {"true", "false"}
        return "" if is_good else f"the default of {field.name} is true or false"
    if kind in {"string", "bytes"}:
        is_good = isinstance(value, Quoted) and (kind == "bytes" or is_utf8(value.data))
        return "" if is_good else f"the default of {field.name} is a string in quotes"
    enum = context.pool.enum(field.type_name)
    values = enum.node.values if enum else ()
    context.budget.spend(1 + len(values) // 8)
    is_good = isinstance(value, Word) and any(each.name == value.text for each in values)
    return "" if is_good else f"the default of {field.name} is a value of {field.type_name}"


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
