"""Decides from outside whether a component is ready, by a request or by its heartbeat file.

A connection alone proves little. The system accepts it for a stopped process, and a library's own
threads may respond while the program behind them hangs. So a probe sends a request that only the
program itself can answer. Every probe ends within ``PROBE_DEADLINE_S``.
"""

import os
import ssl
import time
from typing import Any

import trio

from log_service.client.connections.env import real_env
from log_service.client.settings_files import settings_from_environment, settings_from_file
from log_service.common.errors import KafkaError
from log_service.common.listeners import strangers_at
from log_service.config.client import ClientConfig
from log_service.rpc.connection import Destination, RpcSettings, open_connection
from log_service.security.outgoing import outgoing_security
from log_service.supervisor.grpc_call import ResponseWatch, call_of
from log_service.supervisor.spec import (
    GrpcReadiness,
    HeartbeatReadiness,
    HttpReadiness,
    KafkaReadiness,
    Readiness,
)

POLL_S = 0.1
PROBE_DEADLINE_S = 5.0


async def wait_until_ready(readiness: Readiness) -> None:
    """Wait until the component is ready. The caller sets the deadline and watches the process."""
    while not await is_ready(readiness):  # noqa: ASYNC110 - another process does not set our events
        await trio.sleep(POLL_S)


async def is_ready(readiness: Readiness) -> bool:
    """Probe the component once, and return whether it is ready."""
    match readiness:
        case HttpReadiness():
            return await _responds(readiness)
        case KafkaReadiness():
            return await _speaks_kafka(readiness)
        case GrpcReadiness():
            return await _responds_to_call(readiness)
        case HeartbeatReadiness():
            path = readiness.path
            return path.exists() and time.time() - path.stat().st_mtime <= readiness.max_age_s
        case _:
            await trio.sleep(readiness.seconds)
            return True


async def _speaks_kafka(readiness: KafkaReadiness) -> bool:
    settings, env = RpcSettings(client_id="tidelog-supervisor"), real_env()
    config = ClientConfig.of(readiness.bootstrap_servers, _client_settings(readiness))
    security = outgoing_security(config.security(), env.rng)
    for host, port in config.bootstrap_servers:
        with trio.move_on_after(PROBE_DEADLINE_S):
            try:
                async with open_connection(
                    env, Destination(host=host, port=port), settings, security
                ):
                    return True
            except (OSError, KafkaError):
                continue
    return False


def _client_settings(readiness: KafkaReadiness) -> dict[str, Any]:
    if readiness.is_as_environment_says:
        return settings_from_environment()
    return {} if readiness.client_config is None else settings_from_file(readiness.client_config)


async def _responds_to_call(readiness: GrpcReadiness) -> bool:
    """Make the gRPC call, and return whether it got a response.

    Return False without a call if the token would reach another account's process on the port.
    """
    watch = ResponseWatch()
    authority = (
        f"{readiness.host}:{readiness.port}" if readiness.socket_path is None else "localhost"
    )
    token = _token(readiness)
    if (
        token is not None
        and readiness.token_variable not in os.environ
        and strangers_at(readiness.host, readiness.port)
    ):
        return False
    call = call_of(authority, readiness.method, readiness.message, token)
    with trio.move_on_after(PROBE_DEADLINE_S):
        try:
            async with await _connected(readiness) as stream:
                await stream.send_all(call)
                while watch.has_responded is None:
                    watch.receive(bytes(await stream.receive_some()))
                    if watch.to_send:
                        await stream.send_all(watch.take())
        except (OSError, trio.BrokenResourceError):
            return bool(watch.has_responded)
    return bool(watch.has_responded)


async def _connected(readiness: GrpcReadiness) -> trio.SocketStream:
    if readiness.socket_path is not None:
        return await trio.open_unix_socket(str(readiness.socket_path))
    return await trio.open_tcp_stream(readiness.host, readiness.port)


def _token(readiness: GrpcReadiness) -> str | None:
    """Return the token that authenticates the call, None if there is none.

    Without a token the server's response tells whether it needs one.
    """
    if given := os.environ.get(readiness.token_variable):
        return given
    try:
        return (
            None
            if readiness.token_path is None
            else readiness.token_path.read_text().strip() or None
        )
    except OSError:
        return None


async def _responds(readiness: HttpReadiness) -> bool:
    """Send a minimal HTTP request, and return whether its response has a good status."""
    scheme, _, rest = readiness.url.partition("://")
    address, _, path = rest.partition("/")
    host, _, port = address.rpartition(":")
    request = f"GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode(
        "ascii"
    )
    with trio.move_on_after(PROBE_DEADLINE_S):
        try:
            stream: trio.abc.Stream = await trio.open_tcp_stream(host.strip("[]"), int(port))
            if scheme == "https":
                context = ssl.create_default_context(cafile=readiness.authority)
                stream = trio.SSLStream(
                    stream, context, server_hostname=host.strip("[]"), https_compatible=True
                )
            async with stream:
                await stream.send_all(request)
                status_line = bytes(await stream.receive_some(64)).split()
        except (OSError, trio.BrokenResourceError):
            return False
        return len(status_line) > 1 and status_line[1].isdigit() and int(status_line[1]) < 400
    return False
