"""Tells the controller in which log directory a replica is, after the replica has moved there (KIP-858).

Decides nothing. A report that the controller does not take is logged, and not sent again.
"""

import logging

import trio

from log_service.broker.lifecycle import BrokerLifecycle
from log_service.common.errors import KafkaError
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaListener
from log_service.storage.log_manager import LogManager

logger = logging.getLogger(__name__)


class DirectoryReports(ReplicaListener):
    """The reports of one broker; each is a task of ``nursery``."""

    def __init__(self, logs: LogManager, lifecycle: BrokerLifecycle, nursery: trio.Nursery) -> None:
        self._logs = logs
        self._lifecycle = lifecycle
        self._nursery = nursery

    def on_moved(self, partition: Partition) -> None:
        """Report where the partition's log is now."""
        self._nursery.start_soon(self._report, partition)

    async def _report(self, partition: Partition) -> None:
        directory_id = None if partition.log is None else self._logs.directory_ids.get(partition.log.home.path)
        if directory_id is None:
            return
        try:
            await self._lifecycle.assign_replica(partition.topic_id, partition.topic_partition.partition, directory_id)
        except KafkaError as error:
            logger.warning("The controller did not take note of where %s is: %s", partition.topic_partition, error)
