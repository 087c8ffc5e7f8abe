"""Reports the log directory of each replica of this broker to the controller (KIP-858).

The controller assigns the directory of a new replica only if the broker has a single one. Otherwise
the directory is unassigned and the broker chooses it. After a replica has moved, its directory also
differs from the one that the controller knows. Without a report, the controller moves no leadership
off a directory that fails. This module decides the content and the time of reports. Waiting reports
go out together, one request at a time. Reports that the controller refused are sent again after a
pause.

Invariant: a report names the directory at the time of sending. It is not sent if the metadata has
that directory by then.
"""

import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.channel import ControllerChannel
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.replication.partition import Partition
from log_service.replication.replica_listener import ReplicaListener
from log_service.rpc.retry import Backoff
from log_service.storage.log_manager import LogManager

if TYPE_CHECKING:
    from log_service.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

logger = logging.getLogger(__name__)

MAX_REPLICAS_PER_REQUEST = 2_250
BACKOFF = Backoff(first_ms=100, max_ms=10_000)
"""The pauses after failed reports. They and the bound of a request are those of Apache Kafka."""

ReplicaId = tuple[UUID, int]
"""(topic id, partition index) of a replica of this broker."""


class DirectoryReports(ReplicaListener):
    """Reports the log directories of one broker's replicas to the controller.

    ``find`` returns a partition that is on this node. ``nursery`` holds the task that sends the
    reports.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        logs: LogManager,
        find: Callable[[ReplicaId], Partition | None],
        image: Callable[[], MetadataImage],
        controller: ControllerChannel,
        broker_epoch: Callable[[], BrokerEpoch],
        nursery: trio.Nursery,
        rng: Random,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._find = find
        self._image = image
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._nursery = nursery
        self._rng = rng
        self._waiting: dict[ReplicaId, None] = {}
        self._is_sending = False

    def __repr__(self) -> str:
        return (
            "<DirectoryReports"
            f" waiting={len(self._waiting)}{' sending' if self._is_sending else ''}>"
        )

    # News

    def on_opened(self, partition: Partition) -> None:
        """Report the directory of a new or moved partition if the metadata has another one."""
        if self._news_of(partition) is not None:
            self._look_at((_id_of(partition),))

    on_moved = on_opened

    def on_image(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        """Report the directories of replicas that the controller has changed, if they differ."""
        for changed in delta.changed_topics.values():
            self._look_at((changed.topic.topic_id, index) for index in changed.changed_partitions)

    def _look_at(self, replicas: Iterable[ReplicaId]) -> None:
        for replica in replicas:
            if self._news_about(replica) is not None:
                self._waiting[replica] = None
        if self._waiting and not self._is_sending:
            self._is_sending = True
            self._nursery.start_soon(self._send_all)

    def _news_about(self, replica: ReplicaId) -> UUID | None:
        partition = self._find(replica)
        return None if partition is None else self._news_of(partition)

    def _news_of(self, partition: Partition) -> UUID | None:
        """Return the directory of a replica if it must be reported, or else None.

        It need not be reported if the metadata has that directory, or if the replica has no log or
        no registration.
        """
        log, topic = partition.log, self._image().topics.by_id.get(partition.topic_id)
        registration = (
            None if topic is None else topic.partitions.get(partition.topic_partition.partition)
        )
        if registration is None or log is None:
            return None
        known = registration.directory_of(self._node_id)
        directory_id = self._logs.directory_ids.get(log.home.path)
        return None if known is None or known == directory_id else directory_id

    # Sending

    async def _send_all(self) -> None:
        failed_count = 0
        try:
            while self._waiting:
                if await self._send_some():
                    failed_count = 0
                else:
                    await trio.sleep(BACKOFF.delay_ms(failed_count, self._rng) / 1_000)
                    failed_count += 1
        finally:
            self._is_sending = False

    async def _send_some(self) -> bool:
        """Send the waiting reports. Return whether the controller accepted all of them."""
        from log_service.protocol.messages.assign_replicas_to_dirs import (  # noqa: PLC0415 - few nodes need it
            AssignReplicasToDirsResponse,
        )

        sent = self._take_waiting()
        if not sent:
            return True
        try:
            response = await self._controller.request(
                self._message(sent), AssignReplicasToDirsResponse
            )
        except KafkaError as error:
            logger.warning(
                "The controller did not take note of the log directories of %d replicas: %s",
                len(sent),
                error,
            )
            self._waiting = {**dict.fromkeys(sent), **self._waiting}
            return False
        codes = {
            (topic.topic_id, partition.partition_index): ErrorCode.of(partition.error_code)
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
        }
        refused = {
            replica: codes.get(replica, ErrorCode.UNKNOWN_SERVER_ERROR)
            for replica in sent
            if codes.get(replica) is not ErrorCode.NONE
        }
        if refused:
            (topic_id, index), code = next(iter(refused.items()))
            text = (
                "The controller did not take note of the log directories of %d replicas, such as"
                " partition %d of topic %s: %s"
            )
            logger.warning(text, len(refused), index, topic_id, code.name)
            self._waiting = {**dict.fromkeys(refused), **self._waiting}
        return not refused

    def _take_waiting(self) -> dict[ReplicaId, UUID]:
        sent: dict[ReplicaId, UUID] = {}
        while self._waiting and len(sent) < MAX_REPLICAS_PER_REQUEST:
            replica = next(iter(self._waiting))
            del self._waiting[replica]
            directory_id = self._news_about(replica)
            if directory_id is not None:
                sent[replica] = directory_id
        return sent

    def _message(self, sent: dict[ReplicaId, UUID]) -> "AssignReplicasToDirsRequest":
        from log_service.protocol.messages import (  # noqa: PLC0415 - as above
            assign_replicas_to_dirs as messages,
        )

        directories: dict[UUID, dict[UUID, list[int]]] = {}
        for (topic_id, index), directory_id in sent.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return messages.AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                messages.RequestDirectoryData(
                    id=directory_id,
                    topics=[
                        messages.RequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                messages.RequestPartitionData(partition_index=index)
                                for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in directories.items()
            ],
        )


def _id_of(partition: Partition) -> ReplicaId:
    return partition.topic_id, partition.topic_partition.partition
