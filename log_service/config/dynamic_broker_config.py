"""The part of a broker's configuration that may change while it runs.

This module decides precedence and builds the view. The broker's own value takes precedence over the
default of all brokers, then comes the file, then Kafka's default. ``config.resolve`` decides the
defaults of topics. A text that its key does not accept, because another version wrote it, is
skipped.
"""

from collections.abc import Mapping
from pathlib import Path

from log_service.common.errors import ConfigError
from log_service.config.broker import ALL_DIRECTORIES
from log_service.config.describe import broker_key
from log_service.config.dynamic_keys import base_name, listener_name
from log_service.config.resolve import NO_TEXTS, Texts
from log_service.config.server_values import ServerValues
from log_service.config.views import CleanerConfig, ConnectionLimits, DynamicBrokerConfig


def dynamic_broker_config(
    log_dirs: tuple[Path, ...], static: Texts, cluster: Texts = NO_TEXTS, broker: Texts = NO_TEXTS
) -> DynamicBrokerConfig:
    """Return the view of a broker from its file and its two dynamic layers."""
    texts = _holding(static, cluster, broker)
    values = ServerValues(texts)
    return values.view(
        DynamicBrokerConfig,
        connections=_connections(values, texts),
        cleaner=values.view(CleanerConfig),
        cordoned_log_dirs=_cordoned(values.items("cordoned.log.dirs"), log_dirs),
    )


def _holding(*layers: Texts) -> dict[str, str]:
    """Return the valid texts of all layers by key. A later layer overrides an earlier one."""
    return {name: text for layer in layers for name, text in layer.items() if is_value(name, text)}


def is_value(name: str, text: str) -> bool:
    """Whether a name is a broker's key and the text is valid.

    Another version may have written either.
    """
    key = broker_key(name)
    if key is None:
        return False
    try:
        key.parse(text)
    except ConfigError:
        return False
    return True


def _connections(values: ServerValues, texts: Mapping[str, str]) -> ConnectionLimits:
    return values.view(
        ConnectionLimits,
        max_count_of_listener=_of_listeners("max.connections", texts),
        max_rate_of_listener=_of_listeners("max.connection.creation.rate", texts),
    )


def _of_listeners(key: str, texts: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    named = ((listener_name(name), text) for name, text in texts.items() if base_name(name) == key)
    return tuple(sorted((listener, int(text)) for listener, text in named if listener is not None))


def _cordoned(names: tuple[str, ...], log_dirs: tuple[Path, ...]) -> tuple[Path, ...]:
    named = {Path(name) for name in names}
    return (
        log_dirs if ALL_DIRECTORIES in names else tuple(path for path in log_dirs if path in named)
    )
