"""How long the cleaner waits between two slices, so that it stays below ``log.cleaner.io.max.bytes.per.second``.

Decides a pause. One throttle serves all passes of a node.
"""

import math

import trio

from log_service.common.env import Clock


class Throttle:
    """Counts bytes against a rate; a rate of ``inf`` waits for nothing."""

    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._free_ms = 0.0

    async def wait(self, size_bytes: int) -> None:
        """Take note of a slice of ``size_bytes`` (read; about as much is written), and wait until the next may begin."""
        if math.isinf(self.bytes_per_second):
            await trio.lowlevel.checkpoint()
            return
        now_ms = self._clock.monotonic_ms()
        self._free_ms = max(self._free_ms, now_ms) + 1000 * size_bytes / self.bytes_per_second
        await trio.sleep((self._free_ms - now_ms) / 1000)
