"""Rules on messages: numbers, oneofs, map entries, and names of fields in JSON."""

from log_service.http.schema_registry.languages.protobuf.definitions import (
    FieldDefinition,
    MessageDefinition,
)
from log_service.http.schema_registry.languages.protobuf.tree import (
    MAX_INT32,
    MAX_NUMBER,
    OneOf,
    has_flag,
    has_option,
)
from log_service.http.schema_registry.languages.protobuf.validation.context import Context
from log_service.http.schema_registry.languages.protobuf.validation.fields import (
    check_field,
    check_map_key,
)
from log_service.http.schema_registry.languages.protobuf.validation.ranges import (
    check_field_ranges,
    extension_ranges,
    reserved_names,
    reserved_ranges,
    taken_ranges,
)


def check_message(context: Context, message: MessageDefinition) -> None:
    """Check one message, without those inside of it.

    Raises:
        InvalidSchemaError: a rule is broken.
    """
    context.budget.spend()
    is_set = message.is_message_set
    check_numbers(context, message, is_set=is_set)
    for oneof in message.oneof_nodes:
        check_oneof(context, oneof)
    if message.is_map_entry:
        check_map_entry(context, message)
    else:
        is_stated = has_option(message.node.options, "map_entry")
        context.require(message.node.at, "map_entry = false is not needed", that=not is_stated)
    for field in message.fields:
        check_field(context, field, message)
    check_json_names(context, message)
    if is_set:
        at = message.node.at
        context.require(at, "proto3 has no message sets", that=not context.is_proto3)
        context.require(at, "a message set has extensions only", that=not message.fields)


def check_numbers(context: Context, message: MessageDefinition, *, is_set: bool) -> None:
    """Check that no field has a taken number, a number of another field, or a reserved name.

    A number is taken if it is reserved or for extensions. With ``is_set`` the message is a message
    set, whose extensions may have higher numbers.
    """
    owner = message.full_name
    most = MAX_INT32 - 1 if is_set else MAX_NUMBER
    of_extensions = extension_ranges(message.extension_ranges)
    check_field_ranges(context, reserved_ranges(message.reserved), MAX_INT32 - 1)
    check_field_ranges(context, of_extensions, most)
    names = reserved_names(context, message.reserved, owner)
    reserved = taken_ranges(context, reserved_ranges(message.reserved), owner)
    taken = taken_ranges(context, (*reserved.ranges, *of_extensions), owner)
    if of_extensions:
        context.require(
            message.extension_ranges[0].at,
            "proto3 has no extension ranges",
            that=not context.is_proto3,
        )
    used: dict[int, FieldDefinition] = {}
    for field in message.fields:
        number, at = field.number, field.node.number_at
        other = used.setdefault(number, field)
        context.require(
            at, f"{owner} uses number {number} for {other.name} already", that=other is field
        )
        holder = taken.holder_of(number)
        what = "reserved" if reserved.holder_of(number) else "for extensions"
        context.require(at, f"number {number} of {owner} is {what}", that=holder is None)
        context.require(
            field.node.at, f"the name {field.name} is reserved", that=field.name not in names
        )


def check_oneof(context: Context, oneof: OneOf) -> None:
    """Check that a oneof has fields, and that none of them is a map or has a label."""
    context.require(oneof.at, f"the oneof {oneof.name} has no field", that=bool(oneof.fields))
    for field in oneof.fields:
        context.require(
            field.at, f"the oneof {oneof.name} cannot have a map", that=not field.map_key
        )
        context.require(field.at, "a field of a oneof has no label", that=not field.label)


def check_map_entry(context: Context, message: MessageDefinition) -> None:
    """Check the entry message of a map, which a descriptor may declare wrongly."""
    shape = [(field.name, field.number, field.label) for field in message.fields]
    is_entry = shape == [("key", 1, "optional"), ("value", 2, "optional")]
    is_plain = not (message.messages or message.enums or message.extensions or message.oneof_nodes)
    context.require(
        message.node.at,
        f"{message.full_name} has the option map_entry, but not just the fields key = 1 and value ="
        " 2: write map<key, value>",
        that=is_entry and is_plain and not message.extension_ranges and "." in message.full_name,
    )
    key, value = message.fields
    check_map_key(context, key)
    context.require(
        value.node.at, "the values of a map cannot be groups", that=value.kind != "group"
    )
    enum = context.pool.enum(value.type_name) if value.kind == "enum" else None
    if enum is not None and enum.node.values:
        context.require(
            value.node.type_at,
            f"the first value of {enum.full_name} must be zero, as it is a value of a map",
            that=enum.node.values[0].number == 0,
        )


def check_json_names(context: Context, message: MessageDefinition) -> None:
    """Check that no two fields have the same name in JSON.

    Default names are compared, and names with the explicit ``json_name`` options applied. If a
    message supports JSON only with best effort, as in proto2, or has the option
    ``deprecated_legacy_json_field_conflicts``, only explicit names are compared.
    """
    is_lenient = message.features.json_format != "ALLOW" or has_flag(
        message.node.options, "deprecated_legacy_json_field_conflicts"
    )
    defaults: dict[str, FieldDefinition] = {}
    given: dict[str, FieldDefinition] = {}
    for field in message.fields:
        context.budget.spend()
        default = json_name(field.name)
        if not is_lenient:
            check_free(context, defaults, default, field)
        check_free(context, given, own_json_name(field) or default, field, is_lenient=is_lenient)


def check_free(
    context: Context,
    names: dict[str, FieldDefinition],
    name: str,
    field: FieldDefinition,
    *,
    is_lenient: bool = False,
) -> None:
    """Check that no other field has the JSON name, and add the name to ``names``.

    With ``is_lenient`` two fields may share it unless both name it explicitly.
    """
    other = names.setdefault(name, field)
    are_given = bool(own_json_name(field)) and bool(own_json_name(other))
    context.require(
        field.node.at,
        f"the fields {other.name} and {field.name} are both {name!r} in JSON",
        that=other is field or (is_lenient and not are_given),
    )


def own_json_name(field: FieldDefinition) -> str:
    """Return the explicit JSON name of a field if it differs from the default, or an empty text."""
    if field.node.json_name is None:
        return ""
    name = field.node.json_name.data.decode(errors="replace")
    return "" if name == json_name(field.name) else name


def json_name(name: str) -> str:
    """Return the JSON name that a field has by default: without underscores, in camel case."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)
