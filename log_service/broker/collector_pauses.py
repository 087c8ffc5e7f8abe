"""Short pauses of Python's garbage collector, however many objects a node holds.

A full collection looks at each object that is not frozen, and holds up the event loop meanwhile: a
fifth of a second for 50,000 partitions. So Python never starts a full collection here. This
module decides when one is made, and when objects are frozen instead.

A frozen object is still freed with its last reference. Only reference cycles among frozen objects
are never freed. So this relies on requests, connections and topics that leave no cycles
(``test_garbage``). It uses no ``gc.callbacks``, because with them Python 3.11 may switch threads
amid a call that counts as one step.
"""

import gc
import time
from collections.abc import Callable

import trio

LOOK_SECONDS = 1.0
FULL = 2
"""The generation of a full collection. It is also the index of its count and its threshold."""
YOUNG, MIDDLE, NEVER = 700, 10, 1_000_000_000
"""Thresholds of the collector: Python 3.11's, and no full collection by itself."""
FEW, MANY = 2, 4
"""Numbers of middle collections since the last full one. Each leaves 7,700 objects at most.

After a few a full collection is worth its pause. After many it would take too long.
"""
LONG_SECONDS = 0.005
"""A full collection that takes more CPU time freezes all live objects, so the next is shorter."""


class CollectorPauses:
    """Decides about the full collections of a process.

    Tests pass their own functions in place of those of ``gc`` and ``time``.
    """

    def __init__(
        self,
        *,
        middle_count: Callable[[], int] = lambda: gc.get_count()[FULL],
        collect: Callable[[], object] = gc.collect,
        freeze: Callable[[], None] = gc.freeze,
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        self._middle_count = middle_count
        self._collect = collect
        self._freeze = freeze
        self._cpu_seconds = cpu_seconds

    def look(self) -> None:
        """Collect or freeze the objects that came since the last call, if there are many.

        Up to a limit they are collected. All live objects are frozen if there are more, or if the
        collection took long.
        """
        count = self._middle_count()
        if count < FEW:
            return
        if count < MANY:
            began = self._cpu_seconds()
            self._collect()
            if self._cpu_seconds() - began <= LONG_SECONDS:
                return
        self._freeze()


async def keep_collections_short(
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Freeze all objects, turn collections on, and keep each of them short until cancelled.

    No full collection comes first, because a start leaves nearly no garbage. With 10,000 partitions
    it would hold up the first requests for a tenth of a second.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    gc.enable()
    task_status.started()
    pauses = CollectorPauses()
    try:
        while True:
            await trio.sleep(LOOK_SECONDS)
            pauses.look()
    finally:
        gc.set_threshold(*thresholds)
