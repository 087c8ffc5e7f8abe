"""A heap of deadlines: delayed fetches, sessions, rebalances, retention and others.

It reads no clock. Its owner calls ``fire_due`` with the time. Cancelling is O(1) and leaves a dead
entry in the heap. The entry is removed when it becomes the first one, or when dead entries
outnumber live ones. So a heap of long timers that are always cancelled stays small.
"""

import heapq
from collections.abc import Callable
from itertools import count

Callback = Callable[[], None]


def _do_nothing() -> None:
    """Placeholder callback of a timer that has fired or was cancelled.

    Dropping the real callback breaks a reference cycle.
    """


class Timer:
    """A scheduled callback. ``cancel`` may be called at any time, any number of times."""

    __slots__ = ("_queue", "callback", "deadline_ms")

    def __init__(self, queue: "TimerQueue", deadline_ms: int, callback: Callback) -> None:
        self._queue: TimerQueue | None = queue
        self.deadline_ms = deadline_ms
        self.callback: Callback = callback

    @property
    def is_pending(self) -> bool:
        """Whether the timer has neither fired nor was cancelled."""
        return self._queue is not None

    def cancel(self) -> None:
        """Prevent the timer from firing. A timer that has fired already is unchanged."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self.callback = _do_nothing
            queue.forget_one()

    def take(self) -> Callback:
        """Mark the timer as fired, and return its callback."""
        callback, self._queue, self.callback = self.callback, None, _do_nothing
        return callback


class TimerQueue:
    """Deadlines in monotonic milliseconds, earliest first.

    Equal deadlines fire in the order they were scheduled.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._dead_count = 0
        self.on_earlier: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._heap) - self._dead_count

    @property
    def held_count(self) -> int:
        """The number of entries in the heap, some of which may be cancelled."""
        return len(self._heap)

    def schedule(self, deadline_ms: int, callback: Callback) -> Timer:
        """Call ``callback`` once ``deadline_ms`` has come, and return its timer.

        If this is now the next deadline, ``on_earlier`` is called.
        """
        timer = Timer(self, deadline_ms, callback)
        is_earlier = not self._heap or deadline_ms < self._heap[0][0]
        heapq.heappush(self._heap, (deadline_ms, next(self._order), timer))
        if is_earlier:
            self.on_earlier()
        return timer

    def next_deadline_ms(self) -> int | None:
        """Return when the next timer that is not cancelled is due, or None."""
        while self._heap and not self._heap[0][2].is_pending:
            heapq.heappop(self._heap)
            self._dead_count -= 1
        return self._heap[0][0] if self._heap else None

    def fire_due(self, now_ms: int) -> int:
        """Call all callbacks that are due at ``now_ms``, and return their number.

        Callbacks may schedule and cancel timers. An error of a callback is raised here. Its timer
        has fired, and later ones have not.
        """
        fired_count = 0
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            heapq.heappop(self._heap)[2].take()()
            fired_count += 1
        return fired_count

    def forget_one(self) -> None:
        """Count a cancelled entry, and rebuild the heap when most entries are cancelled."""
        self._dead_count += 1
        if self._dead_count > 64 and self._dead_count * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].is_pending]
            heapq.heapify(self._heap)
            self._dead_count = 0
