"""The value in effect for a topic key: from the topic, the broker, its file, or Kafka's default.

This module decides precedence and units. It knows neither records nor requests. The sources in
order are the topic, the broker (dynamic), all brokers (dynamic), the broker's file, and the
default. Within one source the broker's key with the finer unit takes precedence, such as
``log.retention.ms`` over ``log.retention.hours``.

Invariant: every returned value was accepted by its key. Other texts, such as those of an older
version, are skipped.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from log_service.common.errors import ConfigError
from log_service.config.definition import ConfigKey, ConfigSource, Value
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.config.views import LogConfig

Texts = Mapping[str, str]
NO_TEXTS: Texts = MappingProxyType({})

LOG_KEYS = tuple(key for key in TOPIC_KEYS.values() if key.fields)
"""The topic keys of ``LogConfig``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a topic key in one source: the key's name there, its text and its value.

    The value is in the topic key's unit.
    """

    name: str
    text: str = field(repr=False)
    source: ConfigSource
    value: Value = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The configuration texts of each source, by key.

    The sources are the topic, this broker, all brokers, and the broker's file.
    """

    topic: Texts = field(default_factory=dict, repr=False)
    broker: Texts = field(default_factory=dict, repr=False)
    cluster: Texts = field(default_factory=dict, repr=False)
    static: Texts = field(default_factory=dict, repr=False)


def holding(topic_key: str, layers: Layers) -> Setting:
    """Return the setting in effect for a topic key."""
    return next(_settings(topic_key, layers), None) or _default(topic_key)


def _settings(topic_key: str, layers: Layers) -> Iterator[Setting]:
    key = TOPIC_KEYS[topic_key]
    if topic_key in layers.topic:
        text = layers.topic[topic_key]
        with suppress(ConfigError):
            yield Setting(
                name=topic_key, text=text, source=ConfigSource.DYNAMIC_TOPIC, value=key.parse(text)
            )
    for source, texts in (
        (ConfigSource.DYNAMIC_BROKER, layers.broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, layers.cluster),
        (ConfigSource.STATIC_BROKER, layers.static),
    ):
        for name in key.synonyms:
            setting = _broker_setting(SERVER_KEYS[name], source, texts)
            if setting is not None:
                yield setting


def _broker_setting(key: ConfigKey, source: ConfigSource, texts: Texts) -> Setting | None:
    text = texts.get(key.name)
    if text is None:
        return None
    try:
        value = key.parse(text)
    except ConfigError:
        return None
    return Setting(name=key.name, text=text, source=source, value=key.in_unit(value))


@cache
def _default(topic_key: str) -> Setting:
    key = TOPIC_KEYS[topic_key]
    for broker_key in (SERVER_KEYS[name] for name in key.synonyms):
        if (text := broker_key.default) is not None:
            value = broker_key.in_unit(broker_key.parse(text))
            return Setting(
                name=broker_key.name, text=text, source=ConfigSource.DEFAULT, value=value
            )
    assert key.default is not None
    return Setting(
        name=topic_key, text=key.default, source=ConfigSource.DEFAULT, value=key.parse(key.default)
    )


def log_defaults(static: Texts) -> LogConfig:
    """Return the configuration of a topic without own values, on a broker with only a file."""
    return LogConfig(**_fields(LOG_KEYS, Layers(static=static)))


def dynamic_log_defaults(of_file: LogConfig, layers: Layers) -> LogConfig:
    """Return the configuration of a topic without own values, from file and dynamic layers.

    ``of_file`` is the result for the file alone.
    """
    named = [
        key
        for key in LOG_KEYS
        if any(name in layers.cluster or name in layers.broker for name in key.synonyms)
    ]
    return of_file.with_values(_fields(named, layers))


def _fields(keys: Iterable[ConfigKey], layers: Layers) -> dict[str, Any]:
    """Return the values of ``LogConfig`` fields for some topic keys, by field name."""
    fields: dict[str, Any] = {}
    for key in keys:
        fields |= log_fields(key, holding(key.name, layers).value)
    return fields


def log_fields(key: ConfigKey, value: Value) -> dict[str, Any]:
    """Return the fields of ``LogConfig`` that a value of a topic key sets."""
    return key.field_values(value, LogConfig.__name__)
