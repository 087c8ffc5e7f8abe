"""Filters batches of aborted transactions out of one partition (KIP-98).

The decision depends on the aborted transactions in fetch responses and on the markers in the log.
This module knows neither network nor positions. A reader that continues at another offset begins
with a new filter.
"""

from log_service.protocol.messages.fetch import AbortedTransaction


class AbortedFilter:
    """Finds the batches of one partition that belong to aborted transactions.

    ``add`` must get the aborted transactions of each fetch response. ``is_visible`` must be called
    for the batches in the order of their offsets.
    """

    def __init__(self) -> None:
        self._starts: list[tuple[int, int]] = []
        self._aborted: set[int] = set()

    def add(self, transactions: list[AbortedTransaction] | None) -> None:
        """Add the aborted transactions of one response. Some may repeat the previous response."""
        known = set(self._starts)
        fresh = {(each.first_offset, each.producer_id) for each in transactions or ()}
        self._starts = sorted(known | fresh)

    def is_visible(
        self, last_offset: int, producer_id: int, *, is_transactional: bool, is_control: bool
    ) -> bool:
        """Return whether a reader of committed records sees the batch.

        Markers and batches of aborted transactions are not visible.
        """
        while self._starts and self._starts[0][0] <= last_offset:
            self._aborted.add(self._starts.pop(0)[1])
        if is_control:
            self._aborted.discard(producer_id)
            return False
        return not (is_transactional and producer_id in self._aborted)
