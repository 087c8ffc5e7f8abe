"""How soon the event loop's thread runs once bytes have woken it: on Linux it asks for short time slices.

Decides the length, and for which kernels there is something to ask. A woken thread that shares its processor with a busy one waits for the
end of that one's slice, which a kernel notices at its ticks: up to 4 ms, a hundred times what a small request takes. From Linux 6.12 on a
thread that wants to run often and briefly may say so (``sched_runtime`` of SCHED_OTHER) and then runs at once. It gets no more of the
processor than before, and its priority stays what it was.

Invariant: threads that are started later (the pool's, which compute) keep the system's own slices.
"""

import ctypes
import os
import platform
import struct
import sys

SLICE_NS = 100_000
"""The kernel's least."""

RESET_ON_FORK = 1
THIS_THREAD = 0
SYSTEM_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of sched_setattr and sched_getattr, which C libraries do not know by name."""

_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, deadline, period


def shorten_time_slices() -> bool:
    """Ask for short slices for the calling thread; say whether the system took the wish. Older kernels do, and change nothing."""
    calls = SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None or os.sched_getscheduler(THIS_THREAD) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, THIS_THREAD)
    wanted = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, RESET_ON_FORK, nice, 0, SLICE_NS, 0, 0)
    return bool(ctypes.CDLL(None).syscall(calls[0], THIS_THREAD, wanted, 0) == 0)


def time_slice_ns() -> int | None:
    """Return the slices of the calling thread, None where the system does not tell them."""
    calls = SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        return None
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if ctypes.CDLL(None).syscall(calls[1], THIS_THREAD, found, _ATTRIBUTES.size, 0) != 0:
        return None
    runtime_ns: int = _ATTRIBUTES.unpack(found.raw)[5]
    return runtime_ns or None
