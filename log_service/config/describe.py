"""What DescribeConfigs shows: every key of a resource with its value, where that comes from, and what else would set it.

Decides the rows; the request's shape is the broker's. Sensitive values are never in a row.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from log_service.common.errors import ConfigError
from log_service.config.definition import ConfigKey, ConfigSource, ConfigType, UpdateMode, Value
from log_service.config.resolve import Layers, Setting, settings_of
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """One place that sets the value, or would if those before it did not."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One key of a resource as it is shown. ``synonyms`` begin with what holds."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    documentation: str
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()


def format_value(value: Value) -> str:
    """Return a value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def describe_topic(layers: Layers, names: Collection[str] | None = None) -> list[ConfigRow]:
    """Return the rows of a topic by name; only those of ``names``, unknown ones are passed over."""
    return [_topic_row(key, settings_of(key.name, layers)) for key in _wanted(TOPIC_KEYS.values(), names)]


def describe_broker(layers: Layers, names: Collection[str] | None = None) -> list[ConfigRow]:
    """Return the rows of a broker by name; only those of ``names``, unknown ones are passed over. ``layers.topic`` does not count."""
    return [_broker_row(key, layers) for key in _wanted(SERVER_KEYS.values(), names)]


def describe_all_brokers(layers: Layers, names: Collection[str] | None = None) -> list[ConfigRow]:
    """Return the rows of the default that all brokers share: only what was set there."""
    return [_broker_row(key, Layers(cluster=layers.cluster)) for key in _wanted(SERVER_KEYS.values(), names) if key.name in layers.cluster]


def _wanted(keys: Iterable[ConfigKey], names: Collection[str] | None) -> list[ConfigKey]:
    return sorted((key for key in keys if names is None or key.name in names), key=lambda key: key.name)


def _topic_row(key: ConfigKey, settings: list[Setting]) -> ConfigRow:
    holds = settings[0]
    return ConfigRow(
        name=key.name,
        value=holds.text if holds.name == key.name else format_value(holds.value),
        source=holds.source,
        type=key.type,
        documentation=key.full_documentation,
        is_sensitive=key.is_sensitive,
        synonyms=tuple(Synonym(name=setting.name, value=setting.text, source=setting.source) for setting in settings),
    )


def _broker_row(key: ConfigKey, layers: Layers) -> ConfigRow:
    synonyms = [
        Synonym(name=key.name, value=None if key.is_sensitive else texts[key.name], source=source)
        for source, texts in (
            (ConfigSource.DYNAMIC_BROKER, layers.broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, layers.cluster),
            (ConfigSource.STATIC_BROKER, layers.static),
        )
        if key.name in texts and _is_acceptable(key, texts[key.name])
    ]
    if key.default is not None:
        synonyms.append(Synonym(name=key.name, value=None if key.is_sensitive else key.default, source=ConfigSource.DEFAULT))
    holds = synonyms[0] if synonyms else Synonym(name=key.name, value=None, source=ConfigSource.DEFAULT)
    return ConfigRow(
        name=key.name,
        value=holds.value,
        source=holds.source,
        type=key.type,
        documentation=key.full_documentation,
        is_read_only=key.update_mode is UpdateMode.READ_ONLY,
        is_sensitive=key.is_sensitive,
        synonyms=tuple(synonyms),
    )


def _is_acceptable(key: ConfigKey, text: str) -> bool:
    try:
        key.parse(text)
    except ConfigError:
        return False
    return True
