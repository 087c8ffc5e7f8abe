"""Remove committed offsets without a request: offsets of deleted topics, and expired offsets.

This file decides which offsets to remove. When the last offset of a group without members expires,
the group is removed too. Timers do the work in steps, so that no request waits for a pass over many
groups. This file does not know members' requests. Source: KIP-211 (expiry).
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeGuard

from log_service.common.types import TopicPartition
from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic.group import ClassicGroup, GroupState
from log_service.coordinator.group.classic.joining import GroupDecision
from log_service.coordinator.group.consumer.group import ConsumerGroup, tombstones
from log_service.coordinator.group.offsets.committed import OffsetStore
from log_service.coordinator.group.offsets.pending import NONE_PENDING
from log_service.coordinator.group.records.classic import GenerationRecord
from log_service.coordinator.group.records.offset import CommittedOffset
from log_service.coordinator.group.streams.group import StreamsGroup, streams_tombstones
from log_service.coordinator.group.timer_kinds import TimerKind

EXPIRY_TIMER = (TimerKind.EXPIRE_OFFSETS,)
ORPHAN_TIMER = (TimerKind.FORGET_ORPHANS,)
GROUPS_PER_EXPIRY_STEP = 500
MAX_ORPHANS_PER_BATCH = 1_000
PAUSE_MS = 5
"""The pause between two steps of background work."""
OPEN_PAUSE_MS = 1_000
"""The pause before the next attempt if all remaining orphans wait for open transactions."""

Group = ClassicGroup | ConsumerGroup | StreamsGroup
IsGone = Callable[[TopicPartition, CommittedOffset | None], bool]


class _Orphan(NamedTuple):
    """An offset of a deleted partition.

    ``committed`` is None if there is only a pending offset. Pending offsets up to the record at log
    offset ``last_pending`` are removed too. Later ones stay.
    """

    group_id: str
    where: TopicPartition
    committed: CommittedOffset | None
    last_pending: int


class OffsetRemovals:
    """Removes offsets of one shard that have expired or belong to deleted partitions."""

    def __init__(
        self, config: GroupConfig, offsets: OffsetStore, groups: Mapping[str, Group]
    ) -> None:
        self._config = config
        self._offsets = offsets
        self._groups = groups
        self._orphans: deque[_Orphan] = deque()
        self._unchecked_groups: deque[str] = deque()

    def resume(self, is_gone: IsGone, decision: GroupDecision) -> None:
        """Begin to serve requests.

        Offsets of topics that no longer exist are removed. Checks for expired offsets begin.
        """
        self.remove_those(is_gone, decision)
        decision.set_timer(
            EXPIRY_TIMER, decision.now_ms + self._config.offsets_retention_check_interval_ms
        )

    def remove_those(self, is_gone: IsGone, decision: GroupDecision) -> None:
        """Let a timer remove the offsets for which ``is_gone`` is true.

        The timer retries a refused append. A pending offset has no topic id, so ``is_gone`` gets
        None for it. If only the committed offset belongs to an earlier topic of the same name, the
        pending offset stays.
        """
        for group_id in sorted(self._offsets.group_ids()):
            committed = self._offsets.of(group_id)
            for where in self._offsets.partitions_of(group_id):
                if is_gone(where, committed.get(where)):
                    last_pending = (
                        self._offsets.last_pending_of(group_id, where)
                        if is_gone(where, None)
                        else NONE_PENDING
                    )
                    self._orphans.append(
                        _Orphan(group_id, where, committed.get(where), last_pending)
                    )
        if self._orphans:
            decision.set_timer(ORPHAN_TIMER, decision.now_ms)

    def on_orphan_timer(self, decision: GroupDecision) -> None:
        """Remove a bounded number of orphans, which are offsets of deleted partitions.

        An offset that was committed again meanwhile stays. An orphan waits while an open
        transaction holds a newer offset for its partition, because then the topic exists again. A
        tombstone would remove the newer offset too.
        """
        taken = [
            self._orphans.popleft() for _ in range(min(len(self._orphans), MAX_ORPHANS_PER_BATCH))
        ]
        due: list[_Orphan] = []
        for each in taken:
            waits = self._offsets.last_pending_of(each.group_id, each.where) > each.last_pending
            (self._orphans if waits else due).append(each)
        decision.on_refused(lambda: self._orphans.extendleft(reversed(due)))
        for each in due:
            if self._offsets.of(each.group_id).get(each.where) is each.committed:
                self._offsets.forget(each.group_id, (each.where,), decision)
        if self._orphans:
            decision.set_timer(ORPHAN_TIMER, decision.now_ms + (PAUSE_MS if due else OPEN_PAUSE_MS))

    def on_expiry_timer(self, decision: GroupDecision) -> None:
        """Remove expired offsets of a bounded number of groups.

        A group that has neither members nor offsets any more is removed too.
        The next groups follow after a pause, so that requests do not wait.
        """
        if not self._unchecked_groups:
            self._unchecked_groups.extend(sorted(self._groups))
        taken = [
            self._unchecked_groups.popleft()
            for _ in range(min(len(self._unchecked_groups), GROUPS_PER_EXPIRY_STEP))
        ]
        decision.on_refused(lambda: self._unchecked_groups.extendleft(reversed(taken)))
        for group_id in taken:
            self._expire(group_id, decision)
        pause_ms = (
            PAUSE_MS if self._unchecked_groups else self._config.offsets_retention_check_interval_ms
        )
        decision.set_timer(EXPIRY_TIMER, decision.now_ms + pause_ms)

    def _expire(self, group_id: str, decision: GroupDecision) -> None:
        group = self._groups.get(group_id)
        if group is None or not _may_expire(group):
            return
        since_ms = group.state_since_ms if _counts_from_its_end(group) else None
        expired = self._offsets.expired(
            group_id, subscription_test(group), wall_ms=decision.wall_ms, since_ms=since_ms
        )
        self._offsets.forget(group_id, expired, decision)
        is_unused = is_empty(group) and not (
            isinstance(group, ClassicGroup) and group.pending_join_members
        )
        is_bare = len(expired) == len(self._offsets.of(group_id)) and not self._offsets.pending_of(
            group_id
        )
        if is_unused and is_bare:
            append_removal(group, decision)


def is_empty(group: Group) -> bool:
    """Whether a group has no members."""
    return group.is_in(GroupState.EMPTY) if isinstance(group, ClassicGroup) else not group.members


def append_removal(group: Group, decision: GroupDecision) -> None:
    """Append tombstones for all records of a group except its offsets."""
    if isinstance(group, ConsumerGroup):
        decision.records.extend(tombstones(group))
    elif isinstance(group, StreamsGroup):
        decision.records.extend(streams_tombstones(group))
    else:
        decision.append(GenerationRecord(group_id=group.group_id, generation=None))


def subscription_test(group: Group) -> Callable[[str], bool]:
    """Return a predicate that tells whether members of a group read a topic.

    It is true for every topic if the subscriptions of a classic group's consumers are unknown.
    """
    if isinstance(group, StreamsGroup):
        return group.reads
    return (
        group.subscribed_topics.__contains__
        if isinstance(group, ConsumerGroup)
        else group.subscription_test()
    )


def _may_expire(group: Group) -> bool:
    """Whether it is known which topics a group reads, so that its other offsets may expire."""
    if not isinstance(group, ClassicGroup) or group.is_in(GroupState.EMPTY):
        return True
    return group.is_in(GroupState.STABLE) and group.subscribed_topics is not None


def _counts_from_its_end(group: Group) -> TypeGuard[ClassicGroup]:
    """Whether retention starts when the last member leaves, and not at each commit (KIP-211).

    This is so for empty classic groups that had members.
    """
    return (
        isinstance(group, ClassicGroup)
        and group.is_in(GroupState.EMPTY)
        and group.protocol_type is not None
    )
