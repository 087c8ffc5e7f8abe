"""The settings of a REST proxy, under the keys of Confluent's ``kafka-rest.properties``.

This module decides the meaning of the proxy's own keys and refuses invalid values. Keys of Kafka
clients have the prefix ``client.``, and keys of the schema registry's client ``schema.registry.``.
``service_settings`` has the keys of all services.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_BROKER_PORT, DEFAULT_REST_PORT
from log_service.config.definition import split_list
from log_service.http.service_settings import (
    PASSED_ON,
    REGISTRY_URL,
    ServiceSettings,
    SettingsFile,
    refuse_open_registry,
)

USUAL_ADDRESS: Final = f"http://127.0.0.1:{DEFAULT_REST_PORT}"
MAX_MS: Final = 2**31 - 1
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "listeners": USUAL_ADDRESS,
        "bootstrap.servers": f"127.0.0.1:{DEFAULT_BROKER_PORT}",
        "authentication.method": "none",
        REGISTRY_URL: "",
        "consumer.request.timeout.ms": "1000",
        "consumer.request.max.bytes": str(4 << 20),
        "consumer.instance.timeout.ms": "300000",
        "consumer.instances.max": "200",
        "streams.max": "200",
        "host.name": "",
        "host.names": "",
    }
)
"""The keys with their defaults. Those of TLS and of clients come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings(ServiceSettings):
    """The settings of one proxy.

    Without ``registry_url`` there are no formats with schemas. ``host_name`` is the host in links.
    Without it, links have the host of the request. ``host_names`` are the accepted hosts of
    requests to a proxy without logins. A consumer instance ends after ``instance_timeout_ms``
    without a request.
    """

    registry_url: str
    registry_client: Mapping[str, Any] = field(repr=False)
    request_timeout_ms: int
    request_max_bytes: int
    instance_timeout_ms: int
    max_instance_count: int
    max_stream_count: int
    host_name: str
    host_names: frozenset[str]


def read_rest_settings(
    text: str,
    name: str,
    over: Mapping[str, str] | None = None,
    client: Mapping[str, Any] | None = None,
) -> RestSettings:
    """Parse the text of a properties file. Properties in ``over`` override those in it.

    ``client`` has settings of Kafka clients that apply unless the file sets them. Errors call the
    file ``name``.

    Raises:
        ConfigError: a value is not valid for its key.
    """
    file = SettingsFile.read(
        text,
        name,
        over,
        service="REST proxy",
        prefix="client.",
        servers_key="bootstrap.servers",
        defaults=DEFAULTS,
    )
    service = file.fields_of_service(client, usual_address=USUAL_ADDRESS, allowed_logins=PASSED_ON)
    _refuse_impossible_logins(service, name)
    registry_url = file.found[REGISTRY_URL]
    if service["logins"]:
        refuse_open_registry(registry_url, name)
    return RestSettings(
        **service,
        registry_url=registry_url,
        registry_client=file.registry_settings(),
        request_timeout_ms=file.number("consumer.request.timeout.ms", 1, 60_000),
        request_max_bytes=file.number("consumer.request.max.bytes", 1, 64 << 20),
        instance_timeout_ms=file.number("consumer.instance.timeout.ms", 1_000, MAX_MS),
        max_instance_count=file.number("consumer.instances.max", 0, 10_000),
        max_stream_count=file.number("streams.max", 1, 10_000),
        host_name=file.found["host.name"],
        host_names=frozenset(
            each.lower()
            for each in split_list(f"{file.found['host.names']},{file.found['host.name']}")
        ),
    )


def _refuse_impossible_logins(service: Mapping[str, Any], name: str) -> None:
    """Refuse logins to a proxy whose connections to the cluster have no logins.

    The proxy could not pass the logins on to the cluster.

    Raises:
        ConfigError: logins are set, and the security protocol of the clients has no SASL.
    """
    protocol = str(service["login_client"].get("security_protocol", "PLAINTEXT"))
    if service["logins"] and not protocol.startswith("SASL"):
        advice = "set client.security.protocol or login.security.protocol to SASL_SSL"
        text = f"authentication.method needs a cluster with logins: {advice}"
        raise ConfigError(f"{name}: {text}")
