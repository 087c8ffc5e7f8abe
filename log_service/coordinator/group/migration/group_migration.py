"""Convert a group with members between the classic and the consumer protocol (KIP-848).

The first consumer heartbeat to a classic group upgrades the group. Each member keeps its
assignment and must rejoin, and the group's generation id becomes the epoch of the group and of its
members. When the last member of the consumer protocol leaves, the group is downgraded. The targets
of the remaining members become their assignments, and a rebalance begins. If a classic member
replaces the last member of the consumer protocol, the group is downgraded too, and a rebalance
begins only if the targets are out of date. ``group.consumer.migration.policy`` allows upgrades,
downgrades, both or neither.

This file decides whether a group may be converted and builds the new group. The records of a
conversion form one batch, so that the log never holds half of them. This file does not know the
requests of members.

Source: KIP-848 as of Kafka 4.3.
"""

from collections.abc import Callable, Sequence
from functools import partial

from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic import joining
from log_service.coordinator.group.classic.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    assignment_of,
    encode_assignment,
    subscription_of,
)
from log_service.coordinator.group.classic.group import ClassicGroup, ClassicMember, GroupState
from log_service.coordinator.group.classic.joining import GroupDecision, Joining
from log_service.coordinator.group.classic.stored_group import store_group
from log_service.coordinator.group.consumer.group import ConsumerGroup, tombstones
from log_service.coordinator.group.consumer.sessions import ConsumerSessions
from log_service.coordinator.group.consumer.steps import ConsumerSteps
from log_service.coordinator.group.member_sessions import session_timer
from log_service.coordinator.group.offsets.removals import Group
from log_service.coordinator.group.records.classic import GenerationRecord
from log_service.coordinator.group.records.consumer import (
    ConsumerGroupRecord,
    CurrentAssignmentRecord,
    GroupEpochRecord,
    SubscriptionRecord,
    TargetEpochRecord,
    TargetRecord,
)
from log_service.coordinator.group.values.consumer_member import (
    ClassicMetadata,
    ConsumerMember,
    CurrentAssignment,
    Subscription,
)
from log_service.coordinator.group.values.epochs import GroupEpoch, TargetEpoch
from log_service.coordinator.group.values.partitions import Partitions
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.sync_group import SyncGroupResponse


