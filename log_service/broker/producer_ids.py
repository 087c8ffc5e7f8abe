"""Producer ids for idempotent producers, taken one by one from blocks that the controller hands out (KIP-730).

Decides when another block is asked for. Invariants: an id is given once; at most one request for a block is under way, and whoever needs
an id meanwhile waits for it. Ids that were not used when the node stops are lost, which is allowed.
"""

from collections.abc import Awaitable, Callable

import trio

NextBlock = Callable[[], Awaitable[tuple[int, int]]]
"""Returns (first id, count) of a block that nobody else has."""


class ProducerIds:
    """The node's current block."""

    def __init__(self, next_block: NextBlock) -> None:
        self._next_block = next_block
        self._next_id = 0
        self._end_id = 0
        self._lock = trio.Lock()

    def __repr__(self) -> str:
        return f"<ProducerIds next={self._next_id} left={self._end_id - self._next_id}>"

    def next_nowait(self) -> int | None:
        """Return an id, or None when the block is used up."""
        if self._next_id >= self._end_id:
            return None
        self._next_id += 1
        return self._next_id - 1

    async def next(self) -> int:
        """Return an id; waits for a block when this one is used up.

        Raises:
            KafkaError: the controller gave none.
        """
        while (producer_id := self.next_nowait()) is None:
            async with self._lock:
                if self._next_id >= self._end_id:
                    first, count = await self._next_block()
                    self._next_id, self._end_id = first, first + count
        return producer_id
