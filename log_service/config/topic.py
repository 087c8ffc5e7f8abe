"""Topic configuration: the topic's own values over the broker's defaults, and their validation.

This module decides validity and builds the view. ``config.resolve`` decides which of several values
applies, and ``config.describe`` how values are shown. Errors about a request's value are
``KafkaError`` INVALID_CONFIG, because they become responses.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.config.definition import closest_name
from log_service.config.resolve import log_fields
from log_service.config.schema_registry import has_schema_registry
from log_service.config.schema_registry_keys import URL
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.config.views import LogConfig

SCHEMA_VALIDATIONS = ("confluent.key.schema.validation", "confluent.value.schema.validation")


def log_config(defaults: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return a topic's view: the broker's defaults with the topic's own values over them.

    Names and values of a newer version are skipped, because a log must open whatever the metadata
    says.
    """
    if not overrides:
        return defaults
    changes: dict[str, Any] = {}
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is not None and key.fields:
            with suppress(ConfigError):
                changes |= log_fields(key, key.parse(text))
    return defaults.with_values(changes)


def validate_topic_config(name: str, text: str | None) -> None:
    """Check one key and value of a topic configuration that a request sets.

    Raises:
        KafkaError: INVALID_CONFIG, the key is not a topic key, or the value is missing or not
            valid for its key.
    """
    key = TOPIC_KEYS.get(name)
    if key is None:
        meant = closest_name(name, TOPIC_KEYS)
        hint = f"; did you mean {meant}?" if meant else ""
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is not a topic configuration{hint}")
    if text is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{name} has no value; leave the key out to use the default"
        )
    try:
        key.parse(text)
    except ConfigError as fault:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(fault)) from fault
    if key.is_refused(text):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{name} cannot be {text.strip().lower()}: {key.refusal}"
        )


def validate_schema_registry(
    changed: Mapping[str, str | None], static_texts: Mapping[str, str]
) -> None:
    """Check that this node has a schema registry if a topic enables schema validation.

    ``changed`` are the values that are being set. ``static_texts`` are the node's properties.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    if has_schema_registry(static_texts):
        return
    for name in SCHEMA_VALIDATIONS:
        if (changed.get(name) or "").strip().lower() == "true":
            advice = f"set {URL} in the properties of each node first, and restart it"
            text = f"{name} cannot be true: {advice}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def validate_topic_configs(configs: Mapping[str, str | None]) -> None:
    """Check all values of one topic, also against each other.

    Raises:
        KafkaError: INVALID_CONFIG, see ``validate_topic_config``; or the topic's minimum compaction
            lag is above its maximum.
    """
    for name, text in configs.items():
        validate_topic_config(name, text)
    shortest, longest = configs.get("min.compaction.lag.ms"), configs.get("max.compaction.lag.ms")
    if shortest is not None and longest is not None and int(shortest) > int(longest):
        text = f"min.compaction.lag.ms {shortest} is above max.compaction.lag.ms {longest}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
