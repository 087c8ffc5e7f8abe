"""All partitions of a node: created and deleted as the metadata says, appended to, and announced when they change.

Decides which logs exist here and what an image means for each of them. Knows neither requests nor clients. A request that waits for a
partition is in one of the two purgatories here. A room that follows partitions is a listener: ``add_listener`` for partitions that are led,
lost, moved and deleted, ``Partition.high_watermark_listeners`` for one partition's high watermark.

Listeners and waiting requests are called in the middle of another request, or of the metadata's publication, which a bug of theirs must not
fail. An exception that a listener raises is raised again in a task of the node's nursery: it ends the node, as the failure of a room does
everywhere. A waiting request that fails closes its own connection; its handler sees to that.

Invariants: a log is never used under another topic id than the image's; listeners and waiting requests hear of an append after the whole
request was appended, not after each of its partitions; a listener hears that a partition is lost only after it heard that it is led.
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
from log_service.records.validator import ValidatedBatches
from log_service.replication.listeners import Listeners, Registration
from log_service.replication.log_deletions import LogDeletions
from log_service.replication.moves import ReplicaMoves
from log_service.replication.partition import Partition
from log_service.replication.partition_state import Change
from log_service.replication.purgatory import Purgatory
from log_service.replication.syncs import PartitionSyncs
from log_service.replication.traffic import Traffic
from log_service.storage.log import AppendResult, Log
from log_service.storage.log_directory import is_full_disk
from log_service.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

ACKS_ALL = -1
OPENED_AT_ONCE = 64
"""How many new partitions one image opens before other tasks get their turn; the rest follows in turns, or when a request asks for it."""


class ReplicaListener:
    """What a room hears of the partitions of this node. Each call does nothing unless the room overrides it; none may wait."""

    def on_led(self, partition: Partition) -> None:
        """This node leads the partition, in ``partition.leader_epoch``. Comes again, without a loss between, when only the epoch is new."""

    def on_lost(self, partition: Partition) -> None:
        """This node leads the partition no more: another broker does, the log is offline, or the partition is gone."""

    def on_moved(self, partition: Partition) -> None:
        """The partition's log is in another log directory of this node."""

    def on_deleted(self, partition: Partition) -> None:
        """The partition was deleted, or this node is none of its replicas any more; ``on_lost`` came before if this node led it."""


