"""The rows of DescribeConfigs: each key of a resource with its value, source and synonyms.

This module decides the rows, and the broker's handler puts them into a response. A sensitive value
is never in a row.

The rows follow Apache Kafka 4.3 even if that is surprising. The synonyms of a topic's key begin
with the finest unit of the broker's keys. A topic whose ``retention.ms`` comes from
``log.retention.hours`` therefore shows the value and no synonym. A name that is not a key is shown
without its value, because the value may be a secret.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import dropwhile

from log_service.common.errors import ConfigError
from log_service.config.definition import (
    READ_ONLY,
    ConfigKey,
    ConfigSource,
    ConfigType,
    Trait,
    Value,
)
from log_service.config.dynamic_keys import base_name, is_about_access, traits_of
from log_service.config.resolve import Layers, Texts, holding
from log_service.config.resource_keys import CLIENT_METRICS_KEYS, GROUP_KEYS, broker_synonym
from log_service.config.runtime_keys import RUNTIME_KEYS
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS

BROKER_NAMES: Mapping[str, tuple[str, ...]] = {
    name: key.synonyms
    for key in TOPIC_KEYS.values()
    for name in key.synonyms
    if name == key.synonyms[0] or SERVER_KEYS[name].factor != 1
}
"""The keys with the meaning of a broker's key, the finest unit first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """One source that sets a key.

    Of all synonyms the first is in effect. Each takes effect if the previous ones are removed.
    """

    name: str
    value: str | None = field(repr=False)
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One key of a resource as it is shown. ``synonyms`` begin with the one in effect."""

    name: str
    value: str | None = field(repr=False)
    source: ConfigSource
    type: ConfigType
    documentation: str | None
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()


def format_value(value: Value) -> str:
    """Return a value as Kafka writes it, a list without repetitions."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_double(value)
    return ",".join(dict.fromkeys(value)) if isinstance(value, tuple) else str(value)


def _format_double(value: float) -> str:
    """Return a double as Java prints it: with an exponent below 0.001 and from ten million on."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    texts = [str(digit) for digit in digits]
    assert isinstance(exponent, int), "a default or accepted double is finite"
    sign = "-" if value < 0 else ""
    return f"{sign}{texts[0]}.{''.join(texts[1:]) or '0'}E{exponent + len(texts) - 1}"


# Topics


def describe_topic(layers: Layers, names: Collection[str] | None = None) -> list[ConfigRow]:
    """Return the rows of all topic keys by name, or only of the keys in ``names``.

    Unknown names are skipped.
    """
    return [_topic_row(key, layers) for key in _wanted(_listed_keys(layers, names), names)]


def _listed_keys(layers: Layers, names: Collection[str] | None) -> Iterable[ConfigKey]:
    """Yield the keys of topics to list.

    Keys that Apache Kafka does not know are listed only if they are set or named.
    """
    for key in TOPIC_KEYS.values():
        if not key.is_internal or key.name in layers.topic or key.name in (names or ()):
            yield key


def describe_new_topic(layers: Layers) -> list[ConfigRow]:
    """Return a new topic's rows for CreateTopics (KIP-525), with the source of each value.

    The rows have no synonyms.
    """
    rows = []
    for key in _wanted(_listed_keys(layers, None), None):
        holds = holding(key.name, layers)
        value = format_value(holds.value)
        rows.append(
            ConfigRow(
                name=key.name,
                value=value,
                source=holds.source,
                type=key.type,
                documentation=key.full_documentation,
            )
        )
    return rows


def _topic_row(key: ConfigKey, layers: Layers) -> ConfigRow:
    holds = holding(key.name, layers)
    value = format_value(holds.value)
    synonyms: list[Synonym] = []
    if holds.source is ConfigSource.DYNAMIC_TOPIC:
        synonyms.append(Synonym(name=key.name, value=value, source=ConfigSource.DYNAMIC_TOPIC))
    if key.synonyms:
        synonyms += broker_synonyms(key.synonyms[0], layers)
    return ConfigRow(
        name=key.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=key.type,
        documentation=key.full_documentation,
        is_sensitive=key.is_sensitive,
        synonyms=tuple(synonyms),
    )


# Brokers


def describe_broker(layers: Layers, names: Collection[str] | None = None) -> list[ConfigRow]:
    """Return the rows of all broker keys by name, or only of the keys in ``names``.

    Unknown names are skipped.

    ``layers.topic`` is ignored.
    """
    known = {name for name, key in SERVER_KEYS.items() if not key.is_internal}
    shown = known | layers.static.keys() | layers.broker.keys() | layers.cluster.keys()
    return [_broker_row(name, layers) for name in sorted(shown) if names is None or name in names]


def describe_all_brokers(layers: Layers, names: Collection[str] | None = None) -> list[ConfigRow]:
    """Return the rows of the default configuration of all brokers: only the keys set there."""
    own = Layers(cluster=layers.cluster)
    return [
        _default_row(name, own) for name in sorted(layers.cluster) if names is None or name in names
    ]


