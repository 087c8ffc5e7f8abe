"""Records that a face of the share consumer got and has not handed to the application, and those that a loop went past.

The consumer counts both as in hand. Before it is asked for anything that would accept or release them, it hears what they are in truth:
what a loop went past is accepted where that is implied, what the application never saw is put back.

Invariant: a record is handed to the application before it is accepted.
"""

from collections import deque

from log_service.client.share.consumer import ShareConsumer
from log_service.client.share.records import ShareRecord


class HeldShareRecords(deque[ShareRecord]):
    """The records that come next. A deque: ``extend`` holds what a poll returned, ``popleft`` hands out one."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: list[ShareRecord] = []
        self._last: ShareRecord | None = None

    def next_of_loop(self) -> ShareRecord:
        """Hand the next record to a loop; it is passed when the loop asks for another."""
        self._last = self.popleft()
        return self._last

    def note_passed(self) -> None:
        """The loop asks for another record: it is done with the last one."""
        if self._last is not None:
            self._passed.append(self._last)
            self._last = None

    def take_all(self) -> list[ShareRecord]:
        """Return what is held, and hold nothing."""
        taken = list(self)
        self.clear()
        return taken

    def take_outcome(self) -> "HeldOutcome":
        """Return what the consumer has to hear before it goes on, and hold nothing."""
        passed, self._passed = self._passed, []
        return HeldOutcome(passed, self.take_all())


class HeldOutcome:
    """What became of records in a face, told to the consumer in its own thread."""

    def __init__(self, passed: list[ShareRecord], unseen: list[ShareRecord]) -> None:
        self._passed = passed
        self._unseen = unseen

    def tell(self, consumer: ShareConsumer) -> None:
        """Tell it."""
        consumer.accept_implied(self._passed)
        consumer.put_back(self._unseen)


async def nothing() -> None:
    """Call nothing behind what the consumer is told. There is no checkpoint, so that it is told though the call is cancelled."""
