"""Counts the records that each client id appended to each topic, to show who writes to a topic.

Kafka's protocol reports the ids of producers but not the names of their clients. Invariants: at
most ``MAX_PAIRS`` pairs are counted. A further one takes the place of the pair that was counted
first.
"""

from collections.abc import Iterator

MAX_PAIRS = 1_000
MAX_CLIENT_ID_CHARACTERS = 250
"""A longer client id is counted by its beginning."""


class ProducedCounts:
    """The counts of one node since its start."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[str | None, str], int] = {}

    def __repr__(self) -> str:
        return f"<ProducedCounts pairs={len(self._counts)}>"

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Yield client id, topic and records. A client without an id has an empty one."""
        for (client_id, topic), count in self._counts.items():
            yield client_id or "", topic, count

    def add(self, client_id: str | None, topic: str, record_count: int) -> None:
        """Count records that a client appended."""
        try:
            self._counts[client_id, topic] += record_count
        except KeyError:
            self._add_pair(
                (client_id or "")[:MAX_CLIENT_ID_CHARACTERS] or None, topic, record_count
            )

    def _add_pair(self, client_id: str | None, topic: str, record_count: int) -> None:
        pair = client_id, topic
        count = self._counts.get(pair, 0)
        if not count and len(self._counts) >= MAX_PAIRS:
            del self._counts[next(iter(self._counts))]
        self._counts[pair] = count + record_count
