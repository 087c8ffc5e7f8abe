"""The audit log's topic: each decision is a record without a key, with a JSON object as value.

Decides which decisions are written, and to which partition. If this node leads a partition of the
topic, it appends there directly. Otherwise it sends a request to the leader of a partition. Allowed
operations on the topic itself and between nodes (CLUSTER_ACTION) are left out, because each such
record would cause the next one, without end.

Decisions that cannot be written after ``ATTEMPTS`` are dropped and counted.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from log_service.broker.leader_produce import produce_to_leader
from log_service.broker.peers import destination_of
from log_service.common.access import AclOperation, AclResource
from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.metadata.image import MetadataImage, TopicImage
from log_service.records.builder import BatchBuilder
from log_service.records.validator import accept_own_batches
from log_service.replication.replica_manager import ReplicaManager
from log_service.security.audit import AuditEntry

if TYPE_CHECKING:
    from log_service.rpc.pool import ConnectionPool

ATTEMPTS: Final = 5
FIRST_RETRY_MS: Final = 100
"""The pause before the second attempt. It doubles."""
MAX_BATCH_BYTES: Final = 512 << 10
PURPOSE: Final = "audit log"

logger = logging.getLogger(__name__)


def is_for_topic(entry: AuditEntry, topic: str) -> bool:
    """Return whether a decision is written into the topic."""
    if not entry.decision.is_allowed:
        return True
    is_about_topic = entry.resource is AclResource.TOPIC and entry.name == topic
    return not is_about_topic and entry.operation is not AclOperation.CLUSTER_ACTION


class AuditTopic:
    """Writes decisions into a topic.

    ``create_topic`` creates topics by their names, and returns the error code of each.
    """

    def __init__(
        self,
        topic: str,
        *,
        node_id: int,
        clock: Clock,
        image: Callable[[], MetadataImage],
        listener_name: str,
        pool: "Callable[[], ConnectionPool]",
        replicas: ReplicaManager,
        create_topic: Callable[[list[str]], Awaitable[dict[str, ErrorCode]]],
    ) -> None:
        self._topic = topic
        self._node_id = node_id
        self._image = image
        self._listener_name = listener_name
        self._pool = pool
        self._replicas = replicas
        self._create_topic = create_topic
        self._quiet = QuietLogger(logger, clock.monotonic_ms)

    def __repr__(self) -> str:
        return f"<AuditTopic {self._topic}>"

    async def write(self, entries: Sequence[AuditEntry]) -> bool:
        """Write decisions. Return whether the topic has stored all of them."""
        try:
            for batch in self._batches(entries):
                await self._write_batch(batch)
        except KafkaError as error:
            text = "up to %d decisions are missing in the topic %s of the audit log: %s"
            self._quiet.warning(error.code, text, len(entries), self._topic, error)
            return False
        return True

    def _batches(self, entries: Sequence[AuditEntry]) -> Sequence[bytearray]:
        builders: list[BatchBuilder] = []
        for entry in entries:
            if not builders or builders[-1].estimated_size_bytes > MAX_BATCH_BYTES:
                builders.append(BatchBuilder())
            builders[-1].append(entry.wall_ms, None, entry.to_json(self._node_id))
        return [builder.build() for builder in builders]

    async def _write_batch(self, batch: bytearray) -> None:
        pause_ms = FIRST_RETRY_MS
        for attempt in range(ATTEMPTS):
            try:
                await self._write_once(batch)
            except KafkaError:
                if attempt == ATTEMPTS - 1:
                    raise
                await trio.sleep(pause_ms / 1_000)
                pause_ms *= 2
            else:
                return

    async def _write_once(self, batch: bytearray) -> None:
        topic = self._image().topics.by_name.get(self._topic)
        if topic is None:
            refused = await self._create_topic([self._topic])
            code = refused.get(self._topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic = self._image().topics.by_name.get(self._topic)
            if topic is None:
                raise KafkaError(
                    code, f"topic {self._topic} cannot be created, or is not known here yet"
                )
        led = sorted(
            index
            for index, partition in topic.partitions.items()
            if partition.leader == self._node_id
        )
        if led:
            self._replicas.append_own(
                self._replicas.get_partition(self._topic, led[0]), accept_own_batches(batch)
            )
        else:
            await self._send(topic, batch)

    async def _send(self, topic: TopicImage, batch: bytearray) -> None:
        """Send a batch to the first partition whose leader can be reached."""
        image = self._image()
        for index, partition in sorted(topic.partitions.items()):
            destination = destination_of(image, partition.leader, self._listener_name, PURPOSE)
            if destination is None:
                continue
            await produce_to_leader(self._pool(), destination, self._topic, index, batch)
            return
        raise KafkaError(
            ErrorCode.LEADER_NOT_AVAILABLE,
            f"no partition of {self._topic} has a leader that can be reached",
        )
