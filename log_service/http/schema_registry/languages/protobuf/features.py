"""Determines the features of files, messages and fields, as editions define them.

``proto2`` and ``proto3`` are sets of features, and options change single features. A feature is
inherited from the file to messages, and from messages to fields.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from log_service.http.schema_registry.languages.protobuf.tree import (
    Aggregate,
    Option,
    ProtoFile,
    Value,
    Word,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of one element, by the names of ``google.protobuf.FeatureSet``."""

    field_presence: str = "EXPLICIT"
    enum_type: str = "OPEN"
    repeated_field_encoding: str = "PACKED"
    message_encoding: str = "LENGTH_PREFIXED"
    json_format: str = "ALLOW"
    utf8_validation: str = "VERIFY"
    enforce_naming_style: str = "STYLE_LEGACY"
    default_symbol_visibility: str = "EXPORT_ALL"


PROTO2 = Features(
    enum_type="CLOSED",
    repeated_field_encoding="EXPANDED",
    json_format="LEGACY_BEST_EFFORT",
    utf8_validation="NONE",
)
PROTO3 = Features(field_presence="IMPLICIT")
EDITION_FEATURES = {
    "2023": Features(),
    "2024": Features(
        enforce_naming_style="STYLE2024", default_symbol_visibility="EXPORT_TOP_LEVEL"
    ),
}
FEATURE_NAMES = frozenset(each.name for each in fields(Features))


def features_of(file: ProtoFile) -> Features:
    """Return the features that elements of a file inherit from it."""
    base = PROTO3 if file.syntax == "proto3" else PROTO2
    return with_options(EDITION_FEATURES.get(file.edition, base), file.options)


def with_options(inherited: Features, options: Iterable[Option]) -> Features:
    """Return the inherited features, changed by the options of an element."""
    changed = {}
    for option in options:
        if option.name[0].text == "features" and not option.name[0].is_extension:
            changed.update(dict(feature_values(option)))
    return replace(inherited, **changed) if changed else inherited


def feature_values(option: Option) -> Iterable[tuple[str, str]]:
    """Yield the features that one option sets."""
    if len(option.name) == 1 and isinstance(option.value, Aggregate):
        pairs: list[tuple[str, Value]] = [(each.key, each.value) for each in option.value.entries]
    else:
        pairs = [(option.name[1].text, option.value)] if len(option.name) == 2 else []
    for name, value in pairs:
        if name in FEATURE_NAMES and isinstance(value, Word):
            yield name, value.text
