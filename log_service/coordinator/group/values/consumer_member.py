"""One member of a consumer group (KIP-848), as values: what it asked for, and what it holds.

The two halves are stored apart, because they change at different times: a subscription when the member says so, a current assignment when
the coordinator reconciles the member with its target. Nothing is decided here.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from log_service.coordinator.group.values.epochs import JOIN_EPOCH
from log_service.coordinator.group.values.partitions import HeldPartitions


class MemberState(IntEnum):
    """How far a member is on its way to its target. The values are stored."""

    STABLE = 0
    """It holds what it is to hold in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions up before it may enter the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the epoch, and waits for partitions that other members still hold."""
    UNKNOWN = 127
    """A state that newer software wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMetadata:
    """What a member that speaks the classic protocol said beside its subscription."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member asked for. ``topics`` is sorted; an empty ``regex`` is none. Times in milliseconds."""

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
    """What a member holds, in which epoch, and what of it the member has yet to give up."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: HeldPartitions = field(default_factory=dict)
    pending_revocation: HeldPartitions = field(default_factory=dict)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether nothing is left to do for that target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member."""

    member_id: str
    subscription: Subscription
    current: CurrentAssignment = field(default_factory=CurrentAssignment)

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.subscription.classic is not None
