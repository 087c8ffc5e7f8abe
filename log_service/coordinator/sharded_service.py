"""What the services of coordinators have in common: shards, which they lead and resign, and the partition to which a name belongs.

Knows neither the APIs nor what a shard decides.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import trio

from log_service.coordinator.java_hashing import hashed_partition
from log_service.coordinator.shards import CoordinatorLog, Shard, Shards

R = TypeVar("R")
S = TypeVar("S", bound=Shard[Any])


class ShardedService(Generic[S, R]):
    """Serves what the shards of this node decide.

    ``partition_count`` says how many partitions the coordinator's topic has, 0 while there is none: it will have
    ``configured_partition_count``. Another node may have created it with another count than this one's configuration names.
    """

    def __init__(self, shards: Shards[S, R], partition_count: Callable[[], int], configured_partition_count: int) -> None:
        self._shards = shards
        self._partition_count = partition_count
        self._configured_partition_count = configured_partition_count

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the tasks that load shards; runs until cancelled."""
        await self._shards.run(task_status=task_status)

    def lead(self, coordinator_log: CoordinatorLog) -> None:
        """Serve a partition of the coordinator's topic once it is loaded."""
        self._shards.lead(coordinator_log)

    def resign(self, partition: int) -> None:
        """Stop serving a partition."""
        self._shards.resign(partition)

    def _partition_of(self, name: str) -> int:
        """Return the partition to which a name belongs: Java's string hash, made positive, over the partition count."""
        return hashed_partition(name, self._partition_count() or self._configured_partition_count)
