"""Holds polled records that a blocking or asyncio share consumer has not returned yet.

The module also remembers *passed* records: a loop got them, and then asked for the next record. For
the trio consumer inside, all of these records are in hand. So it must be told the outcome before it
accepts or releases records. With implicit acknowledgement, passed records are accepted. Records
that the application has not seen are put back, so that the next poll returns them.

Invariant: a record is accepted only after the application has received it.
"""

from collections import deque

from log_service.client.share.consumer import ShareConsumer
from log_service.client.share.records import ShareRecord


class HeldShareRecords(deque[ShareRecord]):
    """A deque of the records to return next, which also collects the passed records."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: list[ShareRecord] = []
        self._last: ShareRecord | None = None

    def next_of_loop(self) -> ShareRecord:
        """Return the next record to a loop. It is passed when ``note_passed`` is called."""
        self._last = self.popleft()
        return self._last

    def note_passed(self) -> None:
        """Note that the loop has asked for another record, so that the last one is passed."""
        if self._last is not None:
            self._passed.append(self._last)
            self._last = None

    def take_all(self) -> list[ShareRecord]:
        """Remove and return all held records."""
        taken = list(self)
        self.clear()
        return taken

    def take_outcome(self) -> "HeldOutcome":
        """Remove the passed and the held records, and return them for the consumer."""
        passed, self._passed = self._passed, []
        return HeldOutcome(passed, self.take_all())


class HeldOutcome:
    """Passed and unseen records, to be reported to the consumer in its own thread."""

    def __init__(self, passed: list[ShareRecord], unseen: list[ShareRecord]) -> None:
        self._passed = passed
        self._unseen = unseen

    def settle_passed(self, consumer: ShareConsumer) -> None:
        """Accept the passed records with implicit acknowledgement, and put back the unseen ones."""
        consumer.accept_implied(self._passed)
        consumer.put_back(self._unseen)


async def nothing() -> None:
    """Do nothing, for callers that only report an outcome to the consumer.

    This has no checkpoint, so the outcome is reported even if the call is cancelled.
    """
