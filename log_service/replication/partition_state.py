"""One replica's view of leadership, in-sync replicas (ISR) and high watermark.

This file decides

- who leads in which epoch, as the metadata says;
- the high watermark: the lowest log end of this replica and of the followers that it waits for;
- the ISR that the leader proposes, and the effect of the controller's response or of newer metadata
  on a proposal;
- how far a consumer may read, and when an append is acknowledged.

It reads no clock and calls neither the log nor the network. The caller passes in the time, and
every append, sync and fetch. Open transactions are not passed in one by one, because
``hold_stable_by`` takes the log's own object that holds them. Each call returns its changes, so
that the caller can announce them. Every record passes through here, so an append is only a few
assignments if the log end alone decides the high watermark.

The high watermark waits for every follower of the *maximal* ISR, which is the union of the
committed ISR and the proposed one (KIP-497). The controller may have accepted either, and may elect
any of its members. The high watermark also waits for a follower that is caught up and may join the
ISR. Otherwise it could stay ahead of this follower forever. The high watermark does not move while
the committed ISR has fewer members than ``min.insync.replicas`` (KIP-966), because an eligible
leader replica outside the ISR must hold all records below it.

Invariants:

- The high watermark never passes this replica's log end, or its synced end if records are synced
  first. It never passes the last known log end of a member of the maximal ISR.
- The high watermark never goes back while this node leads.
- The last stable offset never passes the high watermark.
- At most one proposal is in progress.
- Metadata of an older partition epoch changes nothing, because a newer response of the controller
  may have arrived first.
"""

from collections.abc import Mapping
from enum import Enum, Flag, auto
from types import MappingProxyType
from typing import NamedTuple

from log_service.common.errors import ErrorCode
from log_service.common.types import NO_LEADER_EPOCH, NO_NODE
from log_service.metadata.observers import NO_OBSERVERS
from log_service.metadata.partition import PartitionRegistration
from log_service.replication.follower_state import NO_BROKER_EPOCH, FollowerState, is_far_enough
from log_service.storage.unstable_transactions import UnstableTransactions

NO_PARTITION_EPOCH = -1
DEFAULT_LAG_MAX_MS = 30_000
_NO_LIMIT = (1 << 63) - 1

_PROPOSAL_IS_VOID = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Errors after which the controller has certainly not accepted the proposal.

The committed ISR stays valid.
"""
_METADATA_DECIDES = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors after which the proposal stays until metadata arrives.

The controller has newer metadata than this leader, or has already accepted the proposal.
"""


def high_watermark_of_follower(leader_high_watermark: int, log_end_offset: int) -> int:
    """Return the leader's high watermark, or the follower's log end if that is lower."""
    return min(leader_high_watermark, log_end_offset)


class Change(Flag):
    """The changes that one call made to the state of a partition.

    The caller notifies listeners and waiting requests of them.
    """

    NOTHING = 0
    LED = auto()
    """This node now leads, in an epoch in which it did not lead before."""
    LOST = auto()
    """This node no longer leads."""
    HIGH_WATERMARK = auto()
    MUST_RESEND = auto()
    """The proposal has to be sent again."""


