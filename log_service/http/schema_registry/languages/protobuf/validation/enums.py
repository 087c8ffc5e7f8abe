"""Rules on enums."""

from log_service.http.schema_registry.languages.protobuf.definitions import EnumDefinition
from log_service.http.schema_registry.languages.protobuf.tree import EnumValue, has_flag, has_option
from log_service.http.schema_registry.languages.protobuf.validation.context import Context
from log_service.http.schema_registry.languages.protobuf.validation.ranges import (
    reserved_names,
    reserved_ranges,
    taken_ranges,
)


def check_enum(context: Context, enum: EnumDefinition) -> None:
    """Check one enum.

    Raises:
        InvalidSchemaError: a rule is broken.
    """
    context.budget.spend()
    node, values = enum.node, enum.node.values
    context.require(node.at, f"the enum {enum.full_name} has no value", that=bool(values))
    context.require(
        values[0].at,
        f"the first value of {enum.full_name} must be zero, because the enum is open",
        that=enum.features.enum_type != "OPEN" or values[0].number == 0,
    )
    check_numbers(context, enum)
    check_reserved(context, enum)
    check_generated_names(context, enum)


def check_numbers(context: Context, enum: EnumDefinition) -> None:
    """Check that values share a number only if aliases are allowed."""
    may_have_aliases = has_flag(enum.node.options, "allow_alias")
    is_stated = has_option(enum.node.options, "allow_alias")
    context.require(
        enum.node.at,
        "allow_alias = false says nothing: leave it out",
        that=may_have_aliases or not is_stated,
    )
    has_aliases = False
    used: dict[int, EnumValue] = {}
    for value in enum.node.values:
        context.budget.spend()
        other = used.setdefault(value.number, value)
        has_aliases = has_aliases or other is not value
        context.require(
            value.at,
            f"{value.name} and {other.name} are both {value.number}: if this is meant, set option"
            " allow_alias = true",
            that=other is value or may_have_aliases,
        )
    context.require(
        enum.node.at,
        f"{enum.full_name} has the option allow_alias, but no two values of one number",
        that=has_aliases or not may_have_aliases,
    )


def check_reserved(context: Context, enum: EnumDefinition) -> None:
    """Check that no value has a reserved number or name."""
    owner = enum.full_name
    names = reserved_names(context, enum.node.reserved, owner)
    taken = taken_ranges(context, reserved_ranges(enum.node.reserved), owner)
    for value in enum.node.values:
        context.require(
            value.at,
            f"number {value.number} of {owner} is reserved",
            that=taken.holder_of(value.number) is None,
        )
        context.require(
            value.at, f"the name {value.name} is reserved", that=value.name not in names
        )


def check_generated_names(context: Context, enum: EnumDefinition) -> None:
    """Check that names of values differ in more than case, underscores and the enum's name.

    Generated code may ignore case and drop underscores and the enum's name.
    """
    prefix = enum.node.name.replace("_", "").lower()
    seen: dict[str, EnumValue] = {}
    for value in enum.node.values:
        other = seen.setdefault(pascal_case(without_prefix(value.name, prefix)), value)
        context.require(
            value.at,
            f"{value.name} and {other.name} are one name without case, underscores and the prefix"
            f" {enum.node.name}",
            that=other.number == value.number,
        )


def without_prefix(name: str, prefix: str) -> str:
    """Return a value's name without its enum's name as a prefix, if the rest is a valid name."""
    at = matched = 0
    while at < len(name) and matched < len(prefix):
        if name[at] != "_":
            if name[at].lower() != prefix[matched]:
                return name
            matched += 1
        at += 1
    rest = name[at:].lstrip("_")
    return rest if matched == len(prefix) and rest and not rest[0].isdigit() else name


def pascal_case(name: str) -> str:
    """Return a name in pascal case."""
    return "".join(part[:1].upper() + part[1:].lower() for part in name.split("_"))
