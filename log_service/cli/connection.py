"""Connects commands to a cluster: a quick check for a broker, then clients that fail fast.

A client of a service retries for a minute, because its broker may come back. A person wants to know
at once that nothing listens at the address.
"""

import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
import trio

from log_service.cli.command_config import configured_settings
from log_service.cli.output import bootstrap_option
from log_service.cli.running import in_thread, on_trio
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import QuorumDescription
from log_service.common.errors import ErrorCode, KafkaError, first_error
from log_service.config.client import AdminConfig

CONNECT_SECONDS = 3.0
RESPONSE_SECONDS = 5.0
GLANCE_SECONDS = 0.3
GREETING = struct.pack(">ihhih", 10, 18, 0, 0x71DE, -1)
"""A request of ApiVersions: size, API key, version, correlation id, no client id."""
GREETING_RESPONSE = struct.pack(">ii", 0, 0x71DE)
"""The first bytes of the response: its size, which is not compared, and the correlation id."""
API_TIMEOUT_MS = 20_000
QUORUM_TIMEOUT_MS = 5_000
"""How long the quorum may take to describe itself.

Without a leader, brokers wait for one much longer.
"""
PATIENCE_SECONDS = 2.0
"""How long a change may take before the command asks whether the quorum has a leader.

It is longer than an election.
"""
NO_LEADER_TEXT = (
    "the metadata quorum has no leader, so nothing can be changed: a majority of the controllers"
    " has to run and to reach each other; see: tidelog cluster status"
)
PENDING_TEXT = "What was asked may still be done once there is one"

P = ParamSpec("P")
T = TypeVar("T")
Changing = Coroutine[Any, Any, T]


def cluster_command(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Decorate an async command that uses a cluster: run it, and add the options it needs."""
    return bootstrap_option(on_trio(command))


async def client_settings(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings of every client of the command line, once a server accepts connections.

    Raises:
        ClickException: no server accepts connections.
        ConfigError: the servers are not ``host:port``, or the settings of ``--command-config``
            contradict each other.
    """
    settings = {
        "client_id": "tidelog-cli",
        "default_api_timeout_ms": API_TIMEOUT_MS,
    } | configured_settings(bootstrap_servers)
    config = AdminConfig.of(bootstrap_servers, settings)
    is_tls = config.security().tls is not None
    await in_thread(check_reachable, config.bootstrap_servers, is_tls=is_tls)
    return settings


async def unless_leaderless(
    change: Callable[[], Awaitable[T]], has_leader: Callable[[], Awaitable[bool]]
) -> T:
    """Return the result of a change, or fail once the metadata quorum turns out to have no leader.

    ``has_leader`` is called only after ``PATIENCE_SECONDS``, because a broker without a leader
    sends no response until there is one. It is not called before the change, because most users
    must not describe the cluster, and each denied request would be a line of the audit log.

    Raises:
        KafkaError: LEADER_NOT_AVAILABLE, the quorum has no leader; or the change's own error.
    """

    async def watch() -> None:
        await trio.sleep(PATIENCE_SECONDS)
        if not await has_leader():
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{NO_LEADER_TEXT}. {PENDING_TEXT}")

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            result = await change()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from None
    return result


async def _has_leader(admin: Admin) -> bool:
    """Return whether the metadata quorum has a leader.

    Return True if the cluster does not tell, or this user may not know. The brokers then respond to
    the change themselves.
    """
    try:
        return (
            await Admin.describe_metadata_quorum(admin, timeout_ms=QUORUM_TIMEOUT_MS)
        ).leader_id >= 0
    except KafkaError as error:
        return not error.is_retriable


def _led(
    method: Callable[Concatenate[Admin, P], Changing[T]],
) -> Callable[Concatenate[Admin, P], Changing[T]]:
    """Wrap an admin method so that it fails within seconds if the metadata quorum has no leader."""

    @wraps(method)
    async def watched(admin: Admin, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await unless_leaderless(
            partial(method, admin, *arguments, **named), partial(_has_leader, admin)
        )

    return watched


class CommandAdmin(Admin):
    """The admin client of commands. Changes fail within seconds without an active controller."""

    def __init__(self, bootstrap_servers: str, **settings: Any) -> None:
        super().__init__(bootstrap_servers, **settings)
        self.settings = settings

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        """Describe the metadata quorum as ``Admin`` does, within seconds.

        Raises:
            KafkaError: LEADER_NOT_AVAILABLE, it has no leader; or the brokers' own error.
        """
        limit_ms = QUORUM_TIMEOUT_MS if timeout_ms is None else timeout_ms
        try:
            found = await super().describe_metadata_quorum(timeout_ms=limit_ms)
        except KafkaError as error:
            if not error.is_retriable:
                raise
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER_TEXT) from error
        if found.leader_id < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER_TEXT)
        return found

    create_topics = _led(Admin.create_topics)
    delete_topics = _led(Admin.delete_topics)
    create_partitions = _led(Admin.create_partitions)
    alter_configs = _led(Admin.alter_configs)
    alter_client_quotas = _led(Admin.alter_client_quotas)
    elect_leaders = _led(Admin.elect_leaders)
    alter_partition_reassignments = _led(Admin.alter_partition_reassignments)
    list_partition_reassignments = _led(Admin.list_partition_reassignments)
    update_features = _led(Admin.update_features)
    unregister_broker = _led(Admin.unregister_broker)
    add_raft_voter = _led(Admin.add_raft_voter)
    remove_raft_voter = _led(Admin.remove_raft_voter)
    set_scram_users = _led(Admin.set_scram_users)
    remove_scram_users = _led(Admin.remove_scram_users)
    create_acls = _led(Admin.create_acls)
    delete_acls = _led(Admin.delete_acls)
    create_delegation_token = _led(Admin.create_delegation_token)
    renew_delegation_token = _led(Admin.renew_delegation_token)
    expire_delegation_token = _led(Admin.expire_delegation_token)


