"""Moves of this node's replicas between its log directories: begins and cancels them.

This file decides the effect of a request to move a replica. If the replica is already in the
directory, nothing happens. Otherwise a move begins, and a move to another directory is cancelled
first. Each move is a separate task. ``storage.future_logs`` copies the log. This file does not know
requests of clients.

Invariants:

- A partition has at most one move.
- A move that fails or is cancelled leaves the partition unchanged.
- The log is replaced and assigned to the partition in the same turn of the event loop.
"""

import logging
from collections.abc import Callable

import trio

from log_service.common.errors import ErrorCode, KafkaError, TidelogError
from log_service.common.types import TopicPartition
from log_service.replication.partition import Partition
from log_service.storage.future_logs import FutureLogs
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)


class ReplicaMoves:
    """The moves of one node's replicas between its log directories.

    ``on_moved`` is called with a partition when it uses the log in the new directory.
    """

    def __init__(self, futures: FutureLogs, on_moved: Callable[[Partition], None]) -> None:
        self._futures = futures
        self._on_moved = on_moved
        self._targets: dict[TopicPartition, tuple[LogDirectory, trio.CancelScope]] = {}

    def __repr__(self) -> str:
        return f"<ReplicaMoves {len(self._targets)}>"

    @property
    def scopes(self) -> dict[TopicPartition, trio.CancelScope]:
        """The scopes that cancel the moves in progress."""
        return {key: scope for key, (_, scope) in self._targets.items()}

    def request(self, partition: Partition, target: LogDirectory, nursery: trio.Nursery) -> None:
        """Move a partition's replica to ``target``, and cancel a move to another directory.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the partition's current directory is offline.
        """
        log = partition.log
        if log is None or log.home.is_offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the log directory of {partition.topic_partition} is offline",
            )
        present = self._targets.get(partition.topic_partition)
        if present is not None and present[0] is target:
            return
        self.cancel(partition.topic_partition)
        if log.home is not target:
            scope = trio.CancelScope()
            self._targets[partition.topic_partition] = (target, scope)
            nursery.start_soon(self._move, partition, log, target, scope)

    def resume(self, partition: Partition, nursery: trio.Nursery) -> None:
        """Begin a move again if the last stop of the node interrupted it."""
        target = self._futures.take_unfinished(partition.topic_partition)
        if target is not None and not target.is_offline and not partition.is_offline:
            self.request(partition, target, nursery)

    def cancel(self, topic_partition: TopicPartition) -> None:
        """Cancel a partition's move, if there is one."""
        self._futures.take_unfinished(topic_partition)
        target = self._targets.pop(topic_partition, None)
        if target is not None:
            target[1].cancel()

    async def _move(
        self, partition: Partition, log: Log, target: LogDirectory, scope: trio.CancelScope
    ) -> None:
        def on_replaced(replacement: Log) -> None:
            partition.use_log(replacement)
            self._forget(partition.topic_partition, scope)
            self._on_moved(partition)

        with scope:
            try:
                await self._futures.move(log, target, on_replaced)
            except TidelogError as error:
                if not log.is_closed:
                    logger.error(
                        "%s could not be moved to %s: %s",
                        partition.topic_partition,
                        target.path,
                        error,
                    )
            finally:
                self._forget(partition.topic_partition, scope)

    def _forget(self, topic_partition: TopicPartition, scope: trio.CancelScope) -> None:
        present = self._targets.get(topic_partition)
        if present is not None and present[1] is scope:
            del self._targets[topic_partition]
