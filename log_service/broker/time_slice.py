"""Short time slices for the event loop's thread on Linux, so that it runs soon after it is woken.

Decides the length of a slice, and which kernels can be asked for it. A woken thread may share its
processor with a busy thread. It then waits for the end of the busy thread's slice. A kernel notices
that end only at its next tick. This takes up to 4 ms, a hundred times the time of a small request.
From Linux 6.12 on, a thread that wants to run often and briefly can request this (``sched_runtime``
of SCHED_OTHER) and then runs at once. Its share of the processor and its priority do not change.

Invariant: threads that are started later (those of the pool, which compute) keep the system's own
slices.
"""

import ctypes
import os
import platform
import struct
import sys

SLICE_NS = 100_000
"""The requested time slice, which is the kernel's minimum."""

RESET_ON_FORK = 1
THIS_THREAD = 0
SYSTEM_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Numbers of sched_setattr and sched_getattr, for which C libraries have no functions."""

# Fields of struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")


def shorten_time_slices() -> bool:
    """Request short time slices for the calling thread. Return whether the system accepted that.

    Older kernels accept it and change nothing.
    """
    calls = SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if (
        calls is None
        or os.sched_getscheduler(THIS_THREAD) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER
    ):
        return False
    nice = os.getpriority(os.PRIO_PROCESS, THIS_THREAD)
    wanted = _ATTRIBUTES.pack(
        _ATTRIBUTES.size, os.SCHED_OTHER, RESET_ON_FORK, nice, 0, SLICE_NS, 0, 0
    )
    return bool(ctypes.CDLL(None).syscall(calls[0], THIS_THREAD, wanted, 0) == 0)


def time_slice_ns() -> int | None:
    """Return the time slice of the calling thread, or None if the system does not report it."""
    calls = SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        return None
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if ctypes.CDLL(None).syscall(calls[1], THIS_THREAD, found, _ATTRIBUTES.size, 0) != 0:
        return None
    runtime_ns: int = _ATTRIBUTES.unpack(found.raw)[5]
    return runtime_ns or None
