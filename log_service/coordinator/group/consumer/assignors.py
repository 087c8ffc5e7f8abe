"""The assignors ``uniform`` and ``range`` of Apache Kafka 4.3, which compute a group's targets.

Both give each partition to exactly one of the members that subscribe to its topic. ``range`` gives
each member a contiguous part of each topic, so that topics with equal partition counts and readers
are divided alike. ``uniform`` gives all members almost the same number of partitions and moves as
few as possible. Neither looks at racks, as in Kafka 4.3. These are plain functions that know
neither groups nor epochs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from uuid import UUID

from log_service.coordinator.group.values.partitions import Partitions

BALANCING_ROUNDS = 16
"""The largest number of balancing passes over all topics if subscriptions differ."""

PartitionCounts = Mapping[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """The input of an assignor for one member: its ids, its topics, and its last target."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[UUID]
    last_target: Partitions = field(default_factory=dict)


Assignor = Callable[[Sequence[MemberSpec], PartitionCounts], dict[str, Partitions]]
_Growing = dict[str, dict[UUID, set[int]]]


def assign_range(
    members: Sequence[MemberSpec], partition_counts: PartitionCounts
) -> dict[str, Partitions]:
    """Return the target of each member, which has a contiguous part of each topic.

    Static members come first, by instance id.
    """
    targets: dict[str, dict[UUID, frozenset[int]]] = {member.member_id: {} for member in members}
    ordered = sorted(members, key=_place)
    for topic_id in sorted(partition_counts):
        readers = [member for member in ordered if topic_id in member.topic_ids]
        if not readers:
            continue
        share, extra = divmod(partition_counts[topic_id], len(readers))
        start = 0
        for position, member in enumerate(readers):
            end = start + share + (position < extra)
            if end > start:
                targets[member.member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(targets)


def _place(member: MemberSpec) -> tuple[bool, str, str]:
    return (member.instance_id is None, member.instance_id or "", member.member_id)


def assign_uniform(
    members: Sequence[MemberSpec], partition_counts: PartitionCounts
) -> dict[str, Partitions]:
    """Give all members almost the same number of partitions, and move as few as possible."""
    subscriptions = {member.topic_ids.intersection(partition_counts) for member in members}
    growing = _uniform_alike if len(subscriptions) == 1 else _uniform_mixed
    targets = growing(sorted(members, key=lambda member: member.member_id), partition_counts)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in topics.items() if indexes}
        for member_id, topics in targets.items()
    }


def _kept(
    members: Sequence[MemberSpec], partition_counts: PartitionCounts
) -> dict[str, list[tuple[UUID, int]]]:
    """Return the partitions that each member may keep from its last target.

    A member keeps a partition if the partition exists, the member still subscribes to its topic,
    and no earlier member keeps the same partition.
    """
    taken: set[tuple[UUID, int]] = set()
    kept: dict[str, list[tuple[UUID, int]]] = {}
    for member in members:
        mine = kept[member.member_id] = []
        for topic_id in sorted(member.last_target):
            count = partition_counts.get(topic_id, 0) if topic_id in member.topic_ids else 0
            for index in sorted(member.last_target[topic_id]):
                if index < count and (topic_id, index) not in taken:
                    taken.add((topic_id, index))
                    mine.append((topic_id, index))
    return kept


