"""Checks a whole file, with all of its options."""

from log_service.http.schema_registry.languages.protobuf.definitions import MessageDefinition
from log_service.http.schema_registry.languages.protobuf.option_encoder import OptionEncoder
from log_service.http.schema_registry.languages.protobuf.tree import (
    Enum,
    Import,
    Message,
    has_option,
)
from log_service.http.schema_registry.languages.protobuf.validation.context import Context
from log_service.http.schema_registry.languages.protobuf.validation.enums import check_enum
from log_service.http.schema_registry.languages.protobuf.validation.fields import check_extension
from log_service.http.schema_registry.languages.protobuf.validation.messages import check_message
from log_service.http.schema_registry.languages.protobuf.validation.naming import (
    check_enum_names,
    check_file_names,
    check_message_names,
)


def check_file(context: Context, encoder: OptionEncoder) -> None:
    """Check a file by all rules of this package.

    Raises:
        InvalidSchemaError: a rule is broken.
    """
    for each in context.file.node.imports:
        check_import(context, each)
    check_features(context)
    for message in context.file.all_messages():
        check_message(context, message)
        check_message_names(context, message)
        check_visibility(context, message)
    for enum in context.file.all_enums():
        check_enum(context, enum)
        check_enum_names(context, enum)
    for extension in context.file.all_extensions():
        check_extension(context, extension)
    check_file_names(context)
    check_options(context, encoder)


def check_visibility(context: Context, message: MessageDefinition) -> None:
    """Check that no nested type is exported if the file's features forbid it (STRICT)."""
    if message.features.default_symbol_visibility == "STRICT":
        nested: list[Message | Enum] = [each.node for each in message.messages]
        nested += [each.node for each in message.enums]
        for node in nested:
            context.require(
                node.at,
                f"{node.name} is in a message, and cannot be exported from there",
                that=node.visibility != "export",
            )


def check_features(context: Context) -> None:
    """Check the features and options that apply to the whole file."""
    node = context.file.node
    context.require(
        node.edition_at,
        "edition 2024 has no option java_multiple_files",
        that=node.edition != "2024" or not has_option(node.options, "java_multiple_files"),
    )
    presence = context.file.features.field_presence
    context.require(
        node.edition_at,
        "the fields of a file cannot be required by default",
        that=not context.is_edition or presence != "LEGACY_REQUIRED",
    )


def check_import(context: Context, imported: Import) -> None:
    """Check that the path of an import has no parts that only a file system would resolve."""
    parts = imported.path.split("/")
    context.require(
        imported.at,
        f"{imported.path!r} is not a path of an import: it has an empty part, a dot or a backslash",
        that="\\" not in imported.path and not {"", ".", ".."}.intersection(parts),
    )
    context.require(
        imported.at,
        "edition 2024 has no weak imports",
        that=imported.kind != "weak" or context.file.node.edition != "2024",
    )


def check_options(context: Context, encoder: OptionEncoder) -> None:
    """Check that each option is known and has a value of its type."""
    file = context.file
    encoder.checked("FileOptions", file.node.options, file.node.package)
    for message in file.all_messages():
        encoder.checked("MessageOptions", message.node.options, message.scope)
        for statement in message.extension_ranges:
            encoder.checked("ExtensionRangeOptions", statement.options, message.scope)
        for oneof in message.oneof_nodes:
            encoder.checked("OneofOptions", oneof.options, message.full_name)
        for field in message.fields:
            encoder.checked("FieldOptions", field.node.options, field.scope)
    for extension in file.all_extensions():
        encoder.checked("FieldOptions", extension.node.options, extension.scope)
    for enum in file.all_enums():
        encoder.checked("EnumOptions", enum.node.options, enum.scope)
        for value in enum.node.values:
            encoder.checked("EnumValueOptions", value.options, enum.scope)
    for service in file.services:
        encoder.checked("ServiceOptions", service.node.options, service.scope)
        for method in service.methods:
            encoder.checked("MethodOptions", method.node.options, service.full_name)
