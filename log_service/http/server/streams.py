"""Responses without a fixed end: a task makes the pieces, until it returns or the client leaves.

The task belongs to the service and not to the connection, so a client that the task opens for the
cluster is closed in order. Invariants: at most one piece waits to be sent. A stream that fails
breaks off, so that its receiver does not take it for complete.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import trio

from log_service.common.errors import TidelogError
from log_service.http.server.values import HttpError

Send = Callable[[bytes], Awaitable[None]]
Make = Callable[[Send], Awaitable[None]]

logger = logging.getLogger(__name__)


async def stream_of(nursery: trio.Nursery, make: Make) -> AsyncIterator[bytes]:
    """Yield the pieces that ``make`` sends, until it returns or this iterator is closed.

    Raises:
        HttpError: 500, ``make`` failed. The log says why.
    """
    sender, receiver = trio.open_memory_channel[bytes](0)
    scope = trio.CancelScope()
    is_complete = False

    async def run() -> None:
        nonlocal is_complete
        with scope:
            async with sender:
                try:
                    await make(sender.send)
                    is_complete = True
                except trio.BrokenResourceError:
                    logger.debug("A client left a stream")
                except (TidelogError, HttpError) as error:
                    logger.warning("A stream ended early: %s", error)
                except Exception as error:  # a bug of ours costs one stream
                    logger.error("A stream failed: %r", error, exc_info=error)

    nursery.start_soon(run)
    try:
        async for piece in receiver:
            yield piece
        if not is_complete:
            raise HttpError(500, "the stream broke off")
    finally:
        scope.cancel()
        receiver.close()


def event(name: str, text: str) -> bytes:
    """Return one server-sent event as text of a ``text/event-stream``."""
    lines = "".join(f"data: {line}\n" for line in text.replace("\r", " ").split("\n"))
    return f"event: {name}\n{lines}\n".encode()


HEARTBEAT = b": alive\n\n"
EVENT_STREAM = "text/event-stream; charset=utf-8"
