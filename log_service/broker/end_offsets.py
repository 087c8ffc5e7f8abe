"""End offsets of partitions on any leader, for the lag of groups.

Decides which leaders to ask: this broker itself, and the others with one request each. The end
offset of a partition is its high watermark.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import trio

from log_service.broker.peers import destination_of
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId, TopicPartition
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from log_service.replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from log_service.rpc.connection import Destination
    from log_service.rpc.pool import ConnectionPool

LATEST = -1
NOT_A_REPLICA = -1
PURPOSE = "end offsets"

EndOffset = int | ErrorCode


class EndOffsets:
    """Asks leaders for the end offsets of partitions."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        listener_name: str,
        replicas: ReplicaManager,
        image: Callable[[], MetadataImage],
        pool: "Callable[[], ConnectionPool]",
    ) -> None:
        self._node_id = node_id
        self._listener_name = listener_name
        self._replicas = replicas
        self._image = image
        self._pool = pool

    def __repr__(self) -> str:
        return f"<EndOffsets of={self._node_id}>"

    async def of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, EndOffset]:
        """Return the end offset or the error of each partition."""
        results: dict[TopicPartition, EndOffset] = {}
        remote: dict[Destination, list[TopicPartition]] = {}
        for where in partitions:
            leader = self._leader(where)
            if leader == self._node_id:
                results[where] = self._own(where)
                continue
            destination = destination_of(self._image(), leader, self._listener_name, PURPOSE)
            if destination is None:
                results[where] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                remote.setdefault(destination, []).append(where)
        async with trio.open_nursery() as nursery:
            for destination, wanted in remote.items():
                nursery.start_soon(self._ask, destination, wanted, results)
        return results

    def _leader(self, where: TopicPartition) -> int:
        registration = self._image().topics.partition(where.topic, where.partition)
        return -1 if registration is None else registration.leader

    def _own(self, where: TopicPartition) -> EndOffset:
        try:
            partition = self._replicas.get_partition(*where)
        except KafkaError as error:
            return error.code
        return partition.high_watermark if partition.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def _ask(
        self,
        destination: "Destination",
        wanted: Collection[TopicPartition],
        results: dict[TopicPartition, EndOffset],
    ) -> None:
        try:
            response = await self._pool().request(
                destination, _request(wanted), ListOffsetsResponse
            )
        except KafkaError as error:
            results.update(dict.fromkeys(wanted, error.code))
            return
        found = {
            TopicPartition(topic.name, part.partition_index): part
            for topic in response.topics
            for part in topic.partitions
        }
        for where in wanted:
            part = found.get(where)
            if part is None:
                results[where] = ErrorCode.UNKNOWN_SERVER_ERROR
            else:
                results[where] = ErrorCode.of(part.error_code) if part.error_code else part.offset


def _request(wanted: Iterable[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for where in wanted:
        asked = topics.setdefault(where.topic, ListOffsetsTopic(name=where.topic))
        asked.partitions.append(
            ListOffsetsPartition(partition_index=where.partition, timestamp=LATEST)
        )
    return ListOffsetsRequest(replica_id=NOT_A_REPLICA, topics=list(topics.values()))
