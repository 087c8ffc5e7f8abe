"""Acknowledgements that are to be sent to the leader from which the offsets were acquired.

``Acknowledgement`` holds the acknowledgements of one call for one partition. It is settled when the
leader has accepted or refused it, or when it can no longer be sent. ``merged`` combines several of
them into the batches of a request. A ``Ticket`` tells when all acknowledgements of a call are
settled.

Invariant: each ``Acknowledgement`` is settled exactly once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from log_service.client.share.records import GAP, AcknowledgeType
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition

AcknowledgeCallback = Callable[[TopicPartition, Sequence[int], KafkaError | None], None]
"""Called with the acknowledged offsets of one partition, and the error if they were refused.

It must not block.
"""


class Batch(NamedTuple):
    """A range of offsets. ``types`` has one acknowledgement type for all of them, or one each."""

    first_offset: int
    last_offset: int
    types: list[int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Acknowledgement:
    """Acknowledgements of offsets in one partition: ``types`` maps offsets to types.

    At ``deadline_ms`` the locks of the records expire. After that the acknowledgements are not
    retried.
    """

    topic_partition: TopicPartition
    types: Mapping[int, int]
    deadline_ms: float
    on_settled: Callable[["Acknowledgement", KafkaError | None], None]

    @property
    def is_renewing(self) -> bool:
        """Whether one of the acknowledgements renews a lock.

        Then it may be sent only in a request with the renewal flag.
        """
        return AcknowledgeType.RENEW in self.types.values()

    @property
    def offsets(self) -> list[int]:
        """The offsets that have a record, sorted. Acknowledged gaps are left out."""
        return sorted(offset for offset, kind in self.types.items() if kind != GAP)


class Ticket:
    """Calls ``on_settled`` when all acknowledgements of one call are settled.

    ``errors`` has the first error of each partition whose acknowledgements were refused.
    """

    def __init__(self, on_settled: Callable[[], None]) -> None:
        self._on_settled = on_settled
        self.open_count = 0
        self.errors: dict[TopicPartition, KafkaError] = {}
        self.partitions: set[TopicPartition] = set()

    def add(self, topic_partition: TopicPartition) -> None:
        """Count one more ``Acknowledgement`` to be settled."""
        self.open_count += 1
        self.partitions.add(topic_partition)

    def settle(self, topic_partition: TopicPartition, error: KafkaError | None) -> None:
        """Note that one ``Acknowledgement`` is settled, with an error if it was refused."""
        self.open_count -= 1
        if error is not None:
            self.errors.setdefault(topic_partition, error)
        if not self.open_count:
            self._on_settled()


def merged(acknowledgements: Iterable[Acknowledgement]) -> dict[TopicPartition, list[Batch]]:
    """Combine acknowledgements into the batches of a request, by partition and sorted by offset.

    If an offset is acknowledged twice, the later acknowledgement counts.
    """
    types: dict[TopicPartition, dict[int, int]] = {}
    for acknowledgement in acknowledgements:
        types.setdefault(acknowledgement.topic_partition, {}).update(acknowledgement.types)
    return {where: batches_of(of_place) for where, of_place in types.items()}


def batches_of(types: Mapping[int, int]) -> list[Batch]:
    """Return one batch for each run of consecutive offsets. ``types`` maps offsets to types."""
    batches = []
    # offset - index is the same within a run of neighbours
    for _, run in groupby(enumerate(sorted(types)), key=lambda pair: pair[1] - pair[0]):
        offsets = [offset for _, offset in run]
        found = [types[offset] for offset in offsets]
        batches.append(Batch(offsets[0], offsets[-1], found[:1] if len(set(found)) == 1 else found))
    return batches