def _uniform_alike(members: Sequence[MemberSpec], partition_counts: PartitionCounts) -> _Growing:
    """Assign partitions to members that all subscribe to the same topics.

    Every member gets the same number of partitions. If some are left over, some members get one
    partition more. Members that have more than the equal share already come first.
    """
    wanted = [topic_id for topic_id in sorted(partition_counts) if topic_id in members[0].topic_ids]
    share, extra = divmod(sum(partition_counts[topic_id] for topic_id in wanted), len(members))
    kept = _kept(members, partition_counts)
    for member in members:
        has_extra = extra > 0 and len(kept[member.member_id]) > share
        extra -= has_extra
        del kept[member.member_id][share + has_extra :]
    taken = {partition for partitions in kept.values() for partition in partitions}
    free = iter(
        [
            each
            for topic_id in wanted
            for index in range(partition_counts[topic_id])
            if (each := (topic_id, index)) not in taken
        ]
    )
    for member in members:
        mine = kept[member.member_id]
        gets_extra = extra > 0 and len(mine) <= share
        extra -= gets_extra
        mine.extend(
            partition
            for _, partition in zip(range(share + gets_extra - len(mine)), free, strict=False)
        )
    return {member_id: _by_topic(partitions) for member_id, partitions in kept.items()}


def _by_topic(partitions: Sequence[tuple[UUID, int]]) -> dict[UUID, set[int]]:
    topics: dict[UUID, set[int]] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, set()).add(index)
    return topics


def _uniform_mixed(members: Sequence[MemberSpec], partition_counts: PartitionCounts) -> _Growing:
    """Assign partitions to members with different subscriptions, then balance their counts.

    Each free partition goes to the subscribed member with the fewest partitions. Topics with the
    most partitions for each subscribed member come first.
    """
    readers = {
        topic_id: [member.member_id for member in members if topic_id in member.topic_ids]
        for topic_id in partition_counts
    }
    topics = sorted(
        (topic_id for topic_id in partition_counts if readers[topic_id]),
        key=lambda each: _scarcity(each, readers, partition_counts),
    )
    targets: _Growing = {member.member_id: {} for member in members}
    sizes = dict.fromkeys(targets, 0)
    for member_id, partitions in _kept(members, partition_counts).items():
        targets[member_id] = _by_topic(partitions)
        sizes[member_id] = len(partitions)
    for topic_id in topics:
        _hand_out(topic_id, partition_counts[topic_id], readers[topic_id], targets, sizes)
    for _ in range(BALANCING_ROUNDS):
        moved = [_even_out(topic_id, readers[topic_id], targets, sizes) for topic_id in topics]
        if not any(moved):
            break
    return targets


def _scarcity(
    topic_id: UUID, readers: Mapping[UUID, Sequence[str]], partition_counts: PartitionCounts
) -> tuple[float, int, UUID]:
    reader_count = len(readers[topic_id])
    return (-partition_counts[topic_id] / reader_count, reader_count, topic_id)


def _hand_out(
    topic_id: UUID,
    partition_count: int,
    readers: Sequence[str],
    targets: _Growing,
    sizes: dict[str, int],
) -> None:
    taken = {index for member_id in readers for index in targets[member_id].get(topic_id, ())}
    heap = [(sizes[member_id], place) for place, member_id in enumerate(readers)]
    heapify(heap)
    for index in range(partition_count):
        if index in taken:
            continue
        size, place = heap[0]
        member_id = readers[place]
        heapreplace(heap, (size + 1, place))
        targets[member_id].setdefault(topic_id, set()).add(index)
        sizes[member_id] = size + 1


def _even_out(
    topic_id: UUID, readers: Sequence[str], targets: _Growing, sizes: dict[str, int]
) -> bool:
    """Move partitions of one topic from its most loaded to its least loaded subscriber.

    The moves end when the partition counts of the two members differ by at most one. Return whether
    a partition has moved.
    """
    has_moved = False
    while True:
        givers = [member_id for member_id in readers if targets[member_id].get(topic_id)]
        if not givers:
            return has_moved
        giver = max(givers, key=sizes.__getitem__)
        taker = min(readers, key=sizes.__getitem__)
        if sizes[giver] - sizes[taker] <= 1:
            return has_moved
        moving = max(targets[giver][topic_id])
        targets[giver][topic_id].remove(moving)
        targets[taker].setdefault(topic_id, set()).add(moving)
        sizes[giver] -= 1
        sizes[taker] += 1
        has_moved = True


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors that a broker may offer, by name."""