@asynccontextmanager
async def open_admin(bootstrap_servers: str) -> AsyncIterator[CommandAdmin]:
    """Open an admin client for a block. Raises the errors of ``client_settings``."""
    async with CommandAdmin(bootstrap_servers, **await client_settings(bootstrap_servers)) as admin:
        yield admin


def accepts_at_once(servers: Sequence[tuple[str, int]]) -> bool:
    """Return whether one of the servers accepts a connection within ``GLANCE_SECONDS``."""
    for server in servers:
        try:
            socket.create_connection(server, GLANCE_SECONDS).close()
        except OSError:
            continue
        return True
    return False


def speaks_kafka(connection: socket.socket, seconds: float) -> bool:
    """Return whether the server responds to a client's first request, ApiVersions version 0.

    Raises:
        TimeoutError: the server is silent for ``seconds``.
        OSError: the request cannot be sent.
    """
    connection.settimeout(seconds)
    connection.sendall(GREETING)
    received = b""
    try:
        while len(received) < len(GREETING_RESPONSE):
            part = connection.recv(64)
            if not part:
                return False
            received += part
    except ConnectionResetError:
        return False
    except TimeoutError as error:
        raise TimeoutError(
            f"it accepts connections and has not responded for {seconds:g} s"
        ) from error
    return received[4:8] == GREETING_RESPONSE[4:]


def check_reachable(servers: Sequence[tuple[str, int]], *, is_tls: bool = False) -> None:
    """Refuse servers of which none responds as a Kafka broker.

    With TLS, a server that accepts a connection is enough. Several servers are first tried with a
    short timeout each, so that a server that hangs does not delay a response from another one.

    Raises:
        ClickException: no server responds.
    """
    failures, is_hanging = _failures(
        servers, GLANCE_SECONDS if len(servers) > 1 else RESPONSE_SECONDS, is_tls=is_tls
    )
    if failures and is_hanging and len(servers) > 1:
        failures, is_hanging = _failures(servers, RESPONSE_SECONDS, is_tls=is_tls)
    if failures:
        advice = (
            "start one with 'tidelog up' or 'tidelog serve FILE', or name another with"
            " --bootstrap-servers"
        )
        if is_hanging:
            advice = (
                "a broker that hangs is stopped, overloaded or waits for its disk; name another"
                " with --bootstrap-servers"
            )
        raise click.ClickException(f"no broker at {', '.join(failures)}: {advice}")


def _failures(
    servers: Sequence[tuple[str, int]], seconds: float, *, is_tls: bool
) -> tuple[list[str], bool]:
    """Return the failure of each server, and whether one of them hangs.

    The list is empty if a server responds within ``seconds``.
    """
    failures, is_hanging = [], False
    for host, port in servers:
        try:
            with socket.create_connection((host, port), CONNECT_SECONDS) as connection:
                if is_tls or speaks_kafka(connection, seconds):
                    return [], False
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
            is_hanging = is_hanging or isinstance(error, TimeoutError)
        else:
            raise click.ClickException(
                f"{host}:{port} accepts connections and does not speak Kafka's protocol in plain"
                " text: is that the port of a broker? One with TLS wants security.protocol=SSL or"
                " SASL_SSL in the file of --command-config"
            )
    return failures, is_hanging
