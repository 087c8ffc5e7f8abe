"""Serves the metrics page over HTTP/1.1 on the broker's own loop, within fixed bounds.

Decides how many clients may ask at once, how long a request and a response may take, and which
paths exist. The page is sent chunk by chunk as it is made. Other tasks run between two chunks, so a
scrape of many partitions does not stall the node.

Invariants: nothing that a client does ends ``run``. No connection outlives its deadlines.
"""

import logging
from collections.abc import Callable, Iterator

import trio

from log_service.common.addresses import is_loopback
from log_service.common.env import Connection, Listener, Network
from log_service.metrics.exposition import CONTENT_TYPE
from log_service.metrics.http_page import (
    LAST_CHUNK,
    MAX_HEAD_BYTES,
    PageRequest,
    Refusal,
    chunk,
    is_local_name,
    page_head,
    parse_request,
    refusal_response,
)

PATH = "/metrics"
MAX_CONNECTION_COUNT = 16
REQUEST_DEADLINE_S = 5.0
RESPONSE_DEADLINE_S = 60.0
ACCEPT_PAUSE_S = 0.5

logger = logging.getLogger(__name__)


async def bind_metrics(network: Network, host: str, port: int) -> Listener:
    """Bind the listener of the metrics page.

    Raises:
        OSError: the address is in use or not ours. The text names the config key.
    """
    try:
        return await network.listen(host, port)
    except OSError as error:
        raise OSError(
            error.errno, f"{error.strerror or error} (metrics.listener={host}:{port})"
        ) from error


class MetricsEndpoint:
    """One listener that responds to ``GET /metrics`` with the chunks of ``make_page``.

    If ``make_page`` yields an empty chunk, other tasks run. ``instrument`` measures the loop as
    long as the page is served.
    """

    def __init__(
        self,
        listener: Listener,
        make_page: Callable[[], Iterator[bytes]],
        instrument: trio.abc.Instrument | None = None,
    ) -> None:
        self._listener = listener
        self._instrument = instrument
        self._make_page = make_page
        self._connection_count = 0

    def __repr__(self) -> str:
        return (
            f"<MetricsEndpoint {self._listener.host}:{self._listener.port}"
            f" connections={self._connection_count}>"
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, then close."""
        if self._instrument is not None:
            trio.lowlevel.add_instrument(self._instrument)
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    await self._accept_one(nursery)
        finally:
            if self._instrument is not None:
                trio.lowlevel.remove_instrument(self._instrument)
            self._listener.close()

    async def _accept_one(self, nursery: trio.Nursery) -> None:
        try:
            connection = await self._listener.accept()
        except OSError as error:
            logger.warning("The metrics listener cannot accept: %s; trying again", error)
            await trio.sleep(ACCEPT_PAUSE_S)
            return
        if self._connection_count >= MAX_CONNECTION_COUNT:
            connection.close()
            return
        self._connection_count += 1
        nursery.start_soon(self._serve, connection)

    async def _serve(self, connection: Connection) -> None:
        try:
            request: PageRequest | Refusal | None = None
            with trio.move_on_after(REQUEST_DEADLINE_S):
                request = await _receive(connection)
            if request is not None:
                with trio.move_on_after(RESPONSE_DEADLINE_S):
                    await self._respond(connection, request)
        except OSError as error:
            logger.debug("A client of the metrics page left: %s", error)
        except Exception:  # a bug of ours: this request pays, the broker goes on
            logger.exception("The metrics page could not be made")
        finally:
            self._connection_count -= 1
            connection.close()

    async def _respond(self, connection: Connection, request: PageRequest | Refusal) -> None:
        if isinstance(request, PageRequest) and self._is_misdirected(request):
            text = "on a loopback address the metrics are for an address or localhost as Host"
            await connection.send_gathered(
                [refusal_response(Refusal(status=421, text=text), is_head=request.is_head)]
            )
        elif isinstance(request, PageRequest) and request.path != PATH:
            refused = refusal_response(
                Refusal(status=404, text=f"the metrics are at {PATH}"), is_head=request.is_head
            )
            await connection.send_gathered([refused])
        elif isinstance(request, Refusal):
            await connection.send_gathered([refusal_response(request)])
        else:
            await self._send_page(connection, request)

    def _is_misdirected(self, request: PageRequest) -> bool:
        """Return whether a loopback listener was asked by a name that is not local.

        Somebody else's DNS may point such a name here (DNS rebinding).
        """
        return is_loopback(self._listener.host) and not all(map(is_local_name, request.hosts))

    async def _send_page(self, connection: Connection, request: PageRequest) -> None:
        await connection.send_gathered([page_head(CONTENT_TYPE, is_chunked=request.is_chunked)])
        if request.is_head:
            return
        for content in self._make_page():
            if content:
                await connection.send_gathered(chunk(content) if request.is_chunked else [content])
            await trio.lowlevel.checkpoint()
        if request.is_chunked:
            await connection.send_gathered([LAST_CHUNK])


async def _receive(connection: Connection) -> PageRequest | Refusal | None:
    """Receive the head of one request. Return None if the client left before its end."""
    received = bytearray()
    buffer = bytearray(MAX_HEAD_BYTES)
    while (found := parse_request(received)) is None:
        count = await connection.receive_into(buffer)
        if not count:
            return None
        received += buffer[:count]
    return found
