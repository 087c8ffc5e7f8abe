"""The sampler reads pages over real sockets, also those of servers that do wrong."""

from functools import partial

import httpx
import pytest
import trio

from log_service.http.console.history import sampler as module
from log_service.http.console.history.sampler import Sampler
from tests.unit.http.console.clocks import SteppedClock

TOTAL = b"kafka_server_brokertopicmetrics_messagesin_total"


def response(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nconnection: close\r\n\r\n%s" % (status, body)


async def played(*bodies: bytes) -> Sampler:
    """Return a sampler that took one sample for each response of a server."""
    waiting, clock = list(bodies), SteppedClock()

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(waiting.pop(0))

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        found = Sampler([f"http://127.0.0.1:{port}/metrics"], clock)
        async with httpx.AsyncClient(trust_env=False) as client:
            for _ in bodies:
                await found.take(client)
                clock.now_ms += 10_000
        nursery.cancel_scope.cancel()
    return found


def test_two_looks_are_a_rate() -> None:
    pages = [response(TOTAL + b" 100\n"), response(TOTAL + b" 150\n")]
    found = trio.run(played, *pages)
    points = found.history.points(("records in",), 0)
    assert [value for _, value in points] == [None, 5.0]
    assert not found.failures


def test_a_page_that_cannot_be_read_is_told_and_tried_again() -> None:
    pages = [response(b"no", b"503 Busy"), b"garbage", response(TOTAL + b" 1\n")]
    found = trio.run(played, *pages[:1])
    (reason,) = found.failures.values()
    assert "503" in reason
    found = trio.run(played, *pages[:2])
    assert found.failures
    found = trio.run(played, *pages)
    assert not found.failures
    assert len(found.history) == 3


def test_a_page_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAGE_BYTES", 1_000)
    page = response(TOTAL + b" 1\n" + b"x" * 200_000)
    found = trio.run(played, page)
    (reason,) = found.failures.values()
    assert "longer than 1000 bytes" in reason
