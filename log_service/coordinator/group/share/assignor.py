"""The assignor ``simple`` of Apache Kafka 4.3, which computes targets of share groups (KIP-932).

A partition may go to several members. If all members read the same topics, each partition goes to
as many members as are needed to give every member a partition. The partition counts of members then
differ by at most one. Otherwise each topic is divided separately among the members that read it.
Members keep as much of their last target as these rules allow. These are plain functions that know
neither groups nor epochs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from log_service.coordinator.group.values.partitions import Partitions

Place = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberSpec:
    """The input of the assignor for one member: its id, its topics, and its last target."""

    member_id: str
    topic_ids: frozenset[UUID]
    last_target: Partitions = field(default_factory=dict)


def assign_simply(
    members: Sequence[ShareMemberSpec], assignable: Partitions
) -> dict[str, Partitions]:
    """Return the target of each member.

    ``assignable`` holds the partitions that may be assigned.
    """
    ordered = sorted(members, key=lambda member: member.member_id)
    result: dict[str, dict[UUID, set[int]]] = {member.member_id: {} for member in ordered}
    wanted = {member.topic_ids for member in ordered}
    for topics, readers in _divisions(ordered, is_uniform=len(wanted) == 1):
        places = [
            (topic_id, index)
            for topic_id in topics
            for index in sorted(assignable.get(topic_id, ()))
        ]
        for member_id, (topic_id, index) in _shared(readers, places):
            result[member_id].setdefault(topic_id, set()).add(index)
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in parts.items()}
        for member_id, parts in result.items()
    }


def _divisions(
    members: Sequence[ShareMemberSpec], *, is_uniform: bool
) -> Iterable[tuple[list[UUID], list[ShareMemberSpec]]]:
    """Yield topics that are divided together, with the members that read them.

    If ``is_uniform``, all topics are divided together, else each topic is divided separately.
    """
    topic_ids = sorted({topic_id for member in members for topic_id in member.topic_ids})
    if is_uniform:
        yield topic_ids, list(members)
        return
    for topic_id in topic_ids:
        yield [topic_id], [member for member in members if topic_id in member.topic_ids]


def _shared(
    readers: Sequence[ShareMemberSpec], places: Sequence[Place]
) -> Iterable[tuple[str, Place]]:
    """Yield pairs of a member id and a partition that the member gets.

    Members first keep partitions of their last target, and then get new ones.
    """
    if not places or not readers:
        return
    sharing = -(-len(readers) // len(places))
    quotas = _quotas(len(readers), sharing * len(places))
    users: dict[Place, set[int]] = {place: set() for place in places}
    counts = [0] * len(readers)
    for number, reader in enumerate(readers):
        for place in _kept(reader.last_target, users):
            if counts[number] < quotas[number] and len(users[place]) < sharing:
                users[place].add(number)
                counts[number] += 1
    _fill(users, counts, quotas, sharing)
    for place, numbers in users.items():
        for number in sorted(numbers):
            yield readers[number].member_id, place


def _quotas(reader_count: int, assignment_count: int) -> list[int]:
    """Return the partition count of each member. The counts differ by at most one."""
    ends = [-(-assignment_count * (number + 1) // reader_count) for number in range(reader_count)]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def _kept(target: Partitions, users: Mapping[Place, set[int]]) -> list[Place]:
    return [
        (topic_id, index)
        for topic_id in sorted(target)
        for index in sorted(target[topic_id])
        if (topic_id, index) in users
    ]


def _fill(
    users: Mapping[Place, set[int]], counts: list[int], quotas: Sequence[int], sharing: int
) -> None:
    """Give partitions with too few users to members with too few partitions.

    A partition should have ``sharing`` users, and a member as many partitions as its quota. The
    members are visited in turn. If every member below its quota already uses a partition, the
    partition gets no more users, because a slight imbalance does no harm.
    """
    unfilled = [number for number, quota in enumerate(quotas) if counts[number] < quota]
    position = 0
    for using in users.values():
        passed_count = 0
        while len(using) < sharing and passed_count < len(unfilled):
            position %= len(unfilled)
            number = unfilled[position]
            if number in using:
                passed_count += 1
                position += 1
                continue
            using.add(number)
            counts[number] += 1
            passed_count = 0
            if counts[number] < quotas[number]:
                position += 1
            else:
                del unfilled[position]
