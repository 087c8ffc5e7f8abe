"""Appends batches to topics with schema validation, if all their schemas are known.

A schema is known while the node remembers that the registry has accepted or refused it.
"""

from collections.abc import Callable
from uuid import UUID

from log_service.broker.schema_validation.topic_decisions import TopicDecisions
from log_service.common.errors import KafkaError
from log_service.common.steps import finish
from log_service.records.rules import UnknownSchemasError
from log_service.records.validator import Allowance, NoRoomError, TurnRoom
from log_service.replication.partition import Batch, Partition
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.append_result import AppendResult


class CheckedAppends:
    """A layer above the replica manager that checks the schemas of batches before it appends them.

    ``schemas_of`` returns what is known of a topic's schemas, or None if the topic is not
    validated.
    """

    def __init__(
        self, replicas: ReplicaManager, schemas_of: Callable[[Partition], TopicDecisions | None]
    ) -> None:
        self._replicas = replicas
        self._schemas_of = schemas_of

    def find(self, topic: str, topic_id: UUID, index: int) -> Partition:
        """Return a partition. Raises as ``ReplicaManager.find``."""
        return self._replicas.find(topic, topic_id, index)

    def append(
        self, partition: Partition, records: Batch, *, acks: int, now_ms: int, room: TurnRoom | None
    ) -> AppendResult:
        """Append a batch. Raises as ``ReplicaManager.append``.

        Raises:
            NoRoomError: also raised if a schema is unknown. The registry is then asked when the
                request is the first in the queue of its connection.
        """
        if isinstance(records, memoryview):
            schemas = self._schemas_of(partition)
            if schemas is not None:
                try:
                    steps = partition.check_in_steps(records, now_ms, room or Allowance(), schemas)
                    records = finish(steps)
                except UnknownSchemasError as error:
                    raise NoRoomError from error
                except KafkaError as error:
                    records = error
        return self._replicas.append(partition, records, acks=acks, now_ms=now_ms, room=room)
