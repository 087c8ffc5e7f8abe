"""The real clock: the only module in which the log service reads the system's time.

Wall time may jump, because an operator or a time service sets the clock. Monotonic time never goes
back, so deadlines use it.
"""

import time


class SystemClock:
    """The operating system's two clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed point. They never decrease."""
        return time.monotonic_ns() // 1_000_000

    # The builtin itself, because a Python call around it would cost time twice per request.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def __repr__(self) -> str:
        return "<SystemClock>"
