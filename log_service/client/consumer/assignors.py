"""Assigns partitions to members, as the leader of a classic group does.

The assignors have the names that every Kafka client knows. An assignor decides from the members'
subscriptions and the partition counts. ``range`` and ``roundrobin`` make a new assignment each
time. ``sticky`` and ``cooperative-sticky`` move as few partitions as balance and racks allow
(``sticky_assignment``). Balance comes before racks (KIP-881). ``cooperative-sticky`` gives no
member a partition that another member still owns. The owner gives the partition up first, and the
next rebalance assigns it (KIP-429).

Invariants: every partition of a subscribed topic goes to exactly one member that wants it. With
``cooperative-sticky`` it goes to at most one. The result depends on the arguments alone, not on
their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import Protocol

from log_service.client.consumer.sticky_assignment import StickyAssignment
from log_service.client.group_protocol import Subscription
from log_service.common.errors import ConfigError
from log_service.common.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of the group, as the JoinGroup response describes it to the leader."""

    member_id: str
    group_instance_id: str | None
    subscription: Subscription

    @property
    def order(self) -> tuple[int, str]:
        """Sort key. Static members come first, because their instance id survives a restart."""
        return (
            (1, self.member_id) if self.group_instance_id is None else (0, self.group_instance_id)
        )


Assignment = dict[str, list[TopicPartition]]
Racks = Mapping[TopicPartition, frozenset[str]]
"""Racks of the replicas of each partition.

A partition is missing if no broker reported its racks.
"""

NO_RACKS: Racks = MappingProxyType({})


