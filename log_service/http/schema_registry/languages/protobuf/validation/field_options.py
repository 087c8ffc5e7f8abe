"""Rules on options and features that fit some types of fields only."""

from collections.abc import Callable

from log_service.http.schema_registry.languages.protobuf.definitions import FieldDefinition
from log_service.http.schema_registry.languages.protobuf.features import feature_values
from log_service.http.schema_registry.languages.protobuf.tree import Option, Word
from log_service.http.schema_registry.languages.protobuf.validation.context import Context

LONG_INTEGERS = frozenset({"int64", "uint64", "sint64", "fixed64", "sfixed64"})
MESSAGES = frozenset({"message", "group"})
TEXTS = frozenset({"string", "bytes"})


def check_field_options(context: Context, field: FieldDefinition) -> None:
    """Check the options of a field that depend on its type.

    Raises:
        InvalidSchemaError: an option does not fit.
    """
    for option in field.node.options:
        if len(option.name) == 1 and not option.name[0].is_extension:
            sentence = misfit(context, field, option)
            context.require(option.at, sentence, that=not sentence)
        if option.name[0].text == "features" and not option.name[0].is_extension:
            for name, value in feature_values(option):
                sentence = feature_misfit(field, name, value)
                context.require(option.at, sentence, that=not sentence)


def misfit(context: Context, field: FieldDefinition, option: Option) -> str:
    """Return why an option does not fit a field, or an empty text if it fits."""
    value = option.value.text if isinstance(option.value, Word) else ""
    match option.name[0].text:
        case "packed" if context.is_edition:
            return "editions have no option packed: use features.repeated_field_encoding"
        case "packed" if value == "true" and not (field.is_repeated and is_packable(field)):
            return "packed is for repeated numbers, booleans and enums"
        case "lazy" | "unverified_lazy" if value == "true" and field.kind not in MESSAGES:
            return f"{option.name[0].text} is for messages"
        case "jstype" if value != "JS_NORMAL" and field.kind not in LONG_INTEGERS:
            return "jstype is for integers of 64 bits"
        case "ctype" if context.file.node.edition == "2024":
            return "edition 2024 has no option ctype"
    return ""


def is_packable(field: FieldDefinition) -> bool:
    """Return whether values of a field may be packed, which means that they share one tag."""
    return field.kind not in MESSAGES | TEXTS


def is_in_oneof(field: FieldDefinition) -> bool:
    """Return whether the field is in a oneof of the schema's text."""
    return field.oneof is not None and not field.is_optional_of_proto3


FEATURE_RULES: tuple[tuple[str, Callable[[FieldDefinition, str], bool], str], ...] = (
    ("field_presence", lambda f, _: f.is_repeated, "a repeated field has no presence"),
    ("field_presence", lambda f, _: is_in_oneof(f), "a field of a oneof has no presence"),
    ("field_presence", lambda f, _: bool(f.extendee), "an extension has no presence"),
    (
        "field_presence",
        lambda f, value: value == "IMPLICIT" and f.kind in MESSAGES,
        "a message has no implicit presence",
    ),
    (
        "repeated_field_encoding",
        lambda f, _: not f.is_repeated,
        "repeated_field_encoding is for repeated fields",
    ),
    (
        "repeated_field_encoding",
        lambda f, value: value == "PACKED" and not is_packable(f),
        "only numbers, booleans and enums are packed",
    ),
    (
        "utf8_validation",
        lambda f, _: "string" not in {f.kind, f.node.map_key, f.node.type},
        "utf8_validation is for strings",
    ),
    (
        "message_encoding",
        lambda f, _: f.kind not in MESSAGES or bool(f.node.map_key),
        "message_encoding is for messages",
    ),
)
"""Rules on features: the feature, the test whether its value does not fit a field, and the reason.
"""


def feature_misfit(field: FieldDefinition, name: str, value: str) -> str:
    """Return why a feature does not fit a field, or an empty text if it fits."""
    found = (
        sentence
        for feature, is_wrong, sentence in FEATURE_RULES
        if feature == name and is_wrong(field, value)
    )
    return next(found, "")
