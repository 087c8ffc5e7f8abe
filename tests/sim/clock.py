"""Virtual time: trio's clock, which the simulation replaces, read as milliseconds."""

import trio

EPOCH_MS = 1_700_000_000_000


class VirtualClock:
    """Both clocks follow ``trio.current_time``; a node's wall clock may be off by ``skew_ms``, which may change."""

    def __init__(self, *, epoch_ms: int = EPOCH_MS, skew_ms: int = 0) -> None:
        self._epoch_ms = epoch_ms
        self.skew_ms = skew_ms

    def wall_ms(self) -> int:
        return self._epoch_ms + self.skew_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(trio.current_time() * 1000)

    def monotonic_ns(self) -> int:
        return round(trio.current_time() * 1_000_000_000)
