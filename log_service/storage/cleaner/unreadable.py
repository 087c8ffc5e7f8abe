"""The batches of a log that compaction passes over because their records cannot be read.

Decides when the log says so: once for each batch, in a warning. Such a batch is from the time before
leaders checked records, or from another broker's files. Its checksum holds, so that every replica
has the same bytes and none could mend it.

Invariant: what is remembered is bounded by ``MAX_TOLD_BATCHES``. Further batches are passed over in silence.
"""

import logging
from dataclasses import dataclass, field

from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.records.batch import BatchHeader

logger = logging.getLogger(__name__)
MAX_TOLD_BATCHES = 4_096


@dataclass(slots=True, kw_only=True)
class UnreadableBatches:
    """Those of one log that were told of, by base offset."""

    topic_partition: TopicPartition
    _told: set[int] = field(default_factory=set)

    def tell(self, header: BatchHeader, error: KafkaError) -> None:
        """Say that a batch is passed over, unless that was said."""
        if header.base_offset in self._told or len(self._told) == MAX_TOLD_BATCHES:
            return
        self._told.add(header.base_offset)
        logger.warning(
            "%s: compaction keeps the batch at offsets %d to %d as it is, because its records cannot be read: %s",
            self.topic_partition,
            header.base_offset,
            header.last_offset,
            error,
        )
