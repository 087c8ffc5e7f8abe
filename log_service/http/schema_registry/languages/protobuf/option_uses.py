"""Checks on which elements and in which editions an option may be used, by its definition."""

from log_service.http.schema_registry.languages.protobuf.definitions import FieldDefinition
from log_service.http.schema_registry.languages.protobuf.tree import (
    Aggregate,
    NamePart,
    Option,
    ProtoFile,
    Word,
)

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


class OptionError(Exception):
    """An option cannot be interpreted. ``at`` is an offset in the text, ``sentence`` the reason."""

    def __init__(self, at: int, sentence: str) -> None:
        super().__init__(sentence)
        self.at = at
        self.sentence = sentence


class OptionUses:
    """Checks the use of options. ``target`` is the kind of element that has the option."""

    def __init__(self, file: ProtoFile) -> None:
        self.target = ""
        self._edition = EDITIONS.get(file.edition or file.syntax, EDITIONS["proto2"])

    def __repr__(self) -> str:
        return f"<OptionUses {self.target}>"

    def checked(self, definition: FieldDefinition, at: int) -> FieldDefinition:
        """Return the option's definition if it may be used on this element and in this edition.

        Raises:
            OptionError: it may not be used.
        """
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
