"""Which batches of one partition a reader of committed records may see (KIP-98).

Decides from the aborted transactions that fetch responses name and from the markers in the log. Knows neither network nor positions: a
reader that goes on at another offset begins with a new filter.
"""

from log_service.protocol.messages.fetch import AbortedTransaction


class AbortedFilter:
    """Which batches of one partition belong to aborted transactions; fed with what responses tell, asked in the order of offsets."""

    def __init__(self) -> None:
        self._starts: list[tuple[int, int]] = []
        self._aborted: set[int] = set()

    def add(self, transactions: list[AbortedTransaction] | None) -> None:
        """Take the aborted transactions of one response; some may be repeated from the response before."""
        known = set(self._starts)
        fresh = {(each.first_offset, each.producer_id) for each in transactions or ()}
        self._starts = sorted(known | fresh)

    def is_visible(self, last_offset: int, producer_id: int, *, is_transactional: bool, is_control: bool) -> bool:
        """Whether a reader of committed records sees the batch: not a marker, not of a transaction that was aborted."""
        while self._starts and self._starts[0][0] <= last_offset:
            self._aborted.add(self._starts.pop(0)[1])
        if is_control:
            self._aborted.discard(producer_id)
            return False
        return not (is_transactional and producer_id in self._aborted)
