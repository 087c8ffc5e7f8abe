"""A coordinator's access to a partition of its topic: it writes keys and values, and reads batches.

Decides how a coordinator's records become one batch. The coordinator decides their meaning. Other
listeners of the partition, and consumers of the internal topic, are notified of an append at once.
The coordinator's own callback is called only when the high watermark moves later. It is never
called inside its own ``append``, because the coordinator must first apply the records to its state.
"""

from collections.abc import Callable, Iterator, Sequence

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.builder import BatchBuilder
from log_service.records.compression import Codec
from log_service.records.control import EndOfTransaction
from log_service.records.validator import accept_own_batches
from log_service.replication.listeners import Registration
from log_service.replication.partition import Partition
from log_service.replication.replica_manager import ReplicaManager
from log_service.state_machine.decision import InTransaction
from log_service.storage.append_result import AppendResult


class PartitionWriter:
    """A ``CoordinatorLog`` over one partition that this node leads in ``leader_epoch``.

    ``close`` it when leadership is lost.
    """

    def __init__(
        self, replicas: ReplicaManager, partition: Partition, codec: Codec = Codec.NONE
    ) -> None:
        self._replicas = replicas
        self._codec = codec
        self._partition = partition
        self._registrations: list[Registration[Callable[[Partition], None]]] = []
        self._is_appending = False
        self.leader_epoch: int = partition.leader_epoch

    def __repr__(self) -> str:
        return f"<PartitionWriter {self._partition.topic_partition} epoch={self.leader_epoch}>"

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._partition.topic_partition.partition

    @property
    def high_watermark(self) -> int:
        """The high watermark. It is 0 once this node leads in a later epoch or not at all."""
        state = self._partition.state
        return (
            state.high_watermark
            if state.leader_epoch == self.leader_epoch and state.is_leader
            else 0
        )

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        wall_ms: int,
        transaction: InTransaction | None = None,
    ) -> int:
        """Append keys and values as one batch and return the log end offset.

        The batch is part of ``transaction``, if one is given.

        Raises:
            KafkaError: nothing was appended; NOT_ENOUGH_REPLICAS, fewer replicas are in sync than
                the topic requires; NOT_LEADER_OR_FOLLOWER, this node leads in a later epoch by now,
                and the coordinator of that epoch must load the partition first.
        """
        builder = BatchBuilder(self._codec)
        for key, value in records:
            builder.append(wall_ms, key, value)
        if transaction is None:
            batches = accept_own_batches(builder.build())
            return self._end_after(lambda: self._replicas.append_own(self._partition, batches))
        producer_id, producer_epoch, shown = transaction
        built = builder.build(
            producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True
        )
        return self._end_after(
            lambda: self._replicas.append_own(self._partition, accept_own_batches(built), shown)
        )

    def append_marker(self, marker: EndOfTransaction) -> int:
        """Append the end of a producer's transaction and return the log end offset.

        Raises as ``append``, and as ``Log.append_marker``.
        """
        return self._end_after(lambda: self._replicas.append_marker(self._partition, marker))

    def delete_records(self, end_offset: int) -> None:
        """Delete the records before an offset.

        Raises as ``Partition.delete_records``, and NOT_LEADER_OR_FOLLOWER in a later leader epoch.
        """
        self._check_epoch()
        self._partition.delete_records(end_offset)

    def _check_epoch(self) -> None:
        if self._partition.leader_epoch != self.leader_epoch:
            text = (
                f"{self._partition.topic_partition} is in leader epoch"
                f" {self._partition.leader_epoch}, not {self.leader_epoch} any more"
            )
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)

    def _end_after(self, append: Callable[[], AppendResult]) -> int:
        self._check_epoch()
        self._is_appending = True
        try:
            return append().last_offset + 1
        finally:
            self._is_appending = False

    def watch_high_watermark(self, callback: Callable[[int], None]) -> None:
        """Call ``callback`` with the high watermark whenever it has moved, until ``close``.

        It is not called inside this writer's own ``append``.
        """

        def on_high_watermark(_partition: Partition) -> None:
            if not self._is_appending:
                callback(self.high_watermark)

        self._registrations.append(self._partition.high_watermark_listeners.add(on_high_watermark))

    def read_batches(self) -> Iterator[bytes]:
        """Iterate over the partition's batches in bounded chunks. Call it in the pool."""
        return self._partition.read_batches()

    def close(self) -> None:
        """Stop all callbacks."""
        while self._registrations:
            self._registrations.pop().cancel()
