"""Builds and sends long lists piece by piece, so that other requests are handled in between."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, TypeVar

import trio

from log_service.http.schema_registry.api.bodies import number
from log_service.http.server.values import HttpRequest

T = TypeVar("T")

TURN_STEPS: Final = 200
"""How many items are looked at before other tasks run."""
TURN_SCHEMAS: Final = 40
"""How many schemas are written before other tasks run."""
PIECE_BYTES: Final = 64 << 10


class Pacer:
    """Lets other tasks run whenever a task has done a bounded number of steps."""

    __slots__ = ("_left", "_turn_steps")

    def __init__(self, turn_steps: int = TURN_STEPS) -> None:
        self._left = self._turn_steps = turn_steps

    def __repr__(self) -> str:
        return f"<Pacer left={self._left}>"

    async def step(self) -> None:
        """Count one step, and let other tasks run if it is the last one of a turn."""
        self._left -= 1
        if not self._left:
            self._left = self._turn_steps
            await trio.lowlevel.checkpoint()


async def page_of(request: HttpRequest, items: AsyncGenerator[T, None], limit: int = -1) -> list[T]:
    """Return the items that ``offset`` and ``limit`` of the query select.

    The argument ``limit`` is the default and the maximum of the query's ``limit``. -1 means none.
    No further items are generated.

    Raises:
        HttpError: ``offset`` or ``limit`` is not a number.
    """
    offset = max(number(request, "offset", 0), 0)
    asked = number(request, "limit", limit)
    most = limit if asked <= 0 or (0 < limit < asked) else asked
    found: list[T] = []
    async with aclosing(items):
        async for item in items:
            if offset:
                offset -= 1
                continue
            found.append(item)
            if len(found) == most:
                break
    return found


async def array_pieces(items: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the text of a JSON array in pieces of about ``PIECE_BYTES``.

    The items are texts in JSON.
    """
    piece, separator = bytearray(b"["), b""
    async with aclosing(items):
        async for item in items:
            piece += separator + item
            separator = b","
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
    yield bytes(piece + b"]")
