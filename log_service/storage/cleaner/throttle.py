"""Pauses of the cleaner between slices, for ``log.cleaner.io.max.bytes.per.second``.

One throttle serves all passes of a node.
"""

import math

import trio

from log_service.common.env import Clock


class Throttle:
    """Limits the number of bytes per second. A rate of ``inf`` never waits."""

    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._free_ms = 0.0

    async def wait(self, size_bytes: int) -> None:
        """Count ``size_bytes`` of a slice that was read, and wait until the next slice may begin.

        The written bytes are not counted, although a slice may write about as much as it reads.
        """
        if math.isinf(self.bytes_per_second):
            await trio.lowlevel.checkpoint()
            return
        now_ms = self._clock.monotonic_ms()
        self._free_ms = max(self._free_ms, now_ms) + 1000 * size_bytes / self.bytes_per_second
        await trio.sleep((self._free_ms - now_ms) / 1000)
