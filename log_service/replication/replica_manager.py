"""All partitions of a node, which it creates and deletes as the metadata says.

This file decides which logs exist here and the effect of a metadata image on each of them.
``remote_replicas`` holds their links to other nodes. This file knows neither requests nor clients.
A request that waits for a partition is in one of three purgatories: for fetches, produces and
deletions of records. A component that tracks partitions is a listener. Listeners of
``add_listener`` get the partitions that are led, lost, opened, moved and deleted.
``Partition.high_watermark_listeners`` report one partition's high watermark.

Listeners and waiting requests are called during another request or during a metadata publication,
which their bugs must not fail. An exception of a listener is raised again in a task of the node's
nursery. This ends the node, like the failure of any component. The handler of a waiting request
ensures that a failure closes only its own connection.

Invariants:

- A log is never used under another topic id than the image's.
- Listeners and waiting requests are notified of appends once for a whole request, and not after
  each of its partitions.
- A listener gets ``on_lost`` for a partition only after ``on_led``.
"""

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError, TidelogError
from log_service.common.timers import TimerQueue
from log_service.common.types import NO_NODE, NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from log_service.config.topic import log_config
from log_service.config.views import LogConfig
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage, ResourceType, TopicImage
from log_service.metadata.observers import NO_OBSERVERS, observers_of
from log_service.metadata.partition import PartitionRegistration
from log_service.records.validator import TurnRoom, ValidatedBatches
from log_service.replication.image_changes import is_new_replica, leaders_first
from log_service.replication.listeners import Listeners, Registration
from log_service.replication.log_deletions import LogDeletions
from log_service.replication.moves import ReplicaMoves
from log_service.replication.partition import Batch, Partition
from log_service.replication.partition_state import Change
from log_service.replication.purgatory import Purgatory
from log_service.replication.remote_replicas import RemoteReplicas
from log_service.replication.replica_listener import ReplicaListener
from log_service.replication.syncs import PartitionSyncs
from log_service.replication.traffic import Traffic
from log_service.storage.append_result import AppendResult
from log_service.storage.log import Log
from log_service.storage.log_directory import is_shortage
from log_service.storage.log_manager import LogManager

if TYPE_CHECKING:
    from log_service.records.control import EndOfTransaction
    from log_service.replication.links import ClusterLinks
    from log_service.storage.verifications import Verification

logger = logging.getLogger(__name__)

ACKS_ALL = -1
OPENED_AT_ONCE = 8
"""The number of partitions of one image to open before other tasks get a turn.

The rest are opened in later turns, or when a request needs them.
"""


