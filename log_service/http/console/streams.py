"""Responses that go on: a task makes the pieces, and ends when the browser leaves.

The task belongs to the console and not to the connection, so a client of the cluster that it opens
is closed in order. Invariant: at most one piece waits to be sent.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import trio

from log_service.common.errors import TidelogError

Send = Callable[[bytes], Awaitable[None]]
Make = Callable[[Send], Awaitable[None]]

logger = logging.getLogger(__name__)


async def stream_of(nursery: trio.Nursery, make: Make) -> AsyncIterator[bytes]:
    """Yield the pieces that ``make`` sends, until it returns or this iterator is closed."""
    sender, receiver = trio.open_memory_channel[bytes](0)
    scope = trio.CancelScope()

    async def run() -> None:
        with scope:
            async with sender:
                try:
                    await make(sender.send)
                except trio.BrokenResourceError:
                    logger.debug("A browser left a stream")
                except TidelogError as error:
                    logger.warning("A stream ended early: %s", error)
                except Exception as error:  # a bug of ours costs one stream
                    logger.error("A stream failed: %r", error, exc_info=error)

    nursery.start_soon(run)
    try:
        async for piece in receiver:
            yield piece
    finally:
        scope.cancel()
        receiver.close()


def event(name: str, text: str) -> bytes:
    """Return one event of a text/event-stream."""
    lines = "".join(f"data: {line}\n" for line in text.replace("\r", " ").split("\n"))
    return f"event: {name}\n{lines}\n".encode()


HEARTBEAT = b": alive\n\n"
EVENT_STREAM = "text/event-stream; charset=utf-8"
