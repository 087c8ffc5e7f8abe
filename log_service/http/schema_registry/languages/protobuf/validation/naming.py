"""Checks the names of edition 2024: ``TitleCase``, ``lower_snake_case``, ``UPPER_SNAKE_CASE``."""

import re

from log_service.http.schema_registry.languages.protobuf.definitions import (
    EnumDefinition,
    MessageDefinition,
)
from log_service.http.schema_registry.languages.protobuf.features import Features, with_options
from log_service.http.schema_registry.languages.protobuf.validation.context import Context

TITLE = re.compile(r"[A-Z][A-Za-z0-9]*")
LOWER = re.compile(r"[a-z][a-z0-9]*(?:_[a-z][a-z0-9]*)*")
UPPER = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z][A-Z0-9]*)*")
PACKAGE = re.compile(rf"{LOWER.pattern}(?:\.{LOWER.pattern})*")


def check_name(
    context: Context, features: Features, pattern: re.Pattern[str], name: str, at: int
) -> None:
    """Check that a name has the style that ``pattern`` describes, if the features require a style.

    Raises:
        InvalidSchemaError: the name has another style.
    """
    if features.enforce_naming_style == "STYLE_LEGACY":
        return
    style = {TITLE: "TitleCase", UPPER: "UPPER_SNAKE_CASE"}.get(pattern, "lower_snake_case")
    context.require(
        at, f"the name {name} is not in {style}", that=pattern.fullmatch(name) is not None
    )


def check_message_names(context: Context, message: MessageDefinition) -> None:
    """Check the names in a message."""
    features = message.features
    if not message.is_map_entry:
        check_name(context, features, TITLE, message.node.name, message.node.at)
    for field in (*message.fields, *message.extensions):
        check_name(context, field.features, LOWER, field.name, field.node.at)
    for oneof in message.oneof_nodes:
        check_name(context, features, LOWER, oneof.name, oneof.at)


def check_enum_names(context: Context, enum: EnumDefinition) -> None:
    """Check the names in an enum."""
    check_name(context, enum.features, TITLE, enum.node.name, enum.node.at)
    for value in enum.node.values:
        features = with_options(enum.features, value.options)
        check_name(context, features, UPPER, value.name, value.at)


def check_file_names(context: Context) -> None:
    """Check the names of the package, top-level extensions, services and their methods."""
    file = context.file
    if file.node.package:
        check_name(context, file.features, PACKAGE, file.node.package, file.node.package_at)
    for extension in file.extensions:
        check_name(context, extension.features, LOWER, extension.name, extension.node.at)
    for service in file.services:
        check_name(context, file.features, TITLE, service.node.name, service.node.at)
        for rpc in service.node.rpcs:
            check_name(context, file.features, TITLE, rpc.name, rpc.at)
