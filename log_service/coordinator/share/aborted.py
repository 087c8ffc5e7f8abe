"""Find the fetched batches that belong to aborted transactions.

A share group that reads only committed records does not get these batches. This file uses the
aborted transactions that the log names and the markers among the batches. It knows neither groups
nor logs.
"""

from collections.abc import Iterable
from heapq import heapify, heappop

from log_service.records.batch import BatchHeader


def aborted_ranges(
    batches: Iterable[BatchHeader], aborted: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the first and last offsets (inclusive) of aborted batches.

    ``aborted`` holds the first offset and the producer id of each aborted transaction.
    """
    starting = list(aborted)
    heapify(starting)
    open_ids: set[int] = set()
    ranges = []
    for batch in batches:
        if not batch.has_producer_id:
            continue
        while starting and starting[0][0] <= batch.last_offset:
            open_ids.add(heappop(starting)[1])
        if batch.is_control:
            open_ids.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_ids:
            ranges.append((batch.base_offset, batch.last_offset))
    return ranges