class Isolation(Enum):
    """Isolation levels, which set how far a consumer may read (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1

    @classmethod
    def of(cls, level: int) -> "Isolation":
        """Return the isolation level of a request.

        An unknown level is read_uncommitted, as in Apache Kafka.
        """
        return cls.READ_COMMITTED if level == 1 else cls.READ_UNCOMMITTED


class IsrProposal(NamedTuple):
    """An ISR that the leader proposes to the controller, for the partition epoch that it knows.

    ``members`` holds pairs of broker id and broker epoch. The broker epoch is the one of the
    member's last fetch. It is -1 for the leader, because the request already holds the leader's
    epoch. It is also -1 for a member that has not fetched since this node leads (KIP-903).
    ``is_expansion`` is true if the proposed ISR is larger than the committed one.
    """

    members: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    is_expansion: bool

    @property
    def isr(self) -> tuple[int, ...]:
        """The proposed members."""
        return tuple(broker_id for broker_id, _ in self.members)


_NO_FOLLOWERS: Mapping[int, FollowerState] = MappingProxyType({})


class PartitionState:
    """One replica of a partition on node ``node_id``.

    All code may read the public attributes. Only the methods of this class change them.

    - ``is_synced_first`` is true with ``flush.messages=1``. A record of this replica then counts
      for acks=1 and the high watermark only after it is synced.
    - ``unstable`` holds the log's open transactions, which hold the last stable offset back. It is
      None before the first transaction.
    - ``last_stable_offset`` is the limit for ``read_committed`` consumers. It is the first offset
      of the open transactions, but at most the high watermark.
    - ``is_safe_at_once`` is true if this replica's log end alone decides the high watermark.
    - ``is_under_min_isr`` is true if fewer replicas are in sync than the topic requires. No
      partition needs more than it has replicas.
    - ``eligible_brokers`` maps each broker that may be in an ISR to its broker epoch. Such a broker
      is neither fenced nor shutting down. The caller sets this attribute from the metadata and
      calls ``look_again``.
    """

    __slots__ = (
        "_awaited",
        "_awaits_isr_alone",
        "eligible_brokers",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "is_leader",
        "is_safe_at_once",
        "is_synced_first",
        "is_under_min_isr",
        "isr",
        "lag_max_ms",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_end_offset",
        "min_insync_replicas",
        "node_id",
        "observers",
        "partition_epoch",
        "proposal",
        "registration",
        "synced_end_offset",
        "unstable",
    )

    def __init__(
        self,
        node_id: int,
        *,
        log_end_offset: int = 0,
        synced_end_offset: int = 0,
        high_watermark: int = 0,
        min_insync_replicas: int = 1,
        is_synced_first: bool = False,
        lag_max_ms: int = DEFAULT_LAG_MAX_MS,
    ) -> None:
        self.node_id = node_id
        self.is_leader = False
        self.leader: int = NO_NODE
        self.leader_epoch: int = NO_LEADER_EPOCH
        self.partition_epoch = NO_PARTITION_EPOCH
        self.registration: PartitionRegistration | None = None
        self.isr: tuple[int, ...] = ()
        self.proposal: IsrProposal | None = None
        self.followers: Mapping[int, FollowerState] = _NO_FOLLOWERS
        self.eligible_brokers: Mapping[int, int] = {}
        self.observers = NO_OBSERVERS
        self.log_end_offset = log_end_offset
        self.synced_end_offset = synced_end_offset
        self.high_watermark = min(high_watermark, log_end_offset)
        self.unstable: UnstableTransactions | None = None
        self.last_stable_offset = self.high_watermark
        self.epoch_start_offset = 0
        self.min_insync_replicas = min_insync_replicas
        self.is_synced_first = is_synced_first
        self.lag_max_ms = lag_max_ms
        self._awaited: tuple[FollowerState, ...] = ()
        self._awaits_isr_alone = True
        self.is_safe_at_once = False
        self.is_under_min_isr = False

    @property
    def awaited_followers(self) -> tuple[FollowerState, ...]:
        """The followers whose log ends hold the high watermark back."""
        return self._awaited

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        isr = ",".join(map(str, self.isr))
        return (
            f"<PartitionState {role} epoch={self.leader_epoch} hw={self.high_watermark}"
            f" end={self.log_end_offset} isr={isr}>"
        )

    # Replicas

    @property
    def replicas(self) -> tuple[int, ...]:
        """All replicas, including those that are being added or removed."""
        return () if self.registration is None else self.registration.replicas

    @property
    def adding_replicas(self) -> tuple[int, ...]:
        """The replicas that a reassignment adds."""
        return () if self.registration is None else self.registration.adding_replicas

    @property
    def removing_replicas(self) -> tuple[int, ...]:
        """The replicas that a reassignment removes."""
        return () if self.registration is None else self.registration.removing_replicas

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The members of the committed ISR and of the proposed one."""
        return (
            frozenset(self.isr)
            if self.proposal is None
            else frozenset((*self.isr, *self.proposal.isr))
        )

    # Offsets

    @property
    def own_end_offset(self) -> int:
        """The end of this replica's records that count for acks=1 and the high watermark.

        It is the synced end with ``flush.messages=1``, and otherwise the log end.
        """
        return self.synced_end_offset if self.is_synced_first else self.log_end_offset

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark has reached the start of the leader epoch (KIP-207).

        Consumers may have read records up to this offset from an earlier leader.
        """
        return self.high_watermark >= self.epoch_start_offset

    def read_limit(self, isolation: Isolation) -> int:
        """Return the offset below which a consumer may read."""
        return (
            self.high_watermark
            if isolation is Isolation.READ_UNCOMMITTED
            else self.last_stable_offset
        )

    def acknowledgement(
        self, leader_epoch: int, required_offset: int, *, needs_all: bool
    ) -> ErrorCode | None:
        """Return the result of an append, or None while it still waits for replicas or a sync.

        The append was made in ``leader_epoch`` and ended at ``required_offset``. With ``needs_all``
        (acks=all), the high watermark must reach this offset. Otherwise only this replica must have
        the records.
        """
        if not self.is_leader or leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if (self.high_watermark if needs_all else self.own_end_offset) < required_offset:
            return None
        return (
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            if needs_all and self.is_under_min_isr
            else ErrorCode.NONE
        )

    # Metadata

    def apply(self, registration: PartitionRegistration, *, is_online: bool, now_ms: int) -> Change:
        """Apply the partition's metadata. A replica whose log is not ``is_online`` never leads.

        A proposal for the same partition epoch stays, because the controller may still accept it.
        """
        if registration.partition_epoch < self.partition_epoch:
            return Change.NOTHING
        was_leader = self.is_leader
        is_new_epoch = not was_leader or registration.leader_epoch != self.leader_epoch
        made_against = (
            None
            if self.proposal is None
            else (self.proposal.leader_epoch, self.proposal.partition_epoch)
        )
        if made_against != (registration.leader_epoch, registration.partition_epoch):
            self.proposal = None
        self.registration, self.isr = registration, registration.isr
        self.leader, self.leader_epoch = registration.leader, registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.is_leader = is_online and registration.leader == self.node_id
        if not self.is_leader:
            self._forget_followers()
            return Change.LOST if was_leader else Change.NOTHING
        if is_new_epoch:
            self.epoch_start_offset = self.log_end_offset
        if len(registration.replicas) > 1:
            self._lead_followers(
                registration,
                self.followers if was_leader else _NO_FOLLOWERS,
                now_ms,
                is_new_epoch=is_new_epoch,
            )
        else:
            self.followers = _NO_FOLLOWERS
        change = self.look_again(now_ms)
        if is_new_epoch:
            # ``|`` is avoided if possible, because it costs a call of the enum.
            return Change.LED if change is Change.NOTHING else Change.LED | change
        return change

    def _lead_followers(
        self,
        registration: PartitionRegistration,
        known: Mapping[int, FollowerState],
        now_ms: int,
        *,
        is_new_epoch: bool,
    ) -> None:
        """Track the progress of all other replicas.

        The progress of ``known`` followers is retained, even in a new epoch.
        """
        self.followers = {
            id_: known.get(id_) or FollowerState()
            for id_ in registration.replicas
            if id_ != self.node_id
        }
        for broker_id, follower in self.followers.items():
            if is_new_epoch or broker_id not in known:
                follower.begin_epoch(self.log_end_offset, now_ms, is_in_sync=broker_id in self.isr)

    def retire(self) -> Change:
        """Stop serving the partition, because it is deleted or this node is no longer a replica."""
        was_leader, self.is_leader = self.is_leader, False
        self.leader, self.isr = NO_NODE, ()
        self._forget_followers()
        return Change.LOST if was_leader else Change.NOTHING

    def reconfigure(
        self, *, min_insync_replicas: int, is_synced_first: bool, now_ms: int
    ) -> Change:
        """Apply the topic's configuration."""
        self.min_insync_replicas, self.is_synced_first = min_insync_replicas, is_synced_first
        return self.look_again(now_ms)

    def hold_stable_by(self, unstable: UnstableTransactions | None) -> None:
        """Bound the last stable offset by ``unstable``, the open transactions of the log.

        None means that no transaction can be open.
        """
        self.unstable = unstable
        self._move_to(self.high_watermark)

    # Changes of the log

    def note_append(self, log_end_offset: int) -> bool:
        """Apply the leader's new log end. Return whether the high watermark moved."""
        self.log_end_offset = log_end_offset
        if self.is_safe_at_once:
            self.high_watermark = self.last_stable_offset = log_end_offset
            if self.unstable is not None:
                self.last_stable_offset = self.unstable.settle(log_end_offset)
            return True
        return self.advance_high_watermark()

    def note_sync(self, synced_end_offset: int) -> bool:
        """Apply the offset up to which this replica's log is synced.

        Return whether ``own_end_offset`` or the high watermark moved.
        """
        is_moved = self.is_synced_first and synced_end_offset > self.synced_end_offset
        self.synced_end_offset = synced_end_offset
        return self.advance_high_watermark() or is_moved

    def note_fetch(
        self, broker_id: int, offset: int, *, log_start_offset: int, broker_epoch: int, now_ms: int
    ) -> Change:
        """Apply a follower's fetch. ``offset`` is the follower's log end.

        The caller does not report a fetch that diverges from this log. A fetch by a member of the
        ISR cannot change the ISR. Therefore only the high watermark is checked, and only if the
        follower's log has grown. Other inputs of the high watermark are checked when they change.
        """
        follower = self.followers[broker_id]
        has_moved = offset != follower.log_end_offset
        follower.note_fetch(offset, log_start_offset, broker_epoch, self.log_end_offset, now_ms)
        if not self._awaits_isr_alone or broker_id not in self.isr:
            return self.look_again(now_ms)
        return (
            Change.HIGH_WATERMARK if has_moved and self.advance_high_watermark() else Change.NOTHING
        )

    def note_follower_append(self, log_end_offset: int) -> None:
        """Apply this follower's new log end."""
        self.log_end_offset = log_end_offset

    def follow_high_watermark(self, leader_high_watermark: int) -> bool:
        """Apply the leader's high watermark, bounded by this log's end. Return whether it moved.

        The high watermark never decreases. A new leader may know a lower one, but records below the
        old high watermark remain committed.
        """
        reached = high_watermark_of_follower(leader_high_watermark, self.log_end_offset)
        if reached <= self.high_watermark:
            return False
        self._move_to(reached)
        return True

    def note_truncation(self, log_end_offset: int) -> None:
        """Apply the truncation of this follower's log to ``log_end_offset``."""
        self.log_end_offset = log_end_offset
        self.synced_end_offset = min(self.synced_end_offset, log_end_offset)
        self._move_to(min(self.high_watermark, log_end_offset))

    def note_restart(self, offset: int) -> None:
        """Apply the restart of this follower's log at ``offset``.

        All records below ``offset`` were committed, and have been deleted.
        """
        self.log_end_offset = self.synced_end_offset = offset
        self._move_to(offset)

    def look_again(self, now_ms: int) -> Change:
        """Recompute the followers that the high watermark waits for.

        They may change with time or with ``eligible_brokers``.
        """
        if not self.is_leader:
            return Change.NOTHING
        self.is_under_min_isr = len(self.isr) < self._needed_isr_count
        self._awaited, self._awaits_isr_alone = (), True
        if self.followers:
            maximal = self.maximal_isr
            self._awaited = self._followers_to_wait_for(maximal, now_ms)
            self._awaits_isr_alone = len(self._awaited) <= len(maximal) - (self.node_id in maximal)
        self.is_safe_at_once = (
            not self._awaited and not self.is_synced_first and not self.is_under_min_isr
        )
        return Change.HIGH_WATERMARK if self.advance_high_watermark() else Change.NOTHING

    def _followers_to_wait_for(
        self, maximal: frozenset[int], now_ms: int
    ) -> tuple[FollowerState, ...]:
        return tuple(
            follower
            for broker_id, follower in self.followers.items()
            if broker_id in maximal
            or (
                follower.is_caught_up(self.log_end_offset, now_ms, self.lag_max_ms)
                and self._is_eligible(broker_id, follower)
            )
        )

    def _forget_followers(self) -> None:
        self.followers, self._awaited, self.proposal, self.is_safe_at_once = (
            _NO_FOLLOWERS,
            (),
            None,
            False,
        )

    def advance_high_watermark(self) -> bool:
        """Move the high watermark up to the end that all awaited replicas have reached.

        Return whether it moved.
        """
        if not self.is_leader or self.is_under_min_isr:
            return False
        reached = min(
            (self.own_end_offset, *(follower.log_end_offset for follower in self._awaited))
        )
        if reached <= self.high_watermark:
            return False
        self._move_to(reached)
        return True

    def _move_to(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self.last_stable_offset = (
            high_watermark if self.unstable is None else self.unstable.settle(high_watermark)
        )

    # The in-sync replicas

    @property
    def low_watermark(self) -> int:
        """The lowest log start of live followers that are not observers.

        It is -1 if one of them has not fetched yet, and the highest possible offset if there are
        none.
        """
        starts = [
            follower.log_start_offset
            for id_, follower in self.followers.items()
            if id_ in self.eligible_brokers and id_ not in self.observers.node_ids
        ]
        return min(starts, default=_NO_LIMIT)

    def propose_expansion(self, broker_id: int) -> IsrProposal | None:
        """Propose that a follower joins the ISR, if it may join and no proposal is in progress.

        The follower must have all records below the high watermark and all records from before the
        leader epoch. It must also be eligible (KIP-841, KIP-903).
        """
        follower = self.followers.get(broker_id)
        if (
            follower is None
            or self.proposal is not None
            or broker_id in self.isr
            or not self._is_eligible(broker_id, follower)
        ):
            return None
        if not is_far_enough(follower.log_end_offset, self.high_watermark, self.epoch_start_offset):
            return None
        return self._propose((*self.isr, broker_id))

    def propose_shrink(self, now_ms: int) -> IsrProposal | None:
        """Propose the ISR without lagging followers and without needless observers.

        A follower lags if it has not been caught up within the lag time. Return None if no member
        would leave, or if a proposal is in progress.
        """
        if not self.is_leader or self.proposal is not None:
            return None
        lagging = {
            broker_id
            for broker_id, follower in self.followers.items()
            if broker_id in self.isr
            and not follower.is_caught_up(self.log_end_offset, now_ms, self.lag_max_ms)
        }
        leaving = lagging | self._needless_observers()
        return (
            self._propose(tuple(broker_id for broker_id in self.isr if broker_id not in leaving))
            if leaving
            else None
        )

    def accept_isr(
        self,
        proposal: IsrProposal,
        isr: tuple[int, ...],
        leader_epoch: int,
        partition_epoch: int,
        now_ms: int,
    ) -> Change:
        """Apply the ISR of the controller's response.

        If newer metadata arrived before the response, the response has no effect.
        """
        if (
            self.proposal is not proposal
            or leader_epoch != self.leader_epoch
            or partition_epoch < self.partition_epoch
        ):
            return Change.NOTHING
        self.isr, self.partition_epoch, self.proposal = isr, partition_epoch, None
        return self.look_again(now_ms)

    def refuse_isr(self, proposal: IsrProposal, code: ErrorCode, now_ms: int) -> Change:
        """Apply the controller's refusal of a proposal.

        The code decides what follows. The committed ISR becomes valid again, or the proposal stays
        until metadata arrives, or the caller sends the proposal again.
        """
        if self.proposal is not proposal or code in _METADATA_DECIDES:
            return Change.NOTHING
        if code not in _PROPOSAL_IS_VOID:
            return Change.MUST_RESEND
        self.proposal = None
        return self.look_again(now_ms)

    def _propose(self, isr: tuple[int, ...]) -> IsrProposal:
        members = tuple(
            (id_, NO_BROKER_EPOCH if id_ == self.node_id else self.followers[id_].broker_epoch)
            for id_ in isr
        )
        self.proposal = IsrProposal(
            members, self.leader_epoch, self.partition_epoch, is_expansion=len(isr) > len(self.isr)
        )
        self._awaited = tuple(
            dict.fromkeys(
                (*self._awaited, *(self.followers[id_] for id_ in isr if id_ != self.node_id))
            )
        )
        self.is_safe_at_once = self.is_safe_at_once and not self._awaited
        return self.proposal

    @property
    def _needed_isr_count(self) -> int:
        return min(self.min_insync_replicas, len(self.replicas))

    def _needless_observers(self) -> set[int]:
        """Return the observers that have to leave the ISR, if ``Observers.are_needed`` is false.

        The leader itself is left out until another replica is elected.
        """
        if not self.observers.node_ids or self.observers.are_needed(
            self.isr, self._needed_isr_count
        ):
            return set()
        return {
            broker_id
            for broker_id in self.isr
            if broker_id in self.observers.node_ids and broker_id != self.node_id
        }

    def _is_eligible(self, broker_id: int, follower: FollowerState) -> bool:
        """Return whether a follower may be in the ISR.

        Its broker must be eligible, in the broker epoch of the last fetch. An observer may join
        only if ``Observers.are_needed`` is true.
        """
        if broker_id in self.observers.node_ids and not self.observers.are_needed(
            self.isr, self._needed_isr_count
        ):
            return False
        epoch = self.eligible_brokers.get(broker_id)
        return epoch is not None and follower.broker_epoch in (NO_BROKER_EPOCH, epoch)
