"""Syncs of partitions whose records are synced before acknowledgement, at most one per partition.

This file decides when a partition is synced. A sync begins when an append requests it, and is
repeated while later appends are due. One sync covers all appends before it. A failed sync is final.
From then on the log directory is offline, and waiting requests are notified.
"""

import logging
from collections.abc import Callable

import trio

from log_service.common.env import Clock
from log_service.common.errors import TidelogError
from log_service.metrics.latency import LatencyMeter
from log_service.replication.partition import Partition

logger = logging.getLogger(__name__)


class PartitionSyncs:
    """The syncs of one node. Each runs as a task of ``nursery``.

    ``announce`` is called with a partition after its sync.
    """

    def __init__(
        self, clock: Clock, nursery: trio.Nursery, announce: Callable[[Partition], None]
    ) -> None:
        self._clock = clock
        self._nursery = nursery
        self._announce = announce
        self._syncing: set[Partition] = set()
        self._ends = trio.lowlevel.ParkingLot()
        self.times = LatencyMeter(clock.monotonic_ms())

    def __repr__(self) -> str:
        return f"<PartitionSyncs {len(self._syncing)}>"

    def request(self, partition: Partition) -> None:
        """Request a sync of a partition. One sync serves many requests for the same partition."""
        if partition not in self._syncing:
            self._syncing.add(partition)
            self._nursery.start_soon(self._sync, partition)

    async def settle_end(self, partition: Partition) -> None:
        """Wait until the high watermark reaches the start of the leader epoch.

        Return earlier if no sync of the partition is running any more.
        """
        while partition in self._syncing and not partition.is_end_known:
            await self._ends.park()

    async def _sync(self, partition: Partition) -> None:
        try:
            while partition.is_sync_due:
                await self._sync_once(partition)
            if partition.note_synced():  # another task synced the log before this task began
                self._announce(partition)
        except TidelogError as error:
            logger.error("%s could not be synced: %s", partition.topic_partition, error)
            self._announce(partition)
        finally:
            self._syncing.discard(partition)
            self._ends.unpark_all()

    async def _sync_once(self, partition: Partition) -> None:
        started_ns, log = self._clock.monotonic_ns(), partition.log
        try:
            is_moved = await partition.sync()
        except TidelogError:
            if partition.log is log and (log is None or log.home.is_offline or not log.is_closed):
                raise
            # the partition was deleted, or moved to another log directory: the log there is synced
            # next
            return
        self.times.note(self._clock.monotonic_ns() - started_ns)
        if is_moved:
            self._announce(partition)