def broker_key(name: str) -> ConfigKey | None:
    """Return the broker key of a name, which may be a listener's override."""
    return SERVER_KEYS.get(name) or RUNTIME_KEYS.get(name) or SERVER_KEYS.get(base_name(name))


def access_keys(names: Iterable[str]) -> list[str]:
    """Return the broker keys among ``names`` that need ALTER on the cluster."""
    return [name for name in names if is_about_access(name)]


def broker_synonyms(name: str, layers: Layers) -> list[Synonym]:
    """Return the texts that set a broker's key, most specific first.

    For each source, the key's own name comes before its aliases. Texts of aliases before the first
    text of the own name are left out.
    """
    key = broker_key(name)
    is_sensitive = key is None or key.is_sensitive
    found = [
        Synonym(name=alias, value=None if is_sensitive else texts[alias], source=source)
        for source, texts in _places(layers)
        for alias in _aliases(name)
        if alias in texts and _is_acceptable(alias, texts[alias])
    ]
    if Trait.DEMANDED in traits_of(name):
        found = found[:1]
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _places(layers: Layers) -> Iterator[tuple[ConfigSource, Texts]]:
    yield ConfigSource.DYNAMIC_BROKER, layers.broker
    yield ConfigSource.DYNAMIC_DEFAULT_BROKER, layers.cluster
    yield ConfigSource.STATIC_BROKER, layers.static
    yield ConfigSource.DEFAULT, DEFAULTS


def _aliases(name: str) -> tuple[str, ...]:
    base = base_name(name)
    return BROKER_NAMES.get(name, (name,) if base == name else (name, base))


def _is_acceptable(name: str, text: str) -> bool:
    key = broker_key(name)
    if key is None:
        return True
    try:
        key.parse(text)
    except ConfigError:
        return False
    return True


def _broker_row(name: str, layers: Layers) -> ConfigRow:
    return _row_of_broker(name, broker_synonyms(name, layers))


def _default_row(name: str, layers: Layers) -> ConfigRow:
    synonyms = [
        synonym
        for synonym in broker_synonyms(name, layers)
        if synonym.source is not ConfigSource.DEFAULT and synonym.name == name
    ]
    return _row_of_broker(name, synonyms)


def _row_of_broker(name: str, synonyms: list[Synonym]) -> ConfigRow:
    key = broker_key(name)
    holds = synonyms[0] if synonyms else Synonym(name=name, value=None, source=ConfigSource.DEFAULT)
    is_own = name in SERVER_KEYS or name in RUNTIME_KEYS
    return ConfigRow(
        name=name,
        value=None if key is None or holds.value is None else format_value(key.parse(holds.value)),
        source=holds.source,
        type=ConfigType.UNKNOWN if key is None else key.type,
        documentation=None if key is None else key.full_documentation,
        is_read_only=not is_own or key is None or key.update_mode is READ_ONLY,
        is_sensitive=key is None or key.is_sensitive,
        synonyms=tuple(synonyms),
    )


DEFAULTS: Texts = {
    name: key.default for name, key in SERVER_KEYS.items() if key.default is not None
}


# Groups and client metrics


def describe_group(
    own: Texts, layers: Layers, names: Collection[str] | None = None
) -> list[ConfigRow]:
    """Return the rows of a group, which need not exist. ``layers`` are those of the broker."""
    rows = []
    for key in _wanted(GROUP_KEYS.values(), names):
        if names is None and key.is_internal and key.name not in own:
            continue
        synonym = broker_synonym(key.name)
        inherited = broker_synonyms(synonym, layers) if synonym else [_own_default(key)]
        rows.append(_resource_row(key, own, ConfigSource.GROUP, inherited))
    return rows


def _own_default(key: ConfigKey) -> Synonym:
    return Synonym(name=key.name, value=key.default, source=ConfigSource.DEFAULT)


def describe_client_metrics(own: Texts, names: Collection[str] | None = None) -> list[ConfigRow]:
    """Return the rows of a client metrics subscription, which need not exist."""
    return [
        _resource_row(key, own, ConfigSource.CLIENT_METRICS, [])
        for key in _wanted(CLIENT_METRICS_KEYS.values(), names)
    ]


def _resource_row(
    key: ConfigKey, own: Texts, source: ConfigSource, inherited: list[Synonym]
) -> ConfigRow:
    text = own.get(key.name)
    synonyms = (
        inherited
        if text is None
        else [Synonym(name=key.name, value=text, source=source), *inherited]
    )
    value = synonyms[0].value if synonyms else key.default
    return ConfigRow(
        name=key.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=key.type,
        documentation=key.full_documentation,
        synonyms=tuple(synonyms),
    )


def _wanted(keys: Iterable[ConfigKey], names: Collection[str] | None) -> list[ConfigKey]:
    return sorted(
        (key for key in keys if names is None or key.name in names), key=lambda key: key.name
    )
