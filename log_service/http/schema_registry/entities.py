"""Converts between values and JSON objects of the API and of the topic ``_schemas``.

Requests and records use the same field names, except for the compatibility level, so both are read
here.
"""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from log_service.http.schema_registry.languages.language import SchemaType
from log_service.http.schema_registry.values import (
    CompatibilityLevel,
    Metadata,
    Reference,
    Rule,
    RuleSet,
    SchemaContent,
    Settings,
)

T = TypeVar("T")


class BadFieldError(ValueError):
    """A field has a wrong type or value. The message names the field."""


SHOWN_CHARACTERS = 60
"""The characters of a client's value that a message repeats."""
FLAGS = {"true": True, "false": False}
RULE_FIELDS = {
    "name": "name",
    "doc": "doc",
    "kind": "kind",
    "mode": "mode",
    "type": "type",
    "expr": "expr",
    "onSuccess": "on_success",
    "onFailure": "on_failure",
}


def content_json(content: SchemaContent) -> dict[str, Any]:
    """Return the JSON object of a schema's content. The type Avro and empty parts are left out."""
    whole = {
        "schemaType": None if content.schema_type is SchemaType.AVRO else content.schema_type.value,
        "references": [reference.as_json() for reference in content.references] or None,
        "metadata": None if content.metadata is None else content.metadata.as_json(),
        "ruleSet": None if content.rule_set is None else content.rule_set.as_json(),
        "schema": content.text,
    }
    return {name: part for name, part in whole.items() if part is not None}


def read_content(fields: Mapping[str, Any]) -> SchemaContent:
    """Read the content of a schema from a JSON object.

    Raises:
        BadFieldError: a field has the wrong type.
    """
    return SchemaContent(
        schema_type=read_schema_type(fields.get("schemaType")),
        text=_text(fields, "schema") or "",
        references=tuple(_list(fields, "references", read_reference)),
        metadata=read_optional(fields, "metadata", read_metadata),
        rule_set=read_optional(fields, "ruleSet", read_rule_set),
    )


def read_schema_type(name: object) -> SchemaType:
    """Return the schema language of that name. None means Avro.

    Raises:
        BadFieldError: there is no such language.
    """
    try:
        return (
            SchemaType.AVRO if name is None else SchemaType(name if isinstance(name, str) else "")
        )
    except ValueError:
        shown_name = name[:SHOWN_CHARACTERS] if isinstance(name, str) else shown(name)
        raise BadFieldError(f"Invalid schema type {shown_name}") from None


def read_reference(fields: object) -> Reference:
    """Read a reference from a JSON object.

    Raises:
        BadFieldError: a part is missing or has the wrong type.
    """
    found = _mapping(fields, "references")
    version = found.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise BadFieldError(f"references: the version has to be a number, and is {shown(version)}")
    return Reference(
        name=_text(found, "name") or "", subject=_text(found, "subject") or "", version=version
    )


def read_metadata(fields: object) -> Metadata:
    """Read metadata from a JSON object.

    Raises:
        BadFieldError: a part has the wrong type.
    """
    found = _mapping(fields, "metadata")
    tags = _mapping(found.get("tags") or {}, "metadata.tags")
    properties = _mapping(found.get("properties") or {}, "metadata.properties")
    return Metadata.of(
        tags={path: _texts(names, "metadata.tags") for path, names in tags.items()},
        properties=_strings(properties, "metadata.properties"),
        sensitive=_texts(found.get("sensitive") or [], "metadata.sensitive"),
    )


def read_rule_set(fields: object) -> RuleSet:
    """Read a rule set from a JSON object.

    Raises:
        BadFieldError: a part has the wrong type.
    """
    found = _mapping(fields, "ruleSet")
    return RuleSet(
        migration_rules=tuple(_list(found, "migrationRules", read_rule)),
        domain_rules=tuple(_list(found, "domainRules", read_rule)),
        encoding_rules=tuple(_list(found, "encodingRules", read_rule)),
        enable_at=_text(found, "enableAt"),
    )


def read_rule(fields: object) -> Rule:
    """Read a rule from a JSON object.

    Raises:
        BadFieldError: a part has the wrong type.
    """
    found = _mapping(fields, "ruleSet")
    texts = {ours: _text(found, theirs) for theirs, ours in RULE_FIELDS.items()}
    known: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    return Rule(
        **known,
        tags=tuple(sorted(set(_texts(found.get("tags") or [], "ruleSet.tags")))),
        params=dict(
            sorted(_strings(_mapping(found.get("params") or {}, "params"), "params").items())
        ),
        disabled=bool(found.get("disabled", False)),
    )


