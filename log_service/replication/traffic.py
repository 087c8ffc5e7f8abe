"""Sums of records, bytes and requests of partitions since the node started.

Each partition has its own counters. The replica manager adds the counts of partitions that left
this node to a sum, so that the sums of the node never decrease.
"""

from dataclasses import dataclass, replace
from typing import Self

from log_service.replication.partition import Partition


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Sums over partitions: records, bytes, and requests that named these partitions."""

    record_count: int = 0
    appended_bytes: int = 0
    sent_bytes: int = 0
    append_count: int = 0
    failed_append_count: int = 0
    read_count: int = 0
    failed_read_count: int = 0
    share_fetch_count: int = 0
    failed_share_fetch_count: int = 0
    share_acknowledge_count: int = 0
    failed_share_acknowledge_count: int = 0

    def add(self, partition: Partition) -> None:
        """Add one partition's counts."""
        self.record_count += partition.appended_record_count
        self.appended_bytes += partition.appended_bytes
        self.sent_bytes += partition.sent_bytes
        self.append_count += partition.append_count
        self.failed_append_count += partition.failed_append_count
        self.read_count += partition.read_count
        self.failed_read_count += partition.failed_read_count
        self.share_fetch_count += partition.share_fetch_count
        self.failed_share_fetch_count += partition.failed_share_fetch_count
        self.share_acknowledge_count += partition.share_acknowledge_count
        self.failed_share_acknowledge_count += partition.failed_share_acknowledge_count

    def copy(self) -> Self:
        """Return a copy of the sums, to which counts may be added."""
        return replace(self)