class ReplicaManager:
    """The partitions of this node by name and by topic id.

    ``nursery`` holds what is done beside the requests: syncs, moves, what is left of an image. It must be open as long as requests append
    or images are handed out, also once it is cancelled: what is appended last is not safe, and that is no error.
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
        self._unopened: dict[tuple[str, int], bool] = {}
        """Partitions that have to be opened, and whether each is new here."""
        self._refused: dict[tuple[str, int], bool] = {}
        """Partitions whose logs a full disk did not take, and whether each is new here."""
        self._nursery = nursery
        self._image = EMPTY_IMAGE
        self._listeners: Listeners[ReplicaListener] = Listeners()
        self.syncs = PartitionSyncs(clock, nursery, lambda partition: self.announce((partition,)))
        self.deletions = LogDeletions(logs, nursery)
        self.retired_traffic = Traffic()
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.partitions_by_id: dict[tuple[UUID, int], Partition] = {}
        self.delayed_fetches: Purgatory[TopicPartition] = Purgatory(timers)
        self.delayed_produces: Purgatory[TopicPartition] = Purgatory(timers)
        logs.high_watermark_of = self._high_watermark_of
        self.moves = ReplicaMoves(logs.futures, self._moved)

    def __repr__(self) -> str:
        return f"<ReplicaManager node={self._node_id} partitions={len(self.partitions)} {self.syncs!r}>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write the high watermarks down in intervals, and begin the logs that a full disk refused. Runs until cancelled."""
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
            self.syncs.request(partition)
        return result

    def append_own(self, partition: Partition, validated: ValidatedBatches) -> AppendResult:
        """Append batches that this node built and announce the partition; raises as ``Partition.append_own``."""
        result = partition.append_own(validated, self._clock.wall_ms())
        if result.must_sync:
            self.syncs.request(partition)
        self.announce((partition,))
        return result

    # Telling

    def add_listener(self, listener: ReplicaListener) -> Registration[ReplicaListener]:
        """Tell a room what happens to partitions from now on; the room cancels the registration when it wants no more."""
        return self._listeners.add(listener)

    def announce(self, partitions: Iterable[Partition]) -> None:
        """Let all that wait for these partitions look again: listeners of the high watermark first, then produces, then fetches."""
        try:
            for partition in partitions:
                if partition.high_watermark_listeners.registrations:
                    for on_high_watermark in partition.high_watermark_listeners:
                        on_high_watermark(partition)
                self.delayed_produces.check(partition.topic_partition)
                self.delayed_fetches.check(partition.topic_partition)
        except Exception as error:  # noqa: BLE001 - a bug of a room: it ends the node, not the request that announces
            self._fail(error)

    def _announce_change(self, partition: Partition, change: Change) -> None:
        """Tell listeners and waiting requests what a change of the partition's state means to them."""
        if change:
            if Change.LOST in change:
                self._tell(lambda listener: listener.on_lost(partition))
            if Change.LED in change:
                self._tell(lambda listener: listener.on_led(partition))
            self.announce((partition,))

    def _tell(self, event: Callable[[ReplicaListener], None]) -> None:
        for listener in self._listeners:
            try:
                event(listener)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the node with the exception that one of its rooms raised."""

        async def fail() -> None:
            raise error

        self._nursery.start_soon(fail)

    # High watermarks that outlive the node

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
        before, self._image = self._image, image
        is_default_changed = any(resource_type == ResourceType.BROKER for resource_type, _ in delta.changed_configs)
        if is_default_changed:
            self._default_log_config = self._default_log_config_of(image)
        for topic in delta.deleted_topics.values():
            self._delete_topic(topic)
        limit = len(self.partitions) + OPENED_AT_ONCE
        for changed in delta.changed_topics.values():
            for index, registration in sorted(changed.changed_partitions.items()):
                is_new = self._is_new(before, changed.topic, index)
                self._apply_or_leave(changed.topic, index, registration, limit, is_new=is_new)
        if self._unopened:
            self._nursery.start_soon(self._open_rest)
        names = {name for resource_type, name in delta.changed_configs if resource_type == ResourceType.TOPIC}
        for name in sorted(image.topics.by_name if is_default_changed else names & image.topics.by_name.keys()):
            self._reconfigure(image.topics.by_name[name])

    def _is_new(self, before: MetadataImage, topic: TopicImage, index: int) -> bool:
        """Whether a partition has had no earlier epoch on this node: it came while the node ran. The first image tells of no beginning."""
        if before is EMPTY_IMAGE:
            return False
        known = before.topics.by_id.get(topic.topic_id)
        replica = None if known is None else known.partitions.get(index)
        return replica is None or self._node_id not in replica.replicas

    def _apply_or_leave(self, topic: TopicImage, index: int, registration: PartitionRegistration, limit: int, *, is_new: bool) -> None:
        key = (topic.name, index)
        is_new = self._unopened.pop(key, is_new)
        if key in self.partitions or len(self.partitions) < limit:
            self._apply(topic, index, registration, is_new=is_new)
        else:
            self._unopened[key] = is_new

    async def _open_rest(self) -> None:
        """Open what an image left, a few at a time."""
        while self._unopened:
            for name, index in tuple(islice(self._unopened, OPENED_AT_ONCE)):
                self._open_one(name, index)
            await trio.lowlevel.checkpoint()

    def _open_one(self, name: str, index: int) -> None:
        """Open a partition that was left, as the newest image says."""
        is_new = self._unopened.pop((name, index))
        topic = self._image.topics.by_name[name]
        self._apply(topic, index, topic.partitions[index], is_new=is_new)

    async def _open_refused(self) -> None:
        """Open the partitions whose logs a full disk did not take, until it refuses one again."""
        while self._refused:
            (name, index), is_new = next(iter(self._refused.items()))
            self._forget(self.partitions[name, index])
            self._unopened[name, index] = is_new
            self._open_one(name, index)
            if (name, index) in self._refused:
                return
            await trio.lowlevel.checkpoint()

    def _delete_topic(self, topic: TopicImage) -> None:
        """Serve the topic's partitions no more; their logs follow, some in each turn of the event loop."""
        for index in sorted(topic.partitions):
            if self._unopened.pop((topic.name, index), None) is not None:
                self.deletions.request(TopicPartition(topic.name, index))  # its log may be there from before this start
            partition = self.partitions.get((topic.name, index))
            if partition is not None and partition.topic_id == topic.topic_id:
                self.deletions.request(partition.topic_partition)
                self._drop(partition)
        self.deletions.begin()

    def _drop(self, partition: Partition) -> None:
        """Serve a partition no more, and tell listeners and waiting requests."""
        change = self._forget(partition)
        if Change.LOST in change:
            self._tell(lambda listener: listener.on_lost(partition))
        self._tell(lambda listener: listener.on_deleted(partition))
        self.announce((partition,))

    def _forget(self, partition: Partition) -> Change:
        self.moves.cancel(partition.topic_partition)
        change = partition.state.retire()
        self.retired_traffic.add(partition)
        name, index = partition.topic_partition
        self._refused.pop((name, index), None)
        del self.partitions[(name, index)]
        del self.partitions_by_id[(partition.topic_id, index)]
        return change

    def _apply(self, topic: TopicImage, index: int, registration: PartitionRegistration, *, is_new: bool = False) -> None:
        partition = self.partitions.get((topic.name, index))
        if self._node_id not in registration.replicas:
            if partition is not None:
                self._drop(partition)
            return
        if partition is None:
            partition = self._open(topic, index, is_new=is_new)
        change = partition.apply(registration, self._clock.monotonic_ms())
        if partition.is_leader and partition.is_sync_due:
            self.syncs.request(partition)
        self._announce_change(partition, change)

    def _open(self, topic: TopicImage, index: int, *, is_new: bool) -> Partition:
        topic_partition = TopicPartition(topic.name, index)
        self.deletions.finish(topic_partition)
        try:
            log = self._logs.create_log(topic_partition, topic.topic_id, self._log_config(topic.name), is_new=is_new)
        except TidelogError as error:
            logger.error("%s is offline: %s", topic_partition, error)
            log = None
            if is_full_disk(error):
                self._refused[topic.name, index] = is_new
        checkpointed_offset = self._checkpointed.get(topic_partition, 0)
        partition = Partition(topic_partition, topic.topic_id, log, node_id=self._node_id, checkpointed_offset=checkpointed_offset)
        self.partitions[(topic.name, index)] = partition
        self.partitions_by_id[(topic.topic_id, index)] = partition
        if self._logs.futures.unfinished:
            self.moves.resume(partition, self._nursery)
        return partition

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(self._default_log_config, self._image.configs.of(ResourceType.TOPIC, topic))

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._log_config(topic.name)
        for index in topic.partitions:
            partition = self.partitions.get((topic.name, index))
            if partition is not None:
                partition.reconfigure(config, self._clock.monotonic_ms())
                self.announce((partition,))  # an append may wait for this replica alone, whose records count now
                self._settle(partition)

    def _settle(self, partition: Partition) -> None:
        """Sync what was appended before the policy, or the log, was changed, where that is due now."""
        if partition.is_sync_due:
            self.syncs.request(partition)
        if partition.note_synced():
            self.announce((partition,))

    # Moving between log directories

    def move(self, topic: str, index: int, path: str) -> None:
        """Begin to move a partition's log to the log directory of that path; listeners hear ``on_moved`` when it is there.

        Raises:
            KafkaError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, and what ``get_partition`` raises.
        """
        target = self._logs.find_directory(path)
        self.moves.request(self.get_partition(topic, index), target, self._nursery)

    def _moved(self, partition: Partition) -> None:
        self._settle(partition)
        self._tell(lambda listener: listener.on_moved(partition))