class ReplicaManager:
    """The partitions of this node by name and by topic id.

    ``nursery`` runs the background work: syncs, moves, and partitions of an image that are opened
    later. It must not be closed while requests append or images are published, but it may be
    cancelled. The last appends are then not synced, which is no error. ``links`` gives access to
    the other nodes. Without it, followers are served, but nothing is fetched or proposed.
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
        links: "ClusterLinks | None" = None,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._logs = logs
        self._default_log_config_of = default_log_config_of
        self._default_log_config = default_log_config_of(EMPTY_IMAGE)
        self._checkpoint_interval_ms = checkpoint_interval_ms
        self._checkpointed: dict[TopicPartition, int] = {}
        self._unopened: dict[tuple[str, int], bool] = {}
        """Partitions that have to be opened.

        The value is true for a partition that is new on this node.
        """
        self._refused: dict[tuple[str, int], bool] = {}
        """Partitions whose logs a full disk refused.

        The value is true for one that is new on this node.
        """
        self._nursery = nursery
        self._image = EMPTY_IMAGE
        self._links = links
        self._eligible_brokers: dict[int, int] = {}
        self._observers = NO_OBSERVERS
        self._listeners: Listeners[ReplicaListener] = Listeners()
        self.remote = RemoteReplicas(
            node_id=node_id,
            clock=clock,
            nursery=nursery,
            links=links,
            image=lambda: self._image,
            led=lambda: tuple(
                partition for partition in self.partitions.values() if partition.is_leader
            ),
            on_change=self._announce_change,
            on_safe=lambda partition: self.announce((partition,)),
        )
        self.syncs = PartitionSyncs(clock, nursery, lambda partition: self.announce((partition,)))
        self.deletions = LogDeletions(logs, nursery)
        self.retired_traffic = Traffic()
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.partitions_by_id: dict[tuple[UUID, int], Partition] = {}
        self.delayed_fetches: Purgatory[TopicPartition] = Purgatory(timers)
        self.delayed_produces: Purgatory[TopicPartition] = Purgatory(timers)
        self.delayed_deletes: Purgatory[TopicPartition] = Purgatory(timers)
        logs.use_high_watermarks(self._high_watermark_of)
        token = trio.lowlevel.current_trio_token()
        logs.watch_directories(
            lambda path, _error: token.run_sync_soon(self._directory_failed, path)
        )
        self.moves = ReplicaMoves(logs.futures, self._moved)

    def __repr__(self) -> str:
        return (
            f"<ReplicaManager node={self._node_id} partitions={len(self.partitions)}"
            f" {self.syncs!r}>"
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Checkpoint the high watermarks at intervals, until cancelled.

        Also try again to open logs for which there was no disk space or file descriptor.
        """
        task_status.started()
        while True:
            await trio.sleep(self._checkpoint_interval_ms / 1000)
            await self.checkpoint_high_watermarks()
            await self._open_refused()

    # Lookup

    def find_open(self, topic: str, topic_id: UUID, index: int) -> Partition | None:
        """Return a partition as ``find`` does, or None if it is not open.

        A partition is not open if it does not exist, or if no request has needed it since the
        start.
        """
        return (
            self.partitions.get((topic, index))
            if topic
            else self.partitions_by_id.get((topic_id, index))
        )

    def find(self, topic: str, topic_id: UUID, index: int) -> Partition:
        """Return a partition by its topic's name, or by its topic's id if the name is empty.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION; UNKNOWN_TOPIC_ID, an id was given;
                NOT_LEADER_OR_FOLLOWER, the partition exists only on other nodes.
        """
        partition = (
            self.partitions.get((topic, index))
            if topic
            else self.partitions_by_id.get((topic_id, index))
        )
        return (
            self._find_unopened(topic, TopicId(topic_id), index) if partition is None else partition
        )

    def get_partition(self, topic: str, index: int) -> Partition:
        """Return a partition by its topic's name. Raises as ``find``."""
        partition = self.partitions.get((topic, index))
        return self._find_unopened(topic, NO_TOPIC_ID, index) if partition is None else partition

    def _find_unopened(self, topic: str, topic_id: TopicId, index: int) -> Partition:
        topics = self._image.topics
        known = topics.by_name.get(topic) if topic else topics.by_id.get(topic_id)
        if known is not None and (known.name, index) in self._unopened:
            self._open_one(known.name, index)
            return self.partitions[known.name, index]
        raise self._not_here(topic, topic_id, index, known)

    def _not_here(
        self, topic: str, topic_id: TopicId, index: int, known: TopicImage | None
    ) -> KafkaError:
        if known is None and not topic and topic_id != NO_TOPIC_ID:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {topic_id}")
        if known is None or index not in known.partitions:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {topic or topic_id}-{index}",
            )
        return KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{known.name}-{index} is not on node {self._node_id}"
        )

    # Appending

    def append(
        self,
        partition: Partition,
        records: Batch,
        *,
        acks: int,
        now_ms: int,
        room: TurnRoom | None = None,
    ) -> AppendResult:
        """Append a producer's batch at ``now_ms`` (wall time).

        The caller calls ``announce`` with the partition when the whole request is appended.

        Raises:
            KafkaError: as ``Partition.append_as_leader``.
            NoRoomError: as ``Partition.append_as_leader``.
        """
        result = partition.append_as_leader(records, now_ms, needs_all=acks == ACKS_ALL, room=room)
        if result.must_sync:
            self.syncs.request(partition)
        return result

    def append_in_transaction(
        self,
        partition: Partition,
        records: Batch,
        shown: "Verification",
        *,
        acks: int,
        now_ms: int,
        room: TurnRoom | None = None,
    ) -> AppendResult:
        """Append a batch of a producer's transaction, as ``append`` does.

        Raises as ``Partition.append_in_transaction``.
        """
        result = partition.append_in_transaction(
            records, shown, now_ms, needs_all=acks == ACKS_ALL, room=room
        )
        if result.must_sync:
            self.syncs.request(partition)
        return result

    def append_own(
        self, partition: Partition, validated: ValidatedBatches, shown: "Verification | None" = None
    ) -> AppendResult:
        """Append batches that this node built, and notify listeners and waiting requests.

        Raises as ``Partition.append_own``.
        """
        return self._announced(
            partition, partition.append_own(validated, self._clock.wall_ms(), shown)
        )

    def append_marker(self, partition: Partition, marker: "EndOfTransaction") -> AppendResult:
        """Append the end of a producer's transaction, and notify listeners and waiting requests.

        Raises as ``Partition.append_marker``.
        """
        return self._announced(partition, partition.append_marker(marker, self._clock.wall_ms()))

    def _announced(self, partition: Partition, result: AppendResult) -> AppendResult:
        if result.must_sync:
            self.syncs.request(partition)
        self.announce((partition,))
        return result

    # Followers

    def note_fetch(
        self,
        partition: Partition,
        broker_id: int,
        offset: int,
        *,
        log_start_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """Apply a follower's fetch of a partition that this node leads.

        If the follower may now join the ISR, this is proposed to the controller. Waiting deletions
        of records are checked. Return whether the high watermark moved. If so, the caller calls
        ``announce`` with the partition after it has applied the whole request.
        """
        state = partition.state
        change = state.note_fetch(
            broker_id,
            offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            now_ms=now_ms,
        )
        if broker_id not in state.isr and state.propose_expansion(broker_id) is not None:
            self.remote.request_isr_change(partition)
        if self.delayed_deletes.waiting_count:
            self.delayed_deletes.check(partition.topic_partition)
        return Change.HIGH_WATERMARK in change

    def _update_brokers(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Update the eligible brokers for leaders, and the addresses of leaders for followers."""
        eligible: dict[int, int] = {
            broker.node_id: broker.epoch
            for broker in image.cluster.brokers.values()
            if broker.is_active
        }
        if eligible != self._eligible_brokers:
            self._eligible_brokers.clear()
            self._eligible_brokers.update(eligible)
            now_ms = self._clock.monotonic_ms()
            for partition in tuple(self.partitions.values()):
                if partition.state.followers:
                    self._announce_change(partition, partition.state.look_again(now_ms))
                    self.delayed_deletes.check(partition.topic_partition)
        self.remote.on_brokers_changed(delta.changed_brokers)

    def _update_observers(self, image: MetadataImage) -> None:
        """Update the observers for leaders.

        Observers leave the ISR at once if ``Observers.are_needed`` is false.
        """
        observers = observers_of(image)
        if observers == self._observers:
            return
        self._observers = observers
        now_ms = self._clock.monotonic_ms()
        for partition in tuple(self.partitions.values()):
            partition.state.observers = observers
            if partition.state.followers:
                self._announce_change(partition, partition.state.look_again(now_ms))
        self.remote.look_for_laggards()

    # Notification

    def add_listener(self, listener: ReplicaListener) -> Registration[ReplicaListener]:
        """Notify a listener of changes of partitions, and return its registration.

        Cancelling the registration ends the calls.
        """
        return self._listeners.add(listener)

    def announce(self, partitions: Iterable[Partition]) -> None:
        """Notify the listeners of these partitions, and the requests that wait for them.

        The order is listeners of the high watermark, then produces, fetches, deletions.
        """
        try:
            for partition in partitions:
                if partition.high_watermark_listeners.registrations:
                    for on_high_watermark in partition.high_watermark_listeners:
                        on_high_watermark(partition)
                if self.delayed_produces.waiting_count:
                    self.delayed_produces.check(partition.topic_partition)
                if self.delayed_fetches.waiting_count:
                    self.delayed_fetches.check(partition.topic_partition)
                if self.delayed_deletes.waiting_count:
                    self.delayed_deletes.check(partition.topic_partition)
        except Exception as error:  # noqa: BLE001 - a listener's bug ends the node, not the request
            self._fail(error)

    def _announce_change(self, partition: Partition, change: Change) -> None:
        """Notify listeners and waiting requests of a change of the partition's state."""
        if change is not Change.NOTHING:
            is_led = change is Change.LED  # ``in`` would cost a call of the enum
            if not is_led and Change.LOST in change:
                self._notify(lambda listener: listener.on_lost(partition))
            if is_led or Change.LED in change:
                self._notify(lambda listener: listener.on_led(partition))
            self.announce((partition,))

    def _notify(self, event: Callable[[ReplicaListener], None]) -> None:
        for listener in self._listeners:
            try:
                event(listener)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the node with an exception that a listener raised."""

        async def fail() -> None:
            raise error

        self._nursery.start_soon(fail)

    def _directory_failed(self, path: Path) -> None:
        """Stop serving partitions whose log is in a failed directory, and notify waiters."""
        now_ms = self._clock.monotonic_ms()
        for partition in tuple(self.partitions.values()):
            if partition.log is not None and partition.log.home.path == path:
                self.remote.forget(partition)
                self._announce_change(partition, partition.note_offline(now_ms))
                self.announce((partition,))  # a consumer may wait at a follower

    # High watermark checkpoints

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks to disk, if any has moved since the last checkpoint.

        A failure is only logged.
        """
        current = {
            partition.topic_partition: partition.high_watermark
            for partition in self.partitions.values()
            if not partition.is_offline
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
        """Return the offset up to which retention may delete records."""
        topic, index = log.topic_partition
        partition = self.partitions.get((topic, index))
        return log.log_start_offset if partition is None else partition.high_watermark

    # Images

    def on_image(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Create, delete, lead, follow and reconfigure partitions as ``image`` says.

        Only the changes of ``delta`` are visited. Deletions come first, because another topic may
        reuse the name. Partitions that this node leads come next, because other nodes wait for
        them.
        """
        before, self._image = self._image, image
        is_default_changed = any(
            resource_type == ResourceType.BROKER for resource_type, _ in delta.changed_configs
        )
        if is_default_changed:
            self._default_log_config = self._default_log_config_of(image)
        for deleted in delta.deleted_topics.values():
            self._delete_topic(deleted)
        if delta.changed_brokers:
            self._update_brokers(delta, image)
        if is_default_changed or delta.changed_features or self._observers.node_ids:
            self._update_observers(image)
        limit = len(self.partitions) + OPENED_AT_ONCE
        for topic, index, registration in leaders_first(delta, self._node_id):
            is_new = is_new_replica(before, topic, index, self._node_id)
            self._apply_or_leave(topic, index, registration, limit, is_new=is_new)
        if self._unopened:
            self._nursery.start_soon(self._open_rest)
        if delta.changed_configs:
            self.remote.update_throttles(delta, image)
        names = {
            name
            for resource_type, name in delta.changed_configs
            if resource_type == ResourceType.TOPIC
        }
        for name in sorted(
            image.topics.by_name if is_default_changed else names & image.topics.by_name.keys()
        ):
            self._reconfigure(image.topics.by_name[name])

    def _apply_or_leave(
        self,
        topic: TopicImage,
        index: int,
        registration: PartitionRegistration,
        limit: int,
        *,
        is_new: bool,
    ) -> None:
        key = (topic.name, index)
        is_left = key in self._unopened
        is_new = self._unopened.pop(key, is_new)
        if is_left and self._node_id not in registration.replicas:
            self.deletions.request(TopicPartition(*key))
            self.deletions.begin()
        elif key in self.partitions or len(self.partitions) < limit:
            self._apply(topic, index, registration, is_new=is_new)
        else:
            self._unopened[key] = is_new

    async def _open_rest(self) -> None:
        """Open the partitions of an image that ``on_image`` postponed, a few at a time."""
        while self._unopened:
            for name, index in tuple(islice(self._unopened, OPENED_AT_ONCE)):
                self._open_one(name, index)
            await trio.lowlevel.checkpoint()

    def _open_one(self, name: str, index: int) -> None:
        """Open a postponed partition as the newest image says."""
        is_new = self._unopened.pop((name, index))
        topic = self._image.topics.by_name[name]
        self._apply(topic, index, topic.partitions[index], is_new=is_new)

    async def _open_refused(self) -> None:
        """Open logs for which there was no disk space or descriptor, until one is refused again."""
        while self._refused:
            (name, index), is_new = next(iter(self._refused.items()))
            self._forget(self.partitions[name, index])
            self._unopened[name, index] = is_new
            self._open_one(name, index)
            if (name, index) in self._refused:
                return
            await trio.lowlevel.checkpoint()

    def _delete_topic(self, topic: TopicImage) -> None:
        """Stop serving the topic's partitions.

        Their logs are deleted in later turns of the event loop.
        """
        for index in sorted(topic.partitions):
            if self._unopened.pop((topic.name, index), None) is not None:
                # The partition was not opened, but an earlier run may have left its log.
                self.deletions.request(TopicPartition(topic.name, index))
            partition = self.partitions.get((topic.name, index))
            if partition is not None and partition.topic_id == topic.topic_id:
                self.deletions.request(partition.topic_partition)
                self._drop(partition)
        self.deletions.begin()

    def _delete_replica(self, partition: Partition) -> None:
        """Stop serving a partition that moved to other nodes, and delete its log here."""
        self.deletions.request(partition.topic_partition)
        self._drop(partition)
        self.deletions.begin()

    def _drop(self, partition: Partition) -> None:
        """Stop serving a partition, and notify listeners and waiting requests."""
        change = self._forget(partition)
        if Change.LOST in change:
            self._notify(lambda listener: listener.on_lost(partition))
        self._notify(lambda listener: listener.on_deleted(partition))
        self.announce((partition,))

    def _forget(self, partition: Partition) -> Change:
        self.moves.cancel(partition.topic_partition)
        self.remote.forget(partition)
        change = partition.state.retire()
        self.retired_traffic.add(partition)
        name, index = partition.topic_partition
        self._refused.pop((name, index), None)
        del self.partitions[(name, index)]
        del self.partitions_by_id[(partition.topic_id, index)]
        return change

    def _apply(
        self,
        topic: TopicImage,
        index: int,
        registration: PartitionRegistration,
        *,
        is_new: bool = False,
    ) -> None:
        partition = self.partitions.get((topic.name, index))
        if self._node_id not in registration.replicas:
            if partition is not None:
                self._delete_replica(partition)
            return
        if (
            partition is not None
            and partition.log is None
            and self._may_fetch_anew(partition.topic_partition, registration)
        ):
            self._forget(partition)
            partition = None
        if partition is None:
            partition = self._open(topic, index, registration, is_new=is_new)
        before = None if partition.is_leader else (partition.leader, partition.leader_epoch)
        change = partition.apply(registration, self._clock.monotonic_ms())
        if len(registration.replicas) > 1 or self.remote.has_fetched:
            # A partition with one replica left may have been fetched so far.
            self.remote.place(partition, before)
        if partition.is_leader and partition.is_sync_due:
            self.syncs.request(partition)
        self._announce_change(partition, change)

    def _open(
        self, topic: TopicImage, index: int, registration: PartitionRegistration, *, is_new: bool
    ) -> Partition:
        topic_partition = TopicPartition(topic.name, index)
        self.deletions.finish(topic_partition)
        try:
            if self._may_fetch_anew(topic_partition, registration):
                self._logs.unserved.begin_anew(topic_partition)
            log = self._logs.create_log(
                topic_partition,
                topic.topic_id,
                self._log_config(topic.name),
                is_new=is_new,
                is_alone=len(registration.replicas) == 1,
                directory_id=registration.assigned_directory_of(self._node_id),
            )
        except TidelogError as error:
            logger.error("%s is offline: %s", topic_partition, error)
            log = None
            if is_shortage(error):
                self._refused[topic.name, index] = is_new
        checkpointed_offset = 0 if log is None else self._logs.checkpointed_high_watermark(log)
        partition = Partition(
            topic_partition,
            topic.topic_id,
            log,
            node_id=self._node_id,
            checkpointed_offset=checkpointed_offset,
        )
        partition.state.eligible_brokers = self._eligible_brokers
        partition.state.observers = self._observers
        if self._links is not None:
            partition.state.lag_max_ms = self._links.config.lag_max_ms
        self.partitions[(topic.name, index)] = partition
        self.partitions_by_id[(topic.topic_id, index)] = partition
        if self._logs.futures.unfinished:
            self.moves.resume(partition, self._nursery)
        self._notify(lambda listener: listener.on_opened(partition))
        return partition

    def _may_fetch_anew(
        self, topic_partition: TopicPartition, registration: PartitionRegistration
    ) -> bool:
        """Return whether a damaged or lost log may be fetched again from another broker.

        The leader must have all records, and this replica must not be electable with an empty log.
        """
        return (
            (topic_partition in self._logs.damaged or topic_partition in self._logs.lost)
            and registration.leader not in (NO_NODE, self._node_id)
            and self._node_id not in registration.isr
            and self._node_id not in registration.eligible_leader_replicas
        )

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(
            self._default_log_config, self._image.configs.of(ResourceType.TOPIC, topic)
        )

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._log_config(topic.name)
        for index in topic.partitions:
            partition = self.partitions.get((topic.name, index))
            if partition is not None:
                partition.reconfigure(config, self._clock.monotonic_ms())
                # The new min.insync.replicas may let appends complete that wait for this replica.
                self.announce((partition,))
                self._settle(partition)

    def _settle(self, partition: Partition) -> None:
        """Request a sync of records that an earlier flush policy or log has left unsynced, if due.

        If the high watermark moved because they are synced already, notify waiting requests.
        """
        if partition.is_sync_due:
            self.syncs.request(partition)
        if partition.note_synced():
            self.announce((partition,))

    # Moving between log directories

    def move(self, topic: str, index: int, path: str) -> None:
        """Begin to move a partition's log to the log directory at ``path``.

        Listeners get ``on_moved`` when the move is complete.

        Raises:
            KafkaError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR; or an error of ``get_partition``.
        """
        target = self._logs.placement.find_directory(path)
        self.moves.request(self.get_partition(topic, index), target, self._nursery)

    def _moved(self, partition: Partition) -> None:
        self._settle(partition)
        self._notify(lambda listener: listener.on_moved(partition))
