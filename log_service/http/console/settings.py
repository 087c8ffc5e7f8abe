"""The settings of a console, under keys like those of the other HTTP services.

This module reads the console's own keys, and refuses invalid values. Keys of its Kafka client have
the prefix ``client.``. A console with logins listens on any address. A console without logins
listens only on a loopback address. The caller passes in the file's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from log_service.common.addresses import is_loopback
from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_BROKER_PORT, DEFAULT_CONSOLE_PORT
from log_service.config.definition import split_list
from log_service.http.service_settings import (
    REGISTRY_URL,
    ServiceSettings,
    SettingsFile,
    refuse_open_registry,
)

USUAL_ADDRESS = f"http://127.0.0.1:{DEFAULT_CONSOLE_PORT}"
LOGINS = ("none", "basic")
METRICS_URLS = "metrics.urls"
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "listeners": USUAL_ADDRESS,
        "bootstrap.servers": f"127.0.0.1:{DEFAULT_BROKER_PORT}",
        "authentication.method": "none",
        REGISTRY_URL: "",
        METRICS_URLS: "",
    }
)
"""The keys with their defaults. Those of TLS and of clients come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings(ServiceSettings):
    """The settings of one console. ``registry_url`` is empty without a schema registry.

    ``metrics_urls`` are the metrics pages of the cluster's nodes, possibly none.
    """

    registry_url: str
    registry_client: Mapping[str, Any] = field(repr=False)
    metrics_urls: tuple[str, ...]


def read_console_settings(
    text: str,
    name: str,
    over: Mapping[str, str] | None = None,
    client: Mapping[str, Any] | None = None,
) -> ConsoleSettings:
    """Parse the text of a properties file. Properties in ``over`` override those of the text.

    ``client`` has settings of Kafka clients that apply unless the file sets them. Errors call the
    file ``name``.

    Raises:
        ConfigError: a value is not valid for its key, other people could reach a console without
            logins, or they could read passwords.
    """
    file = SettingsFile.read(
        text,
        name,
        over,
        service="console",
        prefix="client.",
        servers_key="bootstrap.servers",
        defaults=DEFAULTS,
    )
    service = file.fields_of_service(client, usual_address=USUAL_ADDRESS, allowed_logins=LOGINS)
    settings = ConsoleSettings(
        **service,
        registry_url=file.found[REGISTRY_URL],
        registry_client=file.registry_settings(),
        metrics_urls=_metrics_urls(file.found[METRICS_URLS], name),
    )
    _refuse_open_console(settings, name)
    if settings.logins:
        refuse_open_registry(settings.registry_url, name)
    return settings


def _metrics_urls(text: str, name: str) -> tuple[str, ...]:
    urls = tuple(dict.fromkeys(split_list(text)))
    for url in urls:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        except ValueError:
            is_address = False
        if not is_address:
            usual = "an address looks like http://broker1:9404/metrics"
            raise ConfigError(f"{name}: {METRICS_URLS} has {url!r}; {usual}")
    return urls


def _refuse_open_console(settings: ConsoleSettings, name: str) -> None:
    """Refuse a console without logins that other machines can reach.

    Anybody on the network could then act with the console's own rights.

    Raises:
        ConfigError: a listener without logins is not on a loopback address.
    """
    for each in settings.listeners:
        if not settings.logins and not is_loopback(each.host):
            reason = "anybody who reaches it could change the cluster"
            advice = "set authentication.method=basic, or listen on 127.0.0.1"
            text = f"a console without logins cannot be at {each}: {reason}; {advice}"
            raise ConfigError(f"{name}: {text}")
