"""Consumer and admin for programs without an event loop: the same methods without ``await``, usable from any thread.

Decides nothing: each method is one call through a ``Portal`` into a thread that runs trio. (``blocking_producer`` has the producer, whose
records take a shorter way.)
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from log_service.client.admin.admin import Admin
from log_service.client.blocking.portal import Blocking, blocking, blocking_sync
from log_service.client.consumer.consumer import Consumer
from log_service.client.consumer.range_reader import DEFAULT_MAX_BYTES, RawBatches, read_range
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.types import TopicPartition


class BlockingAdmin(Blocking[Admin]):
    """``Admin`` for threads."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(Admin(bootstrap_servers, **settings))

    create_topics = blocking(Admin.create_topics)
    delete_topics = blocking(Admin.delete_topics)
    create_partitions = blocking(Admin.create_partitions)
    list_topics = blocking(Admin.list_topics)
    describe_topics = blocking(Admin.describe_topics)
    describe_cluster = blocking(Admin.describe_cluster)
    describe_configs = blocking(Admin.describe_configs)
    alter_configs = blocking(Admin.alter_configs)
    apply_compaction = blocking(Admin.apply_compaction)
    apply_retention = blocking(Admin.apply_retention)
    list_config_resources = blocking(Admin.list_config_resources)
    describe_log_dirs = blocking(Admin.describe_log_dirs)
    alter_replica_log_dirs = blocking(Admin.alter_replica_log_dirs)
    elect_leaders = blocking(Admin.elect_leaders)
    alter_partition_reassignments = blocking(Admin.alter_partition_reassignments)
    list_partition_reassignments = blocking(Admin.list_partition_reassignments)
    describe_producers = blocking(Admin.describe_producers)
    describe_metadata_quorum = blocking(Admin.describe_metadata_quorum)
    describe_features = blocking(Admin.describe_features)
    describe_api_versions = blocking(Admin.describe_api_versions)
    update_features = blocking(Admin.update_features)
    unregister_broker = blocking(Admin.unregister_broker)
    add_raft_voter = blocking(Admin.add_raft_voter)
    remove_raft_voter = blocking(Admin.remove_raft_voter)
    list_offsets = blocking(Admin.list_offsets)
    describe_offsets = blocking(Admin.describe_offsets)
    wait_for_records = blocking(Admin.wait_for_records)
    offsets_for_leader_epoch = blocking(Admin.offsets_for_leader_epoch)
    delete_records = blocking(Admin.delete_records)
    list_groups = blocking(Admin.list_groups)
    describe_groups = blocking(Admin.describe_groups)
    delete_groups = blocking(Admin.delete_groups)
    list_group_offsets = blocking(Admin.list_group_offsets)
    alter_group_offsets = blocking(Admin.alter_group_offsets)
    delete_group_offsets = blocking(Admin.delete_group_offsets)

    def read_range(
        self,
        topic_partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation_level: str = "read_committed",
        max_bytes: int = DEFAULT_MAX_BYTES,
        check_crcs: bool = True,
        timeout_ms: int | None = None,
    ) -> Iterator[RawBatches]:
        """Yield the batches of [start, end); see ``range_reader.read_range``."""
        source = read_range(
            self._client,
            topic_partition,
            start,
            end,
            isolation_level=isolation_level,
            max_bytes=max_bytes,
            check_crcs=check_crcs,
            timeout_ms=timeout_ms,
        )
        return self._portal.iterate(source)


class BlockingConsumer(Blocking[Consumer]):
    """``Consumer`` for threads. Rebalance callbacks are called in the consumer's own thread, while ``poll`` waits."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **settings: Any) -> None:
        super().__init__(Consumer(bootstrap_servers, **settings))
        self._is_woken = False

    subscribe = blocking(Consumer.subscribe)
    unsubscribe = blocking(Consumer.unsubscribe)
    poll = blocking(Consumer.poll)
    position = blocking(Consumer.position)
    seek = blocking(Consumer.seek)
    seek_to_beginning = blocking(Consumer.seek_to_beginning)
    seek_to_end = blocking(Consumer.seek_to_end)
    seek_to_time = blocking(Consumer.seek_to_time)
    current_lag = blocking(Consumer.current_lag)
    beginning_offsets = blocking(Consumer.beginning_offsets)
    end_offsets = blocking(Consumer.end_offsets)
    offsets_for_times = blocking(Consumer.offsets_for_times)
    partitions_for = blocking(Consumer.partitions_for)
    commit = blocking(Consumer.commit)
    committed = blocking(Consumer.committed)
    assign = blocking_sync(Consumer.assign)
    enforce_rebalance = blocking_sync(Consumer.enforce_rebalance)
    pause = blocking_sync(Consumer.pause)
    resume = blocking_sync(Consumer.resume)
    lag = blocking_sync(Consumer.lag)
    commit_soon = blocking_sync(Consumer.commit_soon)
    metrics = blocking_sync(Consumer.metrics)

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return self._portal.call_sync(lambda: self._client.assignment)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._client.subscription

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._portal.call_sync(lambda: self._client.paused)

    def wakeup(self) -> None:
        """End the poll that waits, or else the next one, at once; a loop over the consumer ends. For any thread and signal handlers."""
        self._is_woken = True
        self._portal.submit(self._client.wakeup)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield one record after the other, until ``wakeup``.

        Leaving the loop moves positions back to the first record that was not yielded.
        """
        waiting: deque[ConsumerRecord] = deque()
        self._is_woken = False
        try:
            while not self._is_woken:
                waiting.extend(self.poll())
                while waiting:
                    yield waiting.popleft()
        finally:
            self._go_back(waiting)

    def _go_back(self, waiting: Iterable[ConsumerRecord]) -> None:
        firsts: dict[TopicPartition, int] = {}
        for record in waiting:
            firsts.setdefault(record.topic_partition, record.offset)
        for topic_partition, offset in firsts.items():
            if self.is_open:
                self.seek(topic_partition, offset)
