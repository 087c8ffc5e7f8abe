"""Holds polled records that a blocking or asyncio share consumer has not returned yet.

The module also remembers the records that a loop has passed. The inner consumer counts both kinds
as in hand. Before it accepts or releases records, it learns their outcomes from here. With implicit
acknowledgement, records that a loop has passed are accepted. Records that the application never saw
are put back.

Invariant: a record is accepted only after the application has received it.
"""

from collections import deque

from log_service.client.share.consumer import ShareConsumer
from log_service.client.share.records import ShareRecord


class HeldShareRecords(deque[ShareRecord]):
    """The next records, as a deque. ``extend`` adds polled records, ``popleft`` returns one."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: list[ShareRecord] = []
        self._last: ShareRecord | None = None

    def next_of_loop(self) -> ShareRecord:
        """Return the next record to a loop. It counts as passed when the loop asks for another."""
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
        """Remove and return the outcomes that the consumer needs before it continues."""
        passed, self._passed = self._passed, []
        return HeldOutcome(passed, self.take_all())


class HeldOutcome:
    """Passed and unseen records, which the consumer learns in its own thread."""

    def __init__(self, passed: list[ShareRecord], unseen: list[ShareRecord]) -> None:
        self._passed = passed
        self._unseen = unseen

    def settle_passed(self, consumer: ShareConsumer) -> None:
        """Accept the passed records if acknowledgement is implicit, and put the unseen back."""
        consumer.accept_implied(self._passed)
        consumer.put_back(self._unseen)


async def nothing() -> None:
    """Do nothing. Callers use this to report only an outcome to the consumer.

    It has no checkpoint, so the outcome is reported even if the call is cancelled.
    """
