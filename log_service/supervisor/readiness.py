"""Whether a component is ready, asked from outside: by connecting, by a request, or by its having stayed alive."""

import trio

from log_service.supervisor.spec import HttpReadiness, Readiness, TcpReadiness

POLL_S = 0.1
PROBE_DEADLINE_S = 5.0


async def wait_until_ready(readiness: Readiness) -> None:
    """Wait until the component is ready; the caller sets the deadline and watches the process."""
    while not await _is_ready(readiness):  # noqa: ASYNC110 - another process does not set our events
        await trio.sleep(POLL_S)


async def _is_ready(readiness: Readiness) -> bool:
    match readiness:
        case TcpReadiness():
            return await _accepts(readiness.host, readiness.port)
        case HttpReadiness():
            return await _answers(readiness.url)
        case _:
            await trio.sleep(readiness.seconds)
            return True


async def _accepts(host: str, port: int) -> bool:
    with trio.move_on_after(PROBE_DEADLINE_S):
        try:
            stream = await trio.open_tcp_stream(host, port)
        except OSError:
            return False
        await stream.aclose()
        return True
    return False


async def _answers(url: str) -> bool:
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
