"""Who reads what: the assignors that the leader of a classic group runs, by the names under which every Kafka client knows them.

Decides an assignment from the members' subscriptions and the partition counts; knows no network. ``range`` and ``roundrobin`` place anew
each time, ``sticky`` and ``cooperative-sticky`` move as little as balance allows; the cooperative one gives nobody a partition that another
member still owns (KIP-429): its owner gives it up first, and the next round places it.

Invariants: every partition of a subscribed topic goes to exactly one member that wants it (under the cooperative one: at most one); the
result depends on the arguments alone, not on their order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import Protocol

from log_service.client.group_protocol import Subscription
from log_service.common.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    subscription: Subscription

    @property
    def order(self) -> tuple[int, str]:
        """Static members first, by their names: their place survives a restart."""
        return (1, self.member_id) if self.group_instance_id is None else (0, self.group_instance_id)


Assignment = dict[str, list[TopicPartition]]
Racks = Mapping[TopicPartition, frozenset[str]]
"""The racks in which a partition has replicas; nothing where nobody told."""

NO_RACKS: Racks = MappingProxyType({})


class Assign(Protocol):
    """Places the partitions of topics, given by their counts; ``racks`` matters to ``range`` alone."""

    def __call__(self, members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """Return what each member gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """An assignor by its name; a cooperative one leaves members what they have while the group rebalances."""

    name: str
    assign: Assign
    is_cooperative: bool = False
    is_sticky: bool = False


def assign_range(members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
    """Split each topic into runs of partitions, one per member that wants it; the first members get one more.

    Topics of one size that the same members want are split alike. Where members and partitions tell of racks that differ, a member gets
    partitions with a replica in its own rack as far as there are any, and no more or fewer than else (KIP-881).
    """
    ordered = sorted(members, key=lambda member: member.order)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for topic in sorted(counts):
        takers = tuple(member.member_id for member in ordered if topic in member.subscription.topics)
        if takers:
            alike.setdefault((takers, counts[topic]), []).append(topic)
    by_id = {member.member_id: member for member in ordered}
    for (takers, count), topics in alike.items():
        runs = _split([by_id[member_id] for member_id in takers], topics, count, racks)
        for member_id, numbers in runs.items():
            assignment[member_id] += [TopicPartition(topic, number) for topic in topics for number in numbers]
    return {member_id: sorted(placed) for member_id, placed in assignment.items()}


def _split(takers: Sequence[Member], topics: Sequence[str], count: int, racks: Racks) -> dict[str, list[int]]:
    """Split the numbers of partitions that ``topics`` have in common."""
    share, extra = divmod(count, len(takers))
    sizes = {member.member_id: share + (index < extra) for index, member in enumerate(takers)}
    free = list(range(count))
    runs: dict[str, list[int]] = {member_id: [] for member_id in sizes}
    if _is_rack_aware(takers, topics, count, racks):
        for member in takers:
            near = [number for number in free if _is_near(member, topics, number, racks)]
            runs[member.member_id] = near[: sizes[member.member_id]]
            free = [number for number in free if number not in set(runs[member.member_id])]
    for member_id, numbers in runs.items():
        missing_count = sizes[member_id] - len(numbers)
        numbers.extend(free[:missing_count])
        del free[:missing_count]
    return runs


def _is_rack_aware(takers: Sequence[Member], topics: Sequence[str], count: int, racks: Racks) -> bool:
    """Whether racks make a difference: members and partitions share some, and not every partition is in all of them."""
    found = [racks.get(TopicPartition(topic, number), frozenset()) for topic in topics for number in range(count)]
    everywhere = frozenset[str]().union(*found)
    is_shared = any(member.subscription.rack in everywhere for member in takers)
    return is_shared and any(each != everywhere for each in found)


def _is_near(member: Member, topics: Sequence[str], number: int, racks: Racks) -> bool:
    return all(member.subscription.rack in racks.get(TopicPartition(topic, number), ()) for topic in topics)


def assign_round_robin(members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:  # noqa: ARG001 - one shape for all
    """Deal all partitions of all topics out in turn, passing over members that do not want the topic."""
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


def assign_sticky(members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:  # noqa: ARG001 - one shape for all
    """Leave members what they have as far as balance allows, and spread the rest."""
    ordered = sorted(members, key=lambda member: member.order)
    wanted = {topic for member in ordered for topic in member.subscription.topics}
    partitions = _partitions(counts, wanted)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    takers = {topic: [member.member_id for member in ordered if topic in member.subscription.topics] for topic in wanted}
    owners = current_owners(ordered)
    for partition in partitions:
        owner = owners.get(partition)
        if owner is not None and owner in takers[partition.topic]:
            assignment[owner].append(partition)
    placed = {partition for owned in assignment.values() for partition in owned}
    missing = [partition for partition in partitions if partition not in placed]
    for partition in sorted(missing, key=lambda each: (len(takers[each.topic]), each)):
        taker = min(takers[partition.topic], key=lambda member_id: len(assignment[member_id]))
        assignment[taker].append(partition)
    _balance(assignment, takers)
    return {member_id: sorted(owned) for member_id, owned in assignment.items()}


def assign_cooperative_sticky(members: Iterable[Member], counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:  # noqa: ARG001 - one shape for all
    """``assign_sticky``, but a partition that somebody else owns stays unassigned until its owner has given it up."""
    ordered = sorted(members, key=lambda member: member.order)
    owners: dict[TopicPartition, set[str]] = {}
    for member in ordered:
        for partition in member.subscription.owned:
            owners.setdefault(partition, set()).add(member.member_id)
    return {
        member_id: [partition for partition in assigned if not owners.get(partition, set()) - {member_id}]
        for member_id, assigned in assign_sticky(ordered, counts).items()
    }


def current_owners(members: Iterable[Member]) -> dict[TopicPartition, str]:
    """Return who owns what; of several claims the one of the newest generation holds, of two in the same generation none."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member in members:
        for partition in member.subscription.owned:
            claims.setdefault(partition, []).append((member.subscription.generation_id, member.member_id))
    owners: dict[TopicPartition, str] = {}
    for partition, claimed in claims.items():
        newest = max(generation_id for generation_id, _ in claimed)
        holders = [member_id for generation_id, member_id in claimed if generation_id == newest]
        if len(holders) == 1:
            owners[partition] = holders[0]
    return owners


def _balance(assignment: Assignment, takers: Mapping[str, list[str]]) -> None:
    """Move partitions from members with many to members with few, until no move makes two members more equal.

    Each move lowers the sum of the squares of the loads, so this ends.
    """
    is_moving = True
    while is_moving:
        is_moving = False
        for giver in sorted(assignment, key=lambda member_id: -len(assignment[member_id])):
            for partition in sorted(assignment[giver], reverse=True):
                taker = min(takers[partition.topic], key=lambda member_id: len(assignment[member_id]))
                if len(assignment[giver]) - len(assignment[taker]) > 1:
                    assignment[giver].remove(partition)
                    assignment[taker].append(partition)
                    is_moving = True


def _partitions(counts: Mapping[str, int], wanted: Iterable[str]) -> list[TopicPartition]:
    topics = sorted(topic for topic in set(wanted) if topic in counts)
    return [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]


ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        Assignor(name="range", assign=assign_range),
        Assignor(name="roundrobin", assign=assign_round_robin),
        Assignor(name="sticky", assign=assign_sticky, is_sticky=True),
        Assignor(name="cooperative-sticky", assign=assign_cooperative_sticky, is_cooperative=True, is_sticky=True),
    )
}
