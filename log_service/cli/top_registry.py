"""Reads the figures of a schema registry from its metrics page, for ``tidelog top``.

It is the registry of the local ``tidelog up``, if that is the cluster on the screen. If the
registry cannot be read, the screen says so and shows the cluster.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from log_service.cli.top_metrics import read_page
from log_service.common.errors import ConfigError, StorageError
from log_service.common.urls import shown_url
from log_service.config.client_security import SSL_SETTINGS, client_security
from log_service.security.tls.contexts import client_context
from log_service.supervisor import state
from log_service.supervisor.protection import REGISTRY

GAUGE = re.compile(r"^tidelog_registry_(subjects|schemas|is_writer) (\d+)$", re.MULTILINE)
REQUESTS = re.compile(
    r'^tidelog_http_requests_total\{((?:[^"}]|"[^"]*")*)\} ([0-9.eE+]+)$', re.MULTILINE
)
OF_WATCHERS: Final = ('path="/metrics"', 'path="/healthz"', 'path="/readyz"')
"""Routes whose requests come from supervisors and from this command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLook:
    """A schema registry at one moment. ``failure`` says why its figures are not known."""

    address: str
    subject_count: int = 0
    schema_count: int = 0
    is_writer: bool = False
    request_count: float = 0.0
    failure: str = ""


def installed_registry(data: Path) -> str | None:
    """Return the URL of the registry of a running ``tidelog up``, None without one."""
    try:
        components = state.read(data)
    except StorageError:  # the installation is another account's
        return None
    return next((each.address for each in components if each.name == REGISTRY), None)


def read_registry(url: str, settings: Mapping[str, Any]) -> RegistryLook:
    """Return the figures of the registry at a URL.

    ``settings`` are settings of a client, whose TLS settings are used. If the page cannot be read,
    the result has a ``failure``.
    """
    try:
        context = tls_context(settings) if url.startswith("https://") else None
        text = read_page(f"{url.rstrip('/')}/metrics", context)
    except (OSError, ValueError, ConfigError) as error:
        return RegistryLook(address=shown_url(url), failure=f"cannot be read: {error}")
    return parse_registry(shown_url(url), text)


def tls_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context of a client's settings. Raises ConfigError: a file cannot be read."""
    named = {name: settings[name] for name in SSL_SETTINGS if settings.get(name) is not None}
    tls = client_security({"security_protocol": "SSL", **named}).tls
    assert tls is not None, "the protocol is SSL"
    return client_context(tls, Path.read_bytes).context


def parse_registry(address: str, text: str) -> RegistryLook:
    """Parse the figures in the text of a metrics page."""
    gauges = {name: int(value) for name, value in GAUGE.findall(text)}
    if not gauges:
        return RegistryLook(address=address, failure="its page has no figures of a registry")
    counts = [
        float(value)
        for labels, value in REQUESTS.findall(text)
        if not any(each in labels for each in OF_WATCHERS)
    ]
    return RegistryLook(
        address=address,
        subject_count=gauges.get("subjects", 0),
        schema_count=gauges.get("schemas", 0),
        is_writer=bool(gauges.get("is_writer")),
        request_count=sum(counts),
    )
