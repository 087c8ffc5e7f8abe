"""The effect of each record of a shard's log on its groups.

This file decides which record creates, changes or removes a group. Stored state changes only here,
both after an append and while the shard is loading. There is one exception. ``GroupMigration``
turns a consumer group into a classic group before the records of this change are replayed.
"""

from log_service.coordinator.group.classic.group import ClassicGroup
from log_service.coordinator.group.classic.stored_group import restore_group
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.steps import ConsumerSteps
from log_service.coordinator.group.migration.group_migration import GroupMigration
from log_service.coordinator.group.offsets.committed import OffsetStore
from log_service.coordinator.group.offsets.removals import Group
from log_service.coordinator.group.records.classic import GenerationRecord, StoredGeneration
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.records.consumer import (
    ConsumerGroupRecord,
    GroupEpochRecord,
    is_tombstone,
)
from log_service.coordinator.group.records.offset import OffsetRecord
from log_service.coordinator.group.records.share import SHARE_GROUP_RECORDS
from log_service.coordinator.group.records.streams import (
    STREAMS_GROUP_RECORDS,
    StreamsEpochRecord,
    StreamsGroupRecord,
)
from log_service.coordinator.group.share.groups import ShareGroups
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.streams.heartbeats import StreamsHeartbeats
from log_service.state_machine.decision import ReplayContext


class StoredGroups:
    """The groups of one shard, as the records of its log define them."""

    def __init__(
        self,
        groups: dict[str, Group],
        *,
        offsets: OffsetStore,
        steps: ConsumerSteps,
        migration: GroupMigration,
        streams: StreamsHeartbeats,
        share_groups: ShareGroups,
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._steps = steps
        self._migration = migration
        self._streams = streams
        self._share_groups = share_groups
        self.is_serving = False
        """Whether the shard has loaded its log and serves requests."""

    def replay(self, record: GroupRecord, context: ReplayContext) -> None:
        """Apply one record of the log."""
        group_id = record.group_id
        match record:
            case record if isinstance(record, SHARE_GROUP_RECORDS):
                self._share_groups.replay(record)
            case record if isinstance(record, STREAMS_GROUP_RECORDS):
                self._replay_streams_record(group_id, record)
            case OffsetRecord():
                self._offsets.replay(record, context)
                if record.committed is not None and group_id not in self._groups:
                    # an empty group stays until the next expiry check after its last offset
                    self._groups[group_id] = ClassicGroup(group_id)
            case GenerationRecord(generation=None):
                if isinstance(self._groups.get(group_id), ClassicGroup):
                    self._replay_removal(group_id)
            case GenerationRecord(generation=generation):
                assert generation is not None
                self._replay_generation(group_id, generation)
            case _:
                self._replay_consumer_record(group_id, record)

    def _replay_removal(self, group_id: str) -> None:
        """Remove a group. If offsets of it are left, an empty classic group takes its place.

        Pending offsets count too.
        """
        del self._groups[group_id]
        if self._offsets.partitions_of(group_id):
            self._groups[group_id] = ClassicGroup(group_id)

    def _replay_consumer_record(self, group_id: str, record: ConsumerGroupRecord) -> None:
        """Apply a record to a consumer group. The first record of a group creates it."""
        group = self._groups.get(group_id)
        if isinstance(record, GroupEpochRecord) and record.content is None:
            self._steps.forget(group_id)
            if isinstance(group, ConsumerGroup):
                self._replay_removal(group_id)
            return
        if not isinstance(group, ConsumerGroup):
            if is_tombstone(record) or group_id in self._migration.ahead_of_log:
                return
            group = self._groups[group_id] = ConsumerGroup(group_id)
        group.replay(record)

    def _replay_streams_record(self, group_id: str, record: StreamsGroupRecord) -> None:
        """Apply a record to a streams group. The first record of a group creates it."""
        group = self._groups.get(group_id)
        if isinstance(record, StreamsEpochRecord) and record.content is None:
            self._streams.forget(group_id)
            if isinstance(group, StreamsGroup):
                self._replay_removal(group_id)
            return
        if not isinstance(group, StreamsGroup):
            if record.content is None:
                return
            group = self._groups[group_id] = StreamsGroup(group_id)
        group.replay(record)

    def _replay_generation(self, group_id: str, stored: StoredGeneration) -> None:
        """Apply a stored generation, unless the classic group in memory is newer.

        It is newer than the record once the shard serves requests.
        """
        self._migration.ahead_of_log.discard(group_id)
        if not self.is_serving or not isinstance(self._groups.get(group_id), ClassicGroup):
            self._groups[group_id] = restore_group(group_id, stored)

    def replay_end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Apply the offsets of a producer's transaction, or discard them."""
        for group_id in self._offsets.replay_end_transaction(
            producer_id, is_committed=is_committed
        ):
            self._groups.setdefault(group_id, ClassicGroup(group_id))
