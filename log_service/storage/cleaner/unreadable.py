"""Batches of a log that compaction skips because their records cannot be read.

A warning is logged once for each such batch. The batch was written before leaders checked records,
or by another broker. Its checksum is valid, so every replica has the same bytes and none can repair
it.

Invariant: at most ``MAX_NAMED_BATCHES`` batches are remembered. Further batches are skipped without
a log line.
"""

import logging
from dataclasses import dataclass, field

from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.records.batch import BatchHeader

logger = logging.getLogger(__name__)
MAX_NAMED_BATCHES = 4_096


@dataclass(slots=True, kw_only=True)
class UnreadableBatches:
    """The batches of one log for which a warning was logged, by base offset."""

    topic_partition: TopicPartition
    _logged: set[int] = field(default_factory=set)

    def log_skipped(self, header: BatchHeader, error: KafkaError) -> None:
        """Log that a batch is skipped, unless this was logged before."""
        if header.base_offset in self._logged or len(self._logged) == MAX_NAMED_BATCHES:
            return
        self._logged.add(header.base_offset)
        logger.warning(
            "%s: compaction keeps the batch at offsets %d to %d as it is, because its records"
            " cannot be read: %s",
            self.topic_partition,
            header.base_offset,
            header.last_offset,
            error,
        )
