"""How commands reach a cluster: a quick look whether anybody is there, then clients that do not keep a person waiting.

A client of a service tries for a minute, because its broker may come back. A person wants to know at once that nothing listens there.
"""

import socket
from collections.abc import Sequence
from typing import Any

import click

from log_service.client.blocking import BlockingAdmin
from log_service.config.client import parse_servers

CONNECT_SECONDS = 3.0
GLANCE_SECONDS = 0.3
API_TIMEOUT_MS = 20_000


def client_settings(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings of every client of the command line, once a server accepts connections.

    Raises:
        ClickException: none does.
        ConfigError: the servers are not ``host:port``.
    """
    check_reachable(parse_servers(bootstrap_servers))
    return {"client_id": "tidelog-cli", "default_api_timeout_ms": API_TIMEOUT_MS}


def open_admin(bootstrap_servers: str) -> BlockingAdmin:
    """Return an admin for ``with``. Raises as ``client_settings``."""
    return BlockingAdmin(bootstrap_servers, **client_settings(bootstrap_servers))


def answers_at_once(servers: Sequence[tuple[str, int]]) -> bool:
    """Whether one of the servers accepts a connection without making a person wait."""
    for server in servers:
        try:
            socket.create_connection(server, GLANCE_SECONDS).close()
        except OSError:
            continue
        return True
    return False


def check_reachable(servers: Sequence[tuple[str, int]]) -> None:
    """Raise ClickException unless one of the servers accepts a connection."""
    failures = []
    for host, port in servers:
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            failures.append(f"{host}:{port} ({'no answer' if isinstance(error, TimeoutError) else error.strerror or error})")
        else:
            return
    raise click.ClickException(
        f"no broker at {', '.join(failures)}: start one with 'tidelog up' or 'tidelog serve FILE', or name another with --bootstrap-servers"
    )