class GroupMigration:
    """Converts groups of one shard.

    ``groups`` holds the shard's groups by id. ``image`` returns the newest metadata.
    """

    def __init__(
        self,
        *,
        config: GroupConfig,
        groups: dict[str, Group],
        steps: ConsumerSteps,
        sessions: ConsumerSessions,
        rebalances: Joining,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._config = config
        self._groups = groups
        self._steps = steps
        self._sessions = sessions
        self._joining = rebalances
        self._image = image
        self.ahead_of_log: set[str] = set()
        """Ids of groups that are already classic before the records of that change are replayed."""

    @property
    def takes_classic_members(self) -> bool:
        """Whether a consumer group may have members of the classic protocol."""
        return self._config.consumer.migration_policy != "disabled"

    # From classic to consumer

    def upgrade(self, group: ClassicGroup, decision: GroupDecision) -> ConsumerGroup:
        """Return the consumer group that replaces a classic one.

        Members with an open join or sync get REBALANCE_IN_PROGRESS.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, the group may not be upgraded.
        """
        self._validate_upgrade(group)
        upgraded = ConsumerGroup(group.group_id)
        try:
            records = upgrade_records(group, self._image(), self._steps.hash_of)
        except ProtocolError as error:
            text = (
                f"Cannot upgrade classic group {group.group_id} to a consumer group: the data of a"
                f" member is invalid: {error}."
            )
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text) from error
        decision.append(GenerationRecord(group_id=group.group_id, generation=None))
        decision.records.extend(records)
        for record in records:
            upgraded.replay(record)
        decision.cancel_timer(joining.join_timer(group.group_id))
        decision.cancel_timer(joining.sync_timer(group.group_id))
        for member_id in group.pending_join_members:
            decision.cancel_timer(session_timer(group.group_id, member_id))
        for member in group.members.values():
            if member.awaiting_join is not None:
                decision.reply(
                    member.awaiting_join,
                    joining.refused(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS),
                )
            if member.awaiting_sync is not None:
                decision.reply(
                    member.awaiting_sync,
                    SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS),
                )
            decision.cancel_timer(session_timer(group.group_id, member.member_id))
            self._sessions.keep_alive(
                group.group_id, member.member_id, member.session_timeout_ms, decision
            )
        return upgraded

    def _validate_upgrade(self, group: ClassicGroup) -> None:
        reason = None
        if self._config.consumer.migration_policy not in ("bidirectional", "upgrade"):
            reason = "online upgrade is disabled"
        elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            reason = "its members are not consumers"
        elif len(group.members) > self._config.consumer.max_size:
            reason = "it has more members than a consumer group may have"
        if reason is not None:
            text = (
                f"Cannot upgrade classic group {group.group_id} to a consumer group because"
                f" {reason}."
            )
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)

    # From consumer to classic

    def maybe_downgrade(
        self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], decision: GroupDecision
    ) -> bool:
        """Downgrade the group if all remaining members are classic, and begin a rebalance.

        The group stays if the migration policy forbids this, or if the classic group would be too
        large. Return whether the group was downgraded.
        """
        gone = {member.member_id for member in leaving}
        staying = [member for member in group.members.values() if member.member_id not in gone]
        if not staying or not self._may_be_classic(staying):
            return False
        classic = downgraded(group, staying, decision.wall_ms, self._image())
        if not self._fits(classic):
            return False
        records = tombstones(group)
        for member in group.members.values():
            self._sessions.end(group.group_id, member, decision)
        self._become(group, classic, records, decision)
        self._joining.rebalance_or_complete_join(classic, decision)
        return True

    def may_downgrade_by_replacing(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the group can be downgraded when a classic member replaces ``replaced``.

        ``replaced`` is a static member.
        """
        staying = [
            member for member in group.members.values() if member.member_id != replaced.member_id
        ]
        return (
            not replaced.is_classic
            and len(staying) < self._config.max_size
            and self._may_be_classic(staying)
        )

    def downgrade_by_replacing(
        self,
        group: ConsumerGroup,
        replaced: ConsumerMember,
        joined: ConsumerMember,
        decision: GroupDecision,
        *,
        is_rebalance_needed: bool,
    ) -> None:
        """Downgrade the group. ``joined`` replaces ``replaced`` and takes over its target.

        Both have the same instance id. The decision already holds the records of the replacement.
        A rebalance begins only if ``is_rebalance_needed``.
        """
        staying = [
            member for member in group.members.values() if member.member_id != replaced.member_id
        ]
        targets = {joined.member_id: group.target_of(replaced)}
        classic = downgraded(group, [*staying, joined], decision.wall_ms, self._image(), targets)
        records = tombstones(group, {replaced.member_id: joined.member_id})
        for member in (*staying, replaced):
            self._sessions.end(group.group_id, member, decision)
        self._become(group, classic, records, decision)
        if is_rebalance_needed:
            self._joining.rebalance_or_complete_join(classic, decision)

    def _may_be_classic(self, staying: Sequence[ConsumerMember]) -> bool:
        if self._config.consumer.migration_policy not in ("bidirectional", "downgrade"):
            return False
        return len(staying) <= self._config.max_size and all(
            member.is_classic for member in staying
        )

    def _fits(self, group: ClassicGroup) -> bool:
        """Whether the generation of the classic group fits into a record."""
        assigned_bytes = sum(len(member.assignment) for member in group.members.values())
        return group.subscription_bytes() + assigned_bytes <= self._config.max_metadata_record_bytes

    def _become(
        self,
        group: ConsumerGroup,
        classic: ClassicGroup,
        records: Sequence[ConsumerGroupRecord],
        decision: GroupDecision,
    ) -> None:
        """Replace the consumer group by the classic group at once, before the records are replayed.

        The next requests of the members then find the classic group. The generation record that is
        replayed later is older than the group in memory, so it is ignored.
        """
        self._groups[group.group_id] = classic
        decision.on_refused(partial(self._groups.__setitem__, group.group_id, group))
        self.ahead_of_log.add(group.group_id)
        decision.on_refused(partial(self.ahead_of_log.discard, group.group_id))
        decision.records.extend(records)
        decision.append(store_group(classic, decision.wall_ms))
        for member in classic.members.values():
            joining.keep_alive(classic, member, member.session_timeout_ms, decision)


def upgrade_records(
    group: ClassicGroup, image: MetadataImage, hash_of: Callable[[frozenset[str]], int]
) -> list[ConsumerGroupRecord]:
    """Return the records of an upgraded group. All members keep their assignments.

    Raises:
        ProtocolError: a subscription or an assignment cannot be decoded.
    """
    group_id, epoch = group.group_id, group.generation_id
    subscriptions: dict[str, Subscription] = {}
    targets: dict[str, Partitions] = {}
    for member in group.members.values():
        subscriptions[member.member_id] = _subscription_of_classic(member, group.protocol_name)
        targets[member.member_id] = assignment_of(member.assignment, image)
    topics = frozenset(
        topic for subscription in subscriptions.values() for topic in subscription.topics
    )
    records: list[ConsumerGroupRecord] = [
        SubscriptionRecord(group_id=group_id, member_id=member_id, content=content)
        for member_id, content in subscriptions.items()
    ]
    records.append(
        GroupEpochRecord(
            group_id=group_id, content=GroupEpoch(epoch=epoch, metadata_hash=hash_of(topics))
        )
    )
    records += [
        TargetRecord(group_id=group_id, member_id=member_id, content=content)
        for member_id, content in targets.items()
    ]
    records.append(TargetEpochRecord(group_id=group_id, content=TargetEpoch(epoch=epoch)))
    for member_id, partitions in targets.items():
        held = {
            topic_id: dict.fromkeys(sorted(indexes), epoch)
            for topic_id, indexes in partitions.items()
        }
        current = CurrentAssignment(epoch=epoch, previous_epoch=epoch, assigned=held)
        records.append(
            CurrentAssignmentRecord(group_id=group_id, member_id=member_id, content=current)
        )
    return records


def _subscription_of_classic(member: ClassicMember, protocol_name: str | None) -> Subscription:
    """Return a classic member's subscription under the selected protocol.

    Without metadata under that protocol, use the member's first protocol.
    """
    subscription = subscription_of(member.metadata_for(protocol_name) or member.protocols[0][1])
    return Subscription(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )


def downgraded(
    group: ConsumerGroup,
    staying: Sequence[ConsumerMember],
    wall_ms: int,
    image: MetadataImage,
    targets: dict[str, Partitions] | None = None,
) -> ClassicGroup:
    """Return the classic group of the ``staying`` members.

    The targets of the members become their assignments. ``targets`` holds the targets that differ
    from the ones in ``group``.
    """
    classic = ClassicGroup(
        group.group_id,
        state=GroupState.STABLE,
        state_since_ms=wall_ms,
        generation_id=group.epoch.epoch,
    )
    for member in staying:
        classic.add(_classic_member(member))
    classic.protocol_name = classic.select_protocol()
    classic.note_subscriptions()
    for member in staying:
        target = (targets or {}).get(member.member_id)
        joined = classic.members[member.member_id]
        partitions = group.target_of(member) if target is None else target
        classic.assign(
            joined, encode_assignment(partitions, image, joined.metadata_for(classic.protocol_name))
        )
    return classic


def _classic_member(member: ConsumerMember) -> ClassicMember:
    subscription = member.subscription
    assert subscription.classic is not None, (
        f"{member.member_id} does not speak the classic protocol"
    )
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        session_timeout_ms=subscription.classic.session_timeout_ms,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=subscription.classic.protocols,
        is_new=False,
    )
