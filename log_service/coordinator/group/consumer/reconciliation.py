"""The next step of one member from its current assignment to its target (KIP-848).

``reconcile`` decides from the member's state, its target and the partitions that the member
reports. It keeps the two guarantees of the protocol. A partition is assigned to a member only if no
other member holds it. A member enters a new epoch only after it has revoked the partitions that it
loses. This file does not know groups, the log or time.

| state | when | next |
|---|---|---|
| STABLE | its epoch is the target's | stay |
| STABLE | another epoch | compute |
| UNREVOKED_PARTITIONS | it still owns partitions to revoke, or does not report | stay |
| UNREVOKED_PARTITIONS | it has revoked all of them | compute |
| UNRELEASED_PARTITIONS | always | compute |
| UNKNOWN | it owns partitions, or does not report | FENCED_MEMBER_EPOCH |
| UNKNOWN | it owns nothing | compute |

*Stay* keeps the epoch, and revokes only partitions of topics that are no longer subscribed to.

*Compute* keeps the partitions that are both held and in the target. If the member still owns some
of the rest, it stays in its epoch as UNREVOKED_PARTITIONS. Otherwise it enters the target's epoch
and gets the partitions that no member holds. It becomes UNRELEASED_PARTITIONS if some are still
missing.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.values.consumer_member import CurrentAssignment, MemberState
from log_service.coordinator.group.values.partitions import (
    NOTHING_HELD,
    HeldPartitions,
    Partitions,
    merged,
    overlaps,
    split,
)

IsHeld = Callable[[UUID, int], bool]
"""Tells whether another member holds a partition, or has not confirmed its revocation yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A member's target assignment in ``epoch``.

    ``wanted_topics`` holds the ids of the topics that the member subscribes to now.
    """

    epoch: int
    partitions: Partitions
    wanted_topics: Collection[UUID]
    has_new_subscription: bool = False


def reconcile(
    current: CurrentAssignment, target: Target, owned: Partitions | None, is_held: IsHeld
) -> CurrentAssignment:
    """Return the member's next assignment, which may equal the current one.

    ``owned`` holds the partitions that the member reports, or None if it does not report.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH, the member must join again.
    """
    match current.state:
        case MemberState.STABLE if current.epoch == target.epoch:
            return _without_unwanted(current, target, owned)
        case MemberState.UNREVOKED_PARTITIONS if still_owns(owned, current.pending_revocation):
            return _without_unwanted(current, target, owned)
        case MemberState.UNKNOWN if owned is None or owned:
            text = (
                "the member's state was written by a newer version; it has to give up its"
                " partitions and join again"
            )
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        case _:
            return _computed(current, target, owned, is_held)


def still_owns(owned: Partitions | None, lost: HeldPartitions) -> bool:
    """Return whether the member may still consume a partition that it must revoke.

    This holds until the member reports that it owns none of these partitions.
    """
    return bool(lost) and (owned is None or overlaps(owned, lost))


def _without_unwanted(
    current: CurrentAssignment, target: Target, owned: Partitions | None
) -> CurrentAssignment:
    """Return the assignment with partitions of unsubscribed topics revoked.

    The member keeps its epoch. It becomes UNREVOKED_PARTITIONS while it still owns such partitions.
    """
    if not target.has_new_subscription:
        return current
    unwanted = {
        topic_id: epochs
        for topic_id, epochs in current.assigned.items()
        if topic_id not in target.wanted_topics
    }
    pending = merged(current.pending_revocation, unwanted)
    if not pending:
        return current
    kept = {
        topic_id: epochs
        for topic_id, epochs in current.assigned.items()
        if topic_id not in unwanted
    }
    if still_owns(owned, pending):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(
            current,
            state=state,
            previous_epoch=current.epoch,
            assigned=kept,
            pending_revocation=pending,
        )
    return replace(current, previous_epoch=current.epoch, assigned=kept)


def _computed(
    current: CurrentAssignment, target: Target, owned: Partitions | None, is_held: IsHeld
) -> CurrentAssignment:
    wanted = {
        topic_id: indexes
        for topic_id, indexes in target.partitions.items()
        if topic_id in target.wanted_topics
    }
    kept, lost = split(current.assigned, wanted)
    if still_owns(owned, lost):
        state = MemberState.UNREVOKED_PARTITIONS
        return replace(
            current,
            state=state,
            previous_epoch=current.epoch,
            assigned=kept,
            pending_revocation=lost,
        )
    added: dict[UUID, dict[int, int]] = {}
    is_something_missing = False
    for topic_id, indexes in wanted.items():
        missing = indexes - kept.get(topic_id, {}).keys()
        free = {index: target.epoch for index in sorted(missing) if not is_held(topic_id, index)}
        is_something_missing = is_something_missing or len(free) < len(missing)
        if free:
            added[topic_id] = free
    return CurrentAssignment(
        epoch=target.epoch,
        previous_epoch=current.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if is_something_missing else MemberState.STABLE,
        assigned=merged(kept, added),
        pending_revocation=NOTHING_HELD,
    )