def read_names(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the texts in the field ``name``. A missing field means no texts.

    Raises:
        BadFieldError: the value is not a list of texts.
    """
    return tuple(_texts(fields.get(name) or [], name))


def settings_json(settings: Settings) -> dict[str, Any]:
    """Return the JSON object of settings for records and responses. Unset settings are left out."""
    found = dict(settings.set_fields())
    return {
        theirs: _plain(found[ours]) for ours, theirs in SETTINGS_FIELDS.items() if ours in found
    }


def read_settings(fields: Mapping[str, Any]) -> Settings:
    """Read settings. Requests call the level ``compatibility``, and records ``compatibilityLevel``.

    Raises:
        BadFieldError: a part has the wrong type, or the level is unknown.
    """
    level = fields.get("compatibilityLevel") or fields.get("compatibility")
    return Settings(
        alias=_text(fields, "alias"),
        alias_for_deks=_text(fields, "aliasForDeks"),
        normalize=_flag(fields, "normalize"),
        validate_fields=_flag(fields, "validateFields"),
        validate_names=_flag(fields, "validateNames"),
        validate_new_schemas=_flag(fields, "validateNewSchemas"),
        validate_rules=_flag(fields, "validateRules"),
        compatibility_level=None if level is None else read_level(level),
        compatibility_policy=_text(fields, "compatibilityPolicy"),
        compatibility_group=_text(fields, "compatibilityGroup"),
        default_metadata=read_optional(fields, "defaultMetadata", read_metadata),
        override_metadata=read_optional(fields, "overrideMetadata", read_metadata),
        default_rule_set=read_optional(fields, "defaultRuleSet", read_rule_set),
        override_rule_set=read_optional(fields, "overrideRuleSet", read_rule_set),
    )


def read_level(name: object) -> CompatibilityLevel:
    """Return the compatibility level of that name. Case does not matter.

    Raises:
        BadFieldError: there is no such level.
    """
    try:
        return CompatibilityLevel(name.upper() if isinstance(name, str) else "")
    except ValueError:
        raise BadFieldError(f"there is no compatibility level {shown(name)}") from None


SETTINGS_FIELDS = {
    "alias": "alias",
    "alias_for_deks": "aliasForDeks",
    "normalize": "normalize",
    "validate_fields": "validateFields",
    "validate_names": "validateNames",
    "validate_new_schemas": "validateNewSchemas",
    "validate_rules": "validateRules",
    "compatibility_level": "compatibilityLevel",
    "compatibility_policy": "compatibilityPolicy",
    "compatibility_group": "compatibilityGroup",
    "default_metadata": "defaultMetadata",
    "override_metadata": "overrideMetadata",
    "default_rule_set": "defaultRuleSet",
    "override_rule_set": "overrideRuleSet",
}


def shown(value: object) -> str:
    """Return the beginning of a value for a message, without reading all of it."""
    return reprlib.repr(value)[:SHOWN_CHARACTERS]


def _plain(value: Any) -> Any:
    if isinstance(value, Metadata | RuleSet):
        return value.as_json()
    return value.value if isinstance(value, CompatibilityLevel) else value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadFieldError(f"{name} has to be a text, and is {shown(value)}")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool | None:
    """Return the boolean in the field ``name``, or None if the field is missing.

    A text is accepted, too, because scripts send it and Confluent's registry accepts it.
    """
    value = fields.get(name)
    value = FLAGS.get(value, value) if isinstance(value, str) else value
    if value is not None and not isinstance(value, bool):
        raise BadFieldError(f"{name} has to be true or false, and is {shown(value)}")
    return value


def _mapping(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadFieldError(f"{name} has to be an object, and is {shown(value)}")
    return value


def _strings(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    for key, value in fields.items():
        if not isinstance(value, str):
            raise BadFieldError(
                f"{name}.{key[:SHOWN_CHARACTERS]} has to be a text, and is {shown(value)}"
            )
    return dict(fields)


def _texts(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadFieldError(f"{name} has to be a list of texts, and is {shown(value)}")
    return value


def _list(fields: Mapping[str, Any], name: str, read: Callable[[object], T]) -> list[T]:
    found = fields.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BadFieldError(f"{name} has to be a list, and is {shown(found)}")
    return [read(each) for each in found]


def read_optional(fields: Mapping[str, Any], name: str, read: Callable[[object], T]) -> T | None:
    """Return the field ``name`` as ``read`` reads it, or None if the field is missing."""
    found = fields.get(name)
    return None if found is None else read(found)
