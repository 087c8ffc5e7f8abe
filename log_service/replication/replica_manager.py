"""All partitions of a node: created and deleted as the image of the metadata says, appended to, and announced when they move.

Decides which logs exist here and what an image means for each of them. Knows neither requests nor clients: whoever waits for a partition
waits in one of the two purgatories here, or as a watcher on the partition.

Invariants: a log is never used under another topic id than the image's; everyone who waits for a partition is told after a whole request
was appended, not after each of its parts; at most one sync per partition is under way, and it serves all appends before it.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from uuid import UUID

import trio

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError, TidelogError
from log_service.common.timers import TimerQueue
from log_service.common.types import NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from log_service.config.topic import log_config
from log_service.config.views import LogConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage, ResourceType, TopicImage
from log_service.metadata.partition import PartitionRegistration
from log_service.metrics.latency import LatencyMeter
from log_service.records.validator import ValidatedBatches
from log_service.replication.moves import ReplicaMoves
from log_service.replication.partition import Partition
from log_service.replication.purgatory import Purgatory
from log_service.replication.traffic import Traffic
from log_service.storage.log import AppendResult, Log
from log_service.storage.log_directory import is_full_disk
from log_service.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

ACKS_ALL = -1
OPENED_AT_ONCE = 64
"""How many new partitions one image opens before it lets others go on; the rest follows in turns, or when somebody asks for it."""
DELETED_AT_ONCE = 64
"""How many logs of deleted topics are renamed away before others get their turn."""


class ReplicaManager:
    """The partitions of this node by name and by topic id.

    ``nursery`` holds what is done beside the requests: syncs, moves, what is left of an image. It must be open as long as anybody appends
    or hands out images, also once it is cancelled: those that come last are not safe, and no error.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        clock: Clock,
        timers: TimerQueue,
        logs: LogManager,
        default_log_config_of: Callable[[MetadataImage], LogConfig],
        checkpoint_interval_ms: int,
        nursery: trio.Nursery,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._logs = logs
        self._default_log_config_of = default_log_config_of
        self._default_log_config = default_log_config_of(EMPTY_IMAGE)
        self._checkpoint_interval_ms = checkpoint_interval_ms
        self._checkpointed: dict[TopicPartition, int] = dict(logs.high_watermarks)
        self._syncing: set[Partition] = set()
        self._sync_ends = trio.lowlevel.ParkingLot()
        self._unopened: dict[tuple[str, int], None] = {}
        self._refused: dict[tuple[str, int], None] = {}
        self._doomed: dict[TopicPartition, None] = {}
        self._nursery = nursery
        self._image = EMPTY_IMAGE
        self.sync_times = LatencyMeter(clock.monotonic_ms())
        self.retired_traffic = Traffic()
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.partitions_by_id: dict[tuple[UUID, int], Partition] = {}
        self.delayed_fetches: Purgatory[TopicPartition] = Purgatory(timers)
        self.delayed_produces: Purgatory[TopicPartition] = Purgatory(timers)
        logs.high_watermark_of = self._high_watermark_of
        self.moves = ReplicaMoves(logs.futures, self._moved)
        self.on_moved: Callable[[Partition], None] = lambda _partition: None
        self.on_led: Callable[[Partition], None] = lambda _partition: None
        self.on_lost: Callable[[Partition], None] = lambda _partition: None

    def __repr__(self) -> str:
        return f"<ReplicaManager node={self._node_id} partitions={len(self.partitions)} syncing={len(self._syncing)}>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Now and then write the high watermarks down, and begin what a full disk refused. Runs until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(self._checkpoint_interval_ms / 1000)
            await self.checkpoint_high_watermarks()
            await self._open_refused()

    # Finding

    def find(self, topic: str, topic_id: UUID, index: int) -> Partition:
        """Return a partition by its topic's name, or, where the name is empty, by its topic's id.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID (an id was given), NOT_LEADER_OR_FOLLOWER (it exists, on other nodes).
        """
        partition = self.partitions.get((topic, index)) if topic else self.partitions_by_id.get((topic_id, index))
        return self._find_unopened(topic, TopicId(topic_id), index) if partition is None else partition

    def get_partition(self, topic: str, index: int) -> Partition:
        """Return a partition by its topic's name; raises as ``find``."""
        partition = self.partitions.get((topic, index))
        return self._find_unopened(topic, NO_TOPIC_ID, index) if partition is None else partition

    def _find_unopened(self, topic: str, topic_id: TopicId, index: int) -> Partition:
        topics = self._image.topics
        known = topics.by_name.get(topic) if topic else topics.by_id.get(topic_id)
        if known is not None and (known.name, index) in self._unopened:
            self._open_one(known.name, index)
            return self.partitions[known.name, index]
        raise self._not_here(topic, topic_id, index, known)

    def _not_here(self, topic: str, topic_id: TopicId, index: int, known: TopicImage | None) -> KafkaError:
        if known is None and not topic and topic_id != NO_TOPIC_ID:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {topic_id}")
        if known is None or index not in known.partitions:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic or topic_id}-{index}")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{known.name}-{index} is not on node {self._node_id}")

    # Appending

    def append(self, partition: Partition, records: bytearray | memoryview, *, acks: int, now_ms: int) -> AppendResult:
        """Append a producer's batch at ``now_ms`` (wall); ``announce`` the partition when all of the request is appended.

        Raises:
            KafkaError: see ``Partition.append_as_leader``.
        """
        result = partition.append_as_leader(records, now_ms, needs_all=acks == ACKS_ALL)
        if result.must_sync:
            self.request_sync(partition)
        return result

    def append_own(self, partition: Partition, validated: ValidatedBatches) -> AppendResult:
        """Append batches that this node built; raises as ``Partition.append_own``."""
        result = partition.append_own(validated, self._clock.wall_ms())
        if result.must_sync:
            self.request_sync(partition)
        return result

    def announce(self, partitions: Iterable[Partition]) -> None:
        """Tell everyone who waits for these partitions to look again."""
        for partition in partitions:
            for watcher in partition.watchers:
                watcher(partition.high_watermark)
            self.announce_to_requests(partition)

    def announce_to_requests(self, partition: Partition) -> None:
        """Tell the requests that wait for a partition, but not its watchers."""
        self.delayed_produces.check(partition.topic_partition)
        self.delayed_fetches.check(partition.topic_partition)

    def request_sync(self, partition: Partition) -> None:
        """Have a partition synced soon; many requests for the same one are served by one sync."""
        if partition not in self._syncing:
            self._syncing.add(partition)
            self._nursery.start_soon(self._sync, partition)

    async def _sync(self, partition: Partition) -> None:
        try:
            while partition.is_sync_due:
                started_ns, log = self._clock.monotonic_ns(), partition.log
                try:
                    is_moved = await partition.sync()
                except TidelogError:
                    if partition.log is log:
                        raise
                    continue  # it moved to another log directory meanwhile
                self.sync_times.note(self._clock.monotonic_ns() - started_ns)
                if is_moved:
                    self.announce((partition,))
        except TidelogError as error:
            logger.error("%s could not be synced: %s", partition.topic_partition, error)
            self.announce((partition,))
        finally:
            self._syncing.discard(partition)
            self._sync_ends.unpark_all()

    async def settle_end(self, partition: Partition) -> None:
        """Wait until the end of a partition is known, or no sync that is under way can tell it."""
        while partition in self._syncing and not partition.is_end_known:
            await self._sync_ends.park()

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks down, if any moved since the last time."""
        current = {
            partition.topic_partition: partition.high_watermark for partition in self.partitions.values() if not partition.is_offline
        }
        if current == self._checkpointed:
            return
        try:
            await self._logs.save_high_watermarks(current)
        except TidelogError as error:
            logger.error("The high watermarks could not be written: %s", error)
        else:
            self._checkpointed = current

    def _high_watermark_of(self, log: Log) -> int:
        """How far retention may delete."""
        topic, index = log.topic_partition
        partition = self.partitions.get((topic, index))
        return log.log_start_offset if partition is None else partition.high_watermark

    # What an image means

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Create, delete, lead, follow and reconfigure as ``image`` says where ``delta`` changed it."""
        self._image = image
        is_default_changed = any(resource_type == ResourceType.BROKER for resource_type, _ in delta.changed_configs)
        if is_default_changed:
            self._default_log_config = self._default_log_config_of(image)
        for topic in delta.deleted_topics.values():
            self._delete_topic(topic)
        limit = len(self.partitions) + OPENED_AT_ONCE
        for changed in delta.changed_topics.values():
            for index, registration in sorted(changed.changed_partitions.items()):
                self._apply_or_leave(changed.topic, index, registration, limit)
        if self._unopened:
            self._nursery.start_soon(self._open_rest)
        names = {name for resource_type, name in delta.changed_configs if resource_type == ResourceType.TOPIC}
        for name in sorted(image.topics.by_name if is_default_changed else names & image.topics.by_name.keys()):
            self._reconfigure(image.topics.by_name[name])

    def _apply_or_leave(self, topic: TopicImage, index: int, registration: PartitionRegistration, limit: int) -> None:
        if (topic.name, index) in self.partitions or len(self.partitions) < limit:
            self._unopened.pop((topic.name, index), None)
            self._apply(topic, index, registration)
        else:
            self._unopened[topic.name, index] = None

    async def _open_rest(self) -> None:
        """Open what an image left, a few at a time."""
        while self._unopened:
            for name, index in tuple(islice(self._unopened, OPENED_AT_ONCE)):
                self._open_one(name, index)
            await trio.lowlevel.checkpoint()

    def _open_one(self, name: str, index: int) -> None:
        """Open a partition that was left, as the newest image says."""
        del self._unopened[name, index]
        topic = self._image.topics.by_name[name]
        self._apply(topic, index, topic.partitions[index])

    async def _open_refused(self) -> None:
        """Open the partitions whose logs a full disk did not take, until it refuses one again."""
        while self._refused:
            name, index = next(iter(self._refused))
            self._forget(self.partitions[name, index])
            self._unopened[name, index] = None
            self._open_one(name, index)
            if (name, index) in self._refused:
                return
            await trio.lowlevel.checkpoint()

    def _delete_topic(self, topic: TopicImage) -> None:
        """Serve the topic's partitions no more; their logs follow, some in each turn of the event loop."""
        is_idle = not self._doomed
        for index in sorted(topic.partitions):
            self._unopened.pop((topic.name, index), None)
            partition = self.partitions.get((topic.name, index))
            if partition is not None and partition.topic_id == topic.topic_id:
                self._forget(partition)
                self._doomed[partition.topic_partition] = None
                self.announce((partition,))
        if is_idle and self._doomed:
            self._delete_some()
            self._nursery.start_soon(self._delete_rest)

    async def _delete_rest(self) -> None:
        while self._doomed:
            await trio.lowlevel.checkpoint()
            self._delete_some()

    def _delete_some(self, limit: int | None = DELETED_AT_ONCE) -> None:
        for topic_partition in tuple(islice(self._doomed, limit)):
            self._delete_log(topic_partition)

    def finish_deletions(self) -> None:
        """Rename what is left of deleted topics away, before the logs are closed: the next start would take them for strays."""
        self._delete_some(None)

    def _delete_log(self, topic_partition: TopicPartition) -> None:
        del self._doomed[topic_partition]
        try:
            self._logs.delete_log(topic_partition)
        except TidelogError as error:
            logger.error("The log of %s could not be deleted: %s", topic_partition, error)

    def _forget(self, partition: Partition) -> None:
        if partition.is_leader:
            self.on_lost(partition)
        self.moves.cancel(partition.topic_partition)
        partition.become_follower(-1, partition.leader_epoch, ())
        self.retired_traffic.add(partition)
        name, index = partition.topic_partition
        self._refused.pop((name, index), None)
        del self.partitions[(name, index)]
        del self.partitions_by_id[(partition.topic_id, index)]

    def _apply(self, topic: TopicImage, index: int, registration: PartitionRegistration) -> None:
        partition = self.partitions.get((topic.name, index))
        if self._node_id not in registration.replicas:
            if partition is not None:
                self._forget(partition)
                self.announce((partition,))
            return
        if partition is None:
            partition = self._open(topic, index)
        self._lead_or_follow(partition, registration)

    def _open(self, topic: TopicImage, index: int) -> Partition:
        topic_partition = TopicPartition(topic.name, index)
        if topic_partition in self._doomed:
            self._delete_log(topic_partition)
        try:
            is_new = topic.partitions[index].leader_epoch == 0  # every start of its leader raises it
            log = self._logs.create_log(topic_partition, topic.topic_id, self._log_config(topic.name), is_new=is_new)
        except TidelogError as error:
            logger.error("%s is offline: %s", topic_partition, error)
            log = None
            if is_full_disk(error):
                self._refused[topic.name, index] = None
        partition = Partition(topic_partition, topic.topic_id, log)
        self.partitions[(topic.name, index)] = partition
        self.partitions_by_id[(topic.topic_id, index)] = partition
        if self._logs.futures.unfinished:
            self.moves.resume(partition, self._nursery)
        return partition

    def _lead_or_follow(self, partition: Partition, registration: PartitionRegistration) -> None:
        was_leader, old_epoch = partition.is_leader, partition.leader_epoch
        partition.replica_count = len(registration.replicas)
        leads = registration.leader == self._node_id and not partition.is_offline
        if not leads:
            partition.become_follower(registration.leader, registration.leader_epoch, registration.isr)
            if was_leader:
                self.on_lost(partition)
                self.announce((partition,))
            return
        checkpointed = self._checkpointed.get(partition.topic_partition, 0)
        partition.become_leader(registration.leader, registration.leader_epoch, registration.isr, checkpointed)
        if partition.is_sync_due:
            self.request_sync(partition)
        if not was_leader or old_epoch != registration.leader_epoch:
            self.on_led(partition)
            self.announce((partition,))

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(self._default_log_config, self._image.configs.of(ResourceType.TOPIC, topic))

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._log_config(topic.name)
        for index in topic.partitions:
            partition = self.partitions.get((topic.name, index))
            if partition is not None:
                partition.reconfigure(config)
                self._settle(partition)

    def _settle(self, partition: Partition) -> None:
        """Let a new flush policy take effect on what was appended before it."""
        if partition.is_sync_due:
            self.request_sync(partition)
        if partition.advance_high_watermark():
            self.announce((partition,))

    # Moving between log directories

    def move(self, topic: str, index: int, path: str) -> None:
        """Have a partition live in the log directory of that path from some time on; ``on_moved`` tells when.

        Raises:
            KafkaError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, and what ``get_partition`` raises.
        """
        target = self._logs.futures.find_target(path)
        self.moves.request(self.get_partition(topic, index), target, self._nursery)

    def _moved(self, partition: Partition) -> None:
        self._settle(partition)
        self.on_moved(partition)
