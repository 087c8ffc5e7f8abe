"""Whether a component is ready, asked from outside: by a request that needs a response, or by a sign of life that the component leaves.

A connection alone tells little: the system accepts it for a process that is stopped. So a probe waits for a response. Every probe ends
within ``PROBE_DEADLINE_S``.
"""

import time
from typing import Any

import trio

from log_service.client.connections.env import real_env
from log_service.client.settings_files import settings_from_environment, settings_from_file
from log_service.common.errors import KafkaError
from log_service.config.client import ClientConfig
from log_service.rpc.connection import Destination, RpcSettings, open_connection
from log_service.security.outgoing import outgoing_security
from log_service.supervisor.spec import HeartbeatReadiness, Http2Readiness, HttpReadiness, KafkaReadiness, Readiness

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HTTP2_EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HTTP2_TYPE_POSITION, HTTP2_SETTINGS, HTTP2_FRAME_HEADER_BYTES = 3, 4, 9

POLL_S = 0.1
PROBE_DEADLINE_S = 5.0


async def wait_until_ready(readiness: Readiness) -> None:
    """Wait until the component is ready; the caller sets the deadline and watches the process."""
    while not await is_ready(readiness):  # noqa: ASYNC110 - another process does not set our events
        await trio.sleep(POLL_S)


async def is_ready(readiness: Readiness) -> bool:
    """Ask once."""
    match readiness:
        case HttpReadiness():
            return await _responds(readiness.url)
        case KafkaReadiness():
            return await _speaks_kafka(readiness)
        case Http2Readiness():
            return await _speaks_http2(readiness.host, readiness.port)
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
                async with open_connection(env, Destination(host=host, port=port), settings, security):
                    return True
            except (OSError, KafkaError):
                continue
    return False


def _client_settings(readiness: KafkaReadiness) -> dict[str, Any]:
    if readiness.is_as_environment_says:
        return settings_from_environment()
    return {} if readiness.client_config is None else settings_from_file(readiness.client_config)


async def _speaks_http2(host: str, port: int) -> bool:
    with trio.move_on_after(PROBE_DEADLINE_S):
        try:
            async with await trio.open_tcp_stream(host, port) as stream:
                await stream.send_all(HTTP2_PREFACE + HTTP2_EMPTY_SETTINGS)
                frame = bytes(await stream.receive_some(HTTP2_FRAME_HEADER_BYTES))
        except (OSError, trio.BrokenResourceError):
            return False
        return len(frame) > HTTP2_TYPE_POSITION and frame[HTTP2_TYPE_POSITION] == HTTP2_SETTINGS
    return False


async def _responds(url: str) -> bool:
    """Ask with the least HTTP that there is: only the status line matters."""
    address, _, path = url.removeprefix("http://").partition("/")
    host, _, port = address.rpartition(":")
    request = f"GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode("ascii")
    with trio.move_on_after(PROBE_DEADLINE_S):
        try:
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(request)
                status_line = bytes(await stream.receive_some(64)).split()
        except (OSError, trio.BrokenResourceError):
            return False
        return len(status_line) > 1 and status_line[1].isdigit() and int(status_line[1]) < 400
    return False
