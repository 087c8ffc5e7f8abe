"""Base class of coordinator services. It loads and drops shards, and maps names to partitions.

It knows neither the APIs nor the decisions of a shard.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import trio

from log_service.common.java_hashing import hashed_partition
from log_service.coordinator.shards import CoordinatorLog, Shard, Shards

R = TypeVar("R")
S = TypeVar("S", bound=Shard[Any])


class ShardedService(Generic[S, R]):
    """A service over the shards of this node.

    ``partition_count`` returns how many partitions the coordinator's topic has, or 0 before the
    topic exists. ``configured_partition_count`` is used before the topic exists. The two counts may
    differ, because another node may have created the topic with another configuration.
    """

    def __init__(
        self,
        shards: Shards[S, R],
        partition_count: Callable[[], int],
        configured_partition_count: int,
    ) -> None:
        self.shards = shards
        self._partition_count = partition_count
        self._configured_partition_count = configured_partition_count

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that load shards, until they are cancelled."""
        await self.shards.run(task_status=task_status)

    def lead(self, coordinator_log: CoordinatorLog) -> None:
        """Load a partition of the coordinator's topic, then serve it."""
        self.shards.lead(coordinator_log)

    def resign(self, partition: int) -> None:
        """Stop serving a partition."""
        self.shards.resign(partition)

    def _partition_of(self, name: str) -> int:
        """Return the partition of the coordinator's topic that a name belongs to.

        This is the absolute Java hash of the name modulo the partition count.
        """
        return hashed_partition(name, self._partition_count() or self._configured_partition_count)
