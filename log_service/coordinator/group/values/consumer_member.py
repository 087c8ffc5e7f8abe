"""One member of a consumer group (KIP-848), as values: its subscription and its current assignment.

The subscription and the assignment are stored in separate records, because they change at different
times. A subscription changes with the member's request. A current assignment changes when the
coordinator reconciles the member with its target. This file decides nothing.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from log_service.coordinator.group.values.epochs import JOIN_EPOCH
from log_service.coordinator.group.values.partitions import HeldPartitions


class MemberState(IntEnum):
    """The progress of a member towards its target. The log stores the values."""

    STABLE = 0
    """The member holds its target in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions before it may enter the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """The member is in its target's epoch, and waits for partitions that others still hold."""
    UNKNOWN = 127
    """A state that a newer version of the software wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMetadata:
    """Additional metadata of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The subscription and metadata of a member.

    ``topics`` is sorted. An empty ``regex`` means that there is no expression. Times are in
    milliseconds.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """The partitions that a member holds, its epoch, and its pending revocations."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: HeldPartitions = field(default_factory=dict)
    pending_revocation: HeldPartitions = field(default_factory=dict)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has reached the target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member: its id, its subscription and its current assignment."""

    member_id: str
    subscription: Subscription
    current: CurrentAssignment = field(default_factory=CurrentAssignment)

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.subscription.classic is not None
