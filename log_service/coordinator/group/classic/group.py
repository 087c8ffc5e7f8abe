"""One group of the classic protocol: its members, its generation, and the table of its states.

This file decides which protocol all members share, which member leads, and whether all members have
joined. It does not know requests, timers, records or the log. ``joining`` and ``membership`` change
groups. Before a change, they stage the group and its members in their ``Decision``. If the decision
is refused, its changes are reverted. Members that have joined since the last stored generation
exist only here and not in the log. A pending member is a member id that was handed out but has not
joined yet.

Invariants: A state changes only along ``TRANSITIONS``. The leader is a member or None.
``static_members`` holds the member id of every static member. Outside of EMPTY and DEAD there is at
least one member or one pending member. ``joined_count``, ``supporters``, ``protocol_bytes`` and
``assignment_bytes`` equal sums over all members. The sums are stored because every request needs
them. Therefore only the group changes a member's open join, protocols and assignment, and the
decision stages both the group and the member.

Source: the classic group protocol as of Kafka 4.3 with KIP-134, KIP-345, KIP-394, KIP-559 and
KIP-800.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from log_service.common.errors import ErrorCode, ProtocolError
from log_service.common.java_hashing import in_hash_map_order
from log_service.coordinator.group.classic.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    subscribed_topics_of,
)
from log_service.coordinator.group.member_sessions import Session

Protocols = tuple[tuple[str, bytes], ...]


class GroupState(Enum):
    """The states of a classic group.

    The values are their names in ListGroups and DescribeGroups.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """One member. ``awaiting_join`` and ``awaiting_sync`` identify its open requests, if any."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = True
    awaiting_join: Hashable | None = None
    awaiting_sync: Hashable | None = None
    session: Session = field(default_factory=Session)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the protocol that the member prefers among ``candidates``.

        The member must support all candidates.
        """
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class ClassicGroup:
    """The members of one group and their generation."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int | None = None
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_join_members: dict[str, None] = field(default_factory=dict)
    pending_sync_members: set[str] = field(default_factory=set)
    subscribed_topics: frozenset[str] | None = None
    """The topics that the consumers of this generation subscribe to.

    None means that the topics are unknown. Either the members are not consumers, or there is no
    generation, or the metadata cannot be decoded.
    """
    has_new_member_joined: bool = False
    initial_delay_remaining_ms: int | None = None
    joined_count: int = 0
    """The number of members with an open join."""
    supporters: dict[str, int] = field(default_factory=dict)
    """The number of members that support a protocol, by its name."""
    protocol_bytes: int = 0
    """The size of all members' metadata under all their protocols."""
    assignment_bytes: int = 0
    """The size of all members' assignments."""

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id!r} {self.state.value} generation={self.generation_id}"
            f" members={len(self.members)}>"
        )

    def is_in(self, *states: GroupState) -> bool:
        """Whether the group is in one of ``states``."""
        return self.state in states

    def transition_to(self, state: GroupState, wall_ms: int) -> None:
        """Change the state. A change that is not in ``TRANSITIONS`` is a bug (assertion)."""
        assert state in TRANSITIONS[self.state], f"{self} cannot become {state.value}"
        self.state = state
        self.state_since_ms = wall_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return GroupState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether every member has an open join and no pending member id is left."""
        return not self.pending_join_members and self.joined_count == len(self.members)

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Return whether a joining member fits into a group of at most ``max_size`` members.

        During a rebalance, only members that have rejoined count. A static member that returns
        without its member id counts as one more member, so a full group refuses it. Kafka does the
        same.
        """
        if self.is_in(GroupState.EMPTY, GroupState.DEAD):
            return True
        if self.is_in(GroupState.PREPARING_REBALANCE):
            if len(self.members) < max_size:
                return True
            member = self.members.get(member_id)
            is_there = member is not None and member.awaiting_join is not None
            return is_there or self.joined_count < max_size
        return member_id in self.members or len(self.members) < max_size

    @property
    def member_count(self) -> int:
        """The number of members plus the number of pending member ids."""
        return len(self.members) + len(self.pending_join_members)

    def add(self, member: ClassicMember) -> None:
        """Add a member. The first one becomes leader and sets the protocol type."""
        if not self.members:
            self.protocol_type = member.protocol_type
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_join_members.pop(member.member_id, None)
        self.leader_id = self.leader_id or member.member_id

    def remove(self, member: ClassicMember) -> None:
        """Remove a member. If it led, the first remaining member becomes leader."""
        del self.members[member.member_id]
        self._count(member, -1)
        self.pending_sync_members.discard(member.member_id)
        if (
            member.group_instance_id is not None
            and self.static_members.get(member.group_instance_id) == member.member_id
        ):
            del self.static_members[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static_member(self, group_instance_id: str, new_member_id: str) -> ClassicMember:
        """Give a static member a new member id, and return the member (KIP-345).

        The member keeps its assignment. If it led the group, it still does.
        """
        old_id = self.static_members[group_instance_id]
        member = self.members.pop(old_id)
        self.pending_sync_members.discard(old_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[group_instance_id] = new_member_id
        if self.leader_id == old_id:
            self.leader_id = new_member_id
        return member

    def await_join(self, member: ClassicMember, reply_to: Hashable | None) -> None:
        """Store a member's open join request, or close it if ``reply_to`` is None."""
        self.joined_count += (reply_to is not None) - (member.awaiting_join is not None)
        member.awaiting_join = reply_to

    def announce(self, member: ClassicMember, protocols: Protocols) -> None:
        """Set the protocols that a member supports, with their metadata."""
        if protocols != member.protocols:
            self._count_protocols(member, -1)
            member.protocols = protocols
            self._count_protocols(member, 1)

    def assign(self, member: ClassicMember, assignment: bytes) -> None:
        """Set a member's assignment."""
        self.assignment_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def _count(self, member: ClassicMember, sign: int) -> None:
        self.joined_count += sign * (member.awaiting_join is not None)
        self.assignment_bytes += sign * len(member.assignment)
        self._count_protocols(member, sign)

    def _count_protocols(self, member: ClassicMember, sign: int) -> None:
        self.protocol_bytes += sign * sum(len(metadata) for _, metadata in member.protocols)
        for name in {name for name, _ in member.protocols}:
            count = self.supporters.pop(name, 0) + sign
            if count:
                self.supporters[name] = count

    def maybe_elect_joined_leader(self) -> bool:
        """Choose another leader from the members that have joined, unless the leader has joined.

        Return false if no member has joined.
        """
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.awaiting_join is None:
            joined = (
                member.member_id
                for member in self.members.values()
                if member.awaiting_join is not None
            )
            chosen = next(joined, None)
            if chosen is None:
                return False
            self.leader_id = chosen
        return True

    def supports(self, protocol_type: str, protocol_names: Iterable[str]) -> bool:
        """Return whether a joiner has the group's protocol type and a protocol of all members.

        A group without members accepts any protocol type and any protocols, unless they are empty.
        """
        names = set(protocol_names)
        if self.is_in(GroupState.EMPTY) or not self.members:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and not names.isdisjoint(self.common_protocols())

    def common_protocols(self) -> frozenset[str]:
        """Return the protocols that every member supports."""
        return frozenset(
            name for name, count in self.supporters.items() if count == len(self.members)
        )

    def select_protocol(self) -> str:
        """Return the common protocol that most members prefer.

        Among equally preferred protocols, the first in the iteration order of Kafka's hash map
        wins.
        """
        candidates = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(in_hash_map_order(votes), key=lambda name: votes[name])

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID.

        FENCED_INSTANCE_ID means that another member id holds the instance id.
        """
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def is_of_consumers(self) -> bool:
        """Whether the members are consumers. Only the metadata of consumers can be decoded."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def note_subscriptions(self) -> None:
        """Set ``subscribed_topics`` from the metadata of the members of a new generation."""
        self.subscribed_topics = self._read_subscriptions() if self.is_of_consumers else None

    def _read_subscriptions(self) -> frozenset[str] | None:
        try:
            metadata = [member.metadata_for(self.protocol_name) for member in self.members.values()]
            return frozenset(topic for each in metadata for topic in subscribed_topics_of(each))
        except ProtocolError:
            return None

    def subscription_test(self) -> Callable[[str], bool]:
        """Return a predicate that tells whether the group's members may be subscribed to a topic.

        If the topics of consumers are unknown, the predicate is true for every topic. If the
        members are not consumers, it is false for every topic.
        """
        topics = self.subscribed_topics
        return (lambda _: self.is_of_consumers) if topics is None else topics.__contains__

    def begin_next_generation(self, wall_ms: int) -> None:
        """Increment the generation id and select the protocol of the new generation.

        The group becomes COMPLETING_REBALANCE and waits for all members to sync. A group without
        members becomes EMPTY.
        """
        self.generation_id = (self.generation_id + 1) & 0x7FFFFFFF
        if self.members:
            self.protocol_name = self.select_protocol()
            self.pending_sync_members = set(self.members)
            self.transition_to(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.pending_sync_members.clear()
            self.transition_to(GroupState.EMPTY, wall_ms)
        self.note_subscriptions()

    def subscription_bytes(self) -> int:
        """Return the size of the members' metadata under the selected protocol.

        A stored generation holds this metadata.
        """
        return sum(len(member.metadata_for(self.protocol_name)) for member in self.members.values())

    def metadata_bytes(self) -> int:
        """Return the size of all members' assignments and of their metadata under all protocols."""
        return self.protocol_bytes + self.assignment_bytes
