"""Remove members of a consumer group that leave, fall silent, take too long, or are replaced.

A member is replaced when its instance id joins under another member id. Its target and assignment
then move to the new member id. Before a member is removed for another reason, ``GroupMigration``
checks whether the remaining members become a classic group, and builds that group. Otherwise this
file appends the tombstones of the member, and begins a new epoch without it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.sessions import ConsumerSessions
from log_service.coordinator.group.consumer.steps import ConsumerSteps
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.records.consumer import (
    CurrentAssignmentRecord,
    RegexRecord,
    SubscriptionRecord,
    TargetRecord,
)
from log_service.coordinator.group.values.consumer_member import (
    ConsumerMember,
    MemberState,
    Subscription,
)
from log_service.coordinator.group.values.epochs import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]
MaybeDowngrade = Callable[[ConsumerGroup, Sequence[ConsumerMember], GroupDecision], bool]
"""Turns the remaining members into a classic group if they should be one.

Returns whether it did.
"""


class ConsumerRemovals:
    """Removes members of one shard's consumer groups."""

    def __init__(
        self, steps: ConsumerSteps, sessions: ConsumerSessions, maybe_downgrade: MaybeDowngrade
    ) -> None:
        self._steps = steps
        self._sessions = sessions
        self._maybe_downgrade = maybe_downgrade

    def remove(
        self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], decision: GroupDecision
    ) -> None:
        """Remove members. The group begins a new epoch or becomes a classic group."""
        if self._maybe_downgrade(group, leaving, decision):
            return
        gone = {member.member_id for member in leaving}
        for member in leaving:
            self._append_removal(group, member, decision)
        staying = [member for member in group.members.values() if member.member_id not in gone]
        used = {member.subscription.regex for member in staying}
        for regex in sorted({member.subscription.regex for member in leaving} - used - {""}):
            decision.append(RegexRecord(group_id=group.group_id, regex=regex, content=None))
        self._steps.next_epoch(group, group.topics_of(staying), decision)

    def _append_removal(
        self, group: ConsumerGroup, member: ConsumerMember, decision: GroupDecision
    ) -> None:
        group_id, member_id = group.group_id, member.member_id
        decision.append(
            CurrentAssignmentRecord(group_id=group_id, member_id=member_id, content=None)
        )
        decision.append(TargetRecord(group_id=group_id, member_id=member_id, content=None))
        decision.append(SubscriptionRecord(group_id=group_id, member_id=member_id, content=None))
        self._sessions.end(group_id, member, decision)

    # Static members

    def join_statically(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        decision: GroupDecision,
        *,
        is_classic: bool,
    ) -> tuple[ConsumerMember, str | None]:
        """Return a joining static member, and the id of the member that it replaces, if any.

        Raises:
            KafkaError: UNRELEASED_INSTANCE_ID, both members use the consumer protocol and the
                previous one has not left.
        """
        holder = group.static_member(instance_id)
        if holder is None:
            known = group.members.get(member_id)
            return (known or ConsumerMember(member_id=member_id, subscription=Subscription())), None
        has_to_leave_first = not is_classic and not holder.is_classic
        if has_to_leave_first and holder.current.epoch != STATIC_LEAVE_EPOCH:
            text = (
                f"Static member {member_id} with instance id {instance_id} cannot join the group"
                f" because the instance id is owned by member {holder.member_id}."
            )
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        return self._replaced(group, holder, member_id, decision), holder.member_id

    def _replaced(
        self, group: ConsumerGroup, holder: ConsumerMember, member_id: str, decision: GroupDecision
    ) -> ConsumerMember:
        """Move a static member's target and assignment to another member id.

        Return the member under its new id.
        """
        current = replace(holder.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        member = ConsumerMember(
            member_id=member_id, subscription=holder.subscription, current=current
        )
        self._append_removal(group, holder, decision)
        group_id = group.group_id
        decision.append(
            SubscriptionRecord(group_id=group_id, member_id=member_id, content=member.subscription)
        )
        decision.append(
            TargetRecord(group_id=group_id, member_id=member_id, content=group.target_of(holder))
        )
        decision.append(
            CurrentAssignmentRecord(group_id=group_id, member_id=member_id, content=current)
        )
        return member

    # Time

    def on_session_timer(
        self, group: ConsumerGroup, member_id: str, decision: GroupDecision
    ) -> None:
        """Remove a member that has sent no heartbeat for a whole session."""
        member = group.members.get(member_id)
        if member is not None and self._sessions.is_over(group.group_id, member_id, decision):
            self.remove(group, [member], decision)

    def on_rebalance_timer(
        self, group: ConsumerGroup, member_id: str, epoch: int, decision: GroupDecision
    ) -> None:
        """Remove a member that has not revoked its partitions in time."""
        member = group.members.get(member_id)
        if (
            member is not None
            and member.current.epoch == epoch
            and member.current.state is MemberState.UNREVOKED_PARTITIONS
        ):
            self.remove(group, [member], decision)

    def on_classic_timer(
        self, group: ConsumerGroup, member_id: str, decision: GroupDecision
    ) -> None:
        """Remove a classic member that has not rejoined or synced in time."""
        member = group.members.get(member_id)
        if member is not None and member.is_classic:
            self.remove(group, [member], decision)


def known(member: ConsumerMember | None, member_id: str, group: ConsumerGroup) -> ConsumerMember:
    """Return the member, or raise an error if there is none.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID.
    """
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def holder_of(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the static member that has an instance id.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, no member has the instance id. FENCED_INSTANCE_ID, the member
            has another member id than ``member_id``.
    """
    holder = group.static_member(instance_id)
    if holder is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Instance id {instance_id} is unknown in group {group.group_id}.",
        )
    if holder.member_id != member_id:
        text = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {holder.member_id}."
        )
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, text)
    return holder