class Assign(Protocol):
    """The function of an assignor, which decides the partitions of all members.

    ``counts`` has the partition count of each topic. ``roundrobin`` ignores ``racks``.
    """

    def __call__(
        self, members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Return the partitions of each member by member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """An assignment function with the name of its assignor.

    With a cooperative assignor, members keep their partitions during a rebalance.
    """

    name: str
    assign: Assign
    is_cooperative: bool = False


def assign_range(
    members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS
) -> Assignment:
    """Split each topic into runs of partitions, one run per member that wants the topic.

    The first members get one partition more if the count is not a multiple of the members. Topics
    with the same partition count and the same members are split in the same way. If racks make a
    difference to some topic, there are two steps (KIP-881). Members first get partitions with a
    replica in their own rack, up to their share. Then they get the remaining partitions. A member
    without a rack counts as near to all replicas.
    """
    ordered = sorted(members, key=lambda member: member.order)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for topic in sorted(topic for topic, count in counts.items() if count):
        takers = tuple(
            member.member_id for member in ordered if topic in member.subscription.topics
        )
        if takers:
            alike.setdefault((takers, counts[topic]), []).append(topic)
    by_id = {member.member_id: member for member in ordered}
    splits = [
        _Split([by_id[member_id] for member_id in takers], topics, count, racks)
        for (takers, count), topics in alike.items()
    ]
    if any(split.is_rack_sensitive(topic) for split in splits for topic in split.topics):
        for split in splits:
            split.take_near()
    for split in splits:
        for member_id, numbers in split.take_rest().items():
            assignment[member_id] += [
                TopicPartition(topic, number) for topic in split.topics for number in numbers
            ]
    return {member_id: sorted(placed) for member_id, placed in assignment.items()}


class _Split:
    """Splits ``topics`` with the same partition count and the same members in the same way."""

    def __init__(
        self, takers: Sequence[Member], topics: Sequence[str], count: int, racks: Racks
    ) -> None:
        self.topics = topics
        self._takers = takers
        self._racks = racks
        self._free = list(range(count))
        self._share, self._extra_count = divmod(count, len(takers))
        self._runs: dict[str, list[int]] = {member.member_id: [] for member in takers}

    def is_rack_sensitive(self, topic: str) -> bool:
        """Return whether racks make a difference to a topic; see the function of this name."""
        found = [
            self._racks.get(TopicPartition(topic, number), frozenset()) for number in self._free
        ]
        return is_rack_sensitive((member.subscription.rack for member in self._takers), found)

    def take_near(self) -> None:
        """Assign partitions to members in whose rack they have a replica, up to a fair share each.

        With one topic, one member after the other takes its share. With several topics, each
        partition number goes to one member for all topics. It is the first member that is near in
        all of them and has not got its share yet.
        """
        if len(self.topics) == 1:
            for member in self._takers if self.is_rack_sensitive(self.topics[0]) else ():
                near = [number for number in self._free if self._is_near(member, number)]
                self._take(member, near[: self._room(member)])
            return
        for number in self._free.copy():
            taker = next(
                (
                    member
                    for member in self._takers
                    if self._room(member) and self._is_near(member, number)
                ),
                None,
            )
            if taker is not None:
                self._take(taker, [number])

    def take_rest(self) -> dict[str, list[int]]:
        """Assign the remaining partition numbers in order, and return the numbers by member id."""
        for member in self._takers:
            self._take(member, self._free[: self._room(member)])
        return self._runs

    def _room(self, member: Member) -> int:
        return max(self._share + (self._extra_count > 0) - len(self._runs[member.member_id]), 0)

    def _take(self, member: Member, numbers: Sequence[int]) -> None:
        run = self._runs[member.member_id]
        run.extend(numbers)
        taken = set(numbers)
        self._extra_count -= bool(taken) and len(run) > self._share
        self._free = [number for number in self._free if number not in taken]

    def _is_near(self, member: Member, number: int) -> bool:
        rack = member.subscription.rack
        return not rack or all(
            rack in self._racks.get(TopicPartition(topic, number), ()) for topic in self.topics
        )


def assign_round_robin(
    members: Iterable[Member],
    counts: Mapping[str, int],
    racks: Racks = NO_RACKS,  # noqa: ARG001 - one shape for all
) -> Assignment:
    """Give the partitions of all topics to the members in turn.

    Members that are not subscribed to the topic of a partition are skipped.
    """
    ordered = sorted(members, key=lambda member: member.order)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    turn = cycle(ordered)
    wanted = {topic for member in ordered for topic in member.subscription.topics}
    for partition in _partitions(counts, wanted):
        member = next(turn)
        while partition.topic not in member.subscription.topics:
            member = next(turn)
        assignment[member.member_id].append(partition)
    return assignment


def assign_sticky(
    members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS
) -> Assignment:
    """Keep the current assignment as far as balance and racks allow, and spread the rest."""
    ordered = sorted(members, key=lambda member: member.order)
    wanted = {topic for member in ordered for topic in member.subscription.topics}
    partitions = _partitions(counts, wanted)
    takers = {
        topic: [member.member_id for member in ordered if topic in member.subscription.topics]
        for topic in wanted
    }
    rack_of = {
        member.member_id: member.subscription.rack for member in ordered if member.subscription.rack
    }
    if not is_rack_sensitive(
        rack_of.values(), [racks.get(each, frozenset()) for each in partitions]
    ):
        rack_of, racks = {}, NO_RACKS
    placed = StickyAssignment(partitions, takers, current_owners(ordered), rack_of, racks).place()
    return {member.member_id: placed.get(member.member_id, []) for member in ordered}


def assign_cooperative_sticky(
    members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS
) -> Assignment:
    """Assign as ``assign_sticky``, except for partitions that another member still owns.

    They stay unassigned until their owner has given them up.
    """
    ordered = sorted(members, key=lambda member: member.order)
    owners: dict[TopicPartition, set[str]] = {}
    for member in ordered:
        for partition in member.subscription.owned:
            owners.setdefault(partition, set()).add(member.member_id)
    return {
        member_id: [
            partition for partition in assigned if not owners.get(partition, set()) - {member_id}
        ]
        for member_id, assigned in assign_sticky(ordered, counts, racks).items()
    }


def current_owners(members: Iterable[Member]) -> dict[TopicPartition, str]:
    """Return the current owner of each partition.

    If several members claim a partition, the claim of the newest generation counts. If two claims
    are of that generation, the partition has no owner.
    """
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member in members:
        for partition in member.subscription.owned:
            claims.setdefault(partition, []).append(
                (member.subscription.generation_id, member.member_id)
            )
    owners: dict[TopicPartition, str] = {}
    for partition, claimed in claims.items():
        newest = max(generation_id for generation_id, _ in claimed)
        holders = [member_id for generation_id, member_id in claimed if generation_id == newest]
        if len(holders) == 1:
            owners[partition] = holders[0]
    return owners


def is_rack_sensitive(
    member_racks: Iterable[str | None], partition_racks: Sequence[frozenset[str]]
) -> bool:
    """Return whether racks make a difference to an assignment.

    They do if a member is in a rack that has replicas, and not all partitions have replicas in the
    same racks.
    """
    everywhere = frozenset[str]().union(*partition_racks)
    return any(rack in everywhere for rack in member_racks if rack) and any(
        each != everywhere for each in partition_racks
    )


def _partitions(counts: Mapping[str, int], wanted: Iterable[str]) -> list[TopicPartition]:
    topics = sorted(topic for topic in set(wanted) if topic in counts)
    return [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]


ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        Assignor(name="range", assign=assign_range),
        Assignor(name="roundrobin", assign=assign_round_robin),
        Assignor(name="sticky", assign=assign_sticky),
        Assignor(name="cooperative-sticky", assign=assign_cooperative_sticky, is_cooperative=True),
    )
}


def validate_assignors(names: Iterable[str]) -> None:
    """Raise ConfigError if ``partition.assignment.strategy`` names an unknown assignor."""
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown:
        raise ConfigError(
            f"partition_assignment_strategy: there is no assignor {unknown[0]!r}; there are"
            f" {', '.join(ASSIGNORS)}"
        )
