"""Hold polled records that a blocking or asyncio share consumer has not handed out yet.

It also remembers the records that a loop went past. The inner consumer counts both as in hand.
Before it accepts or releases records, it is told the truth. Records that a loop went past are
accepted under implicit acknowledgement. Records that the application never saw are put back.

Invariant: a record is handed to the application before it is accepted.
"""

from collections import deque

from log_service.client.share.consumer import ShareConsumer
from log_service.client.share.records import ShareRecord


class HeldShareRecords(deque[ShareRecord]):
    """The next records, as a deque. ``extend`` adds polled records, ``popleft`` hands out one."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: list[ShareRecord] = []
        self._last: ShareRecord | None = None

    def next_of_loop(self) -> ShareRecord:
        """Hand the next record to a loop. It is passed when the loop asks for another."""
        self._last = self.popleft()
        return self._last

    def note_passed(self) -> None:
        """Note that the loop is done with the last record, because it asks for another."""
        if self._last is not None:
            self._passed.append(self._last)
            self._last = None

    def take_all(self) -> list[ShareRecord]:
        """Remove and return all held records."""
        taken = list(self)
        self.clear()
        return taken

    def take_outcome(self) -> "HeldOutcome":
        """Remove and return the outcome that the consumer must be told before it goes on."""
        passed, self._passed = self._passed, []
        return HeldOutcome(passed, self.take_all())


class HeldOutcome:
    """Passed and unseen records, to be told to the consumer in its own thread."""

    def __init__(self, passed: list[ShareRecord], unseen: list[ShareRecord]) -> None:
        self._passed = passed
        self._unseen = unseen

    def tell(self, consumer: ShareConsumer) -> None:
        """Accept the passed records if that is implied, and put the unseen ones back."""
        consumer.accept_implied(self._passed)
        consumer.put_back(self._unseen)


async def nothing() -> None:
    """Do nothing. Callers use it if the consumer must only be told an outcome.

    There is no checkpoint, so that the outcome is told even if the call is cancelled.
    """
