"""Groups as their pages show them: the list, and one group with its members and its lag."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from log_service.client.admin.share_groups import (
    ShareGroupDescription,
    ShareGroupOffset,
    ShareMemberDescription,
)
from log_service.client.admin.share_records import QueueInFlight
from log_service.client.admin.values import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    OffsetAndMetadata,
    PartitionOffsets,
)
from log_service.common.types import TopicPartition
from log_service.http import ONCE_PREFIX

PAGE_SIZE = 100
MAX_SHOWN_IN_FLIGHT = 200
STATE_TEXTS = {
    "available": ("waits for another delivery", "warn"),
    "acquired": ("held by a member", "good"),
    "acknowledged": ("done before its predecessors", ""),
    "archived": ("given up", "failed"),
}
"""The meaning of each state of a record in flight, and its mark."""
MAX_SHOWN_ROWS = 1_000
SHARE = "share"
KINDS = {
    "classic": "classic group",
    "consumer": "consumer group",
    SHARE: "share group (queue)",
    "streams": "streams group",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """One page of the list of groups. ``lags`` is None until they have been requested."""

    rows: tuple[GroupListing, ...]
    page: int
    page_count: int
    found_count: int
    group_count: int
    lags: Mapping[str, int | None] | None = None


def group_list(groups: Sequence[GroupListing], *, search: str, kind: str, page: int) -> GroupList:
    """Return one page of the groups whose ids contain ``search``.

    Without ``search``, the groups of a REST proxy's idempotent requests are left out, because each
    of these requests has its own group.
    """
    needle = search.casefold()
    wanted = [
        each
        for each in groups
        if needle in each.group_id.casefold() and kind in {"", each.group_type}
        if needle or not each.group_id.startswith(ONCE_PREFIX)
    ]
    page_count = max(1, -(-len(wanted) // PAGE_SIZE))
    page = min(max(1, page), page_count)
    return GroupList(
        rows=tuple(wanted[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]),
        page=page,
        page_count=page_count,
        found_count=len(wanted),
        group_count=len(groups),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """One partition that a group reads.

    ``position`` is the committed offset, or the start offset of a queue (share group). Numbers are
    None if they are unknown, or if they need a commit that the group has not made.
    """

    topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """One member of a group."""

    member_id: str
    instance: str
    client_id: str
    host: str
    partitions: str
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """One group."""

    group_id: str
    kind: str
    group_type: str
    state: str
    assignor: str
    coordinator: int
    lag: int | None
    members: tuple[MemberRow, ...]
    offsets: tuple[OffsetRow, ...]
    is_queue: bool

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so that its offsets may be changed."""
        return not self.members and self.state in {"Empty", "Dead"}


def group_page(
    group: GroupDescription,
    group_type: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Mapping[TopicPartition, PartitionOffsets],
) -> GroupPage:
    """Return the page of a classic, consumer or streams group."""
    owners = _owners(group.members)
    rows = []
    for where in sorted({*committed, *owners}):
        position = committed[where].offset if where in committed else None
        end = ends[where].high_watermark if where in ends else None
        is_known = position is not None and end is not None
        rows.append(
            OffsetRow(
                topic=where.topic,
                partition=where.partition,
                position=position,
                end=end,
                lag=max(0, end - position) if is_known else None,  # type: ignore[operator]
                member=owners.get(where, ""),
            )
        )
    return _page(group, group_type, rows)


def queue_page(
    group: ShareGroupDescription,
    offsets: Mapping[TopicPartition, ShareGroupOffset],
    ends: Mapping[TopicPartition, PartitionOffsets],
) -> GroupPage:
    """Return the page of a share group. The cluster itself counts the lag of a share group."""
    owners = _owners(group.members)
    rows = [
        OffsetRow(
            topic=where.topic,
            partition=where.partition,
            position=offsets[where].start_offset,
            end=ends[where].high_watermark if where in ends else None,
            lag=offsets[where].lag,
            member=owners.get(where, ""),
        )
        for where in sorted(offsets)
    ]
    return _page(group, SHARE, rows)


def _owners(
    members: Sequence[MemberDescription | ShareMemberDescription],
) -> dict[TopicPartition, str]:
    """Return the ids of the clients that read each partition, joined by commas."""
    found: dict[TopicPartition, list[str]] = {}
    for member in members:
        for where in member.assignment:
            found.setdefault(where, []).append(member.client_id)
    return {where: ", ".join(sorted(clients)) for where, clients in found.items()}


def _page(
    group: GroupDescription | ShareGroupDescription, group_type: str, rows: list[OffsetRow]
) -> GroupPage:
    lags = [row.lag for row in rows if row.lag is not None]
    return GroupPage(
        group_id=group.group_id,
        kind=KINDS.get(group_type, group_type or "group"),
        group_type=group_type,
        state=group.state,
        assignor=group.assignor,
        coordinator=group.coordinator.node_id,
        lag=sum(lags) if lags or not rows else None,
        members=tuple(map(_member_row, group.members)),
        offsets=tuple(rows),
        is_queue=group_type == SHARE,
    )


def _member_row(member: MemberDescription | ShareMemberDescription) -> MemberRow:
    names = [str(where) for where in member.assignment]
    return MemberRow(
        member_id=member.member_id,
        instance=getattr(member, "group_instance_id", None) or "",
        client_id=member.client_id,
        host=member.client_host,
        partitions=", ".join(names[:50]) + (", …" if len(names) > 50 else ""),
        partition_count=len(names),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightRow:
    """Adjacent records in the same state. ``holder`` names the member that has acquired them.

    ``holder`` is empty without a member. ``lock_s`` is the time until the member's acquisition lock
    expires, None without a lock.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: str
    mark: str
    delivery_count: int
    holder: str
    lock_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The records of a queue that are in flight.

    ``refusal`` is the reason why they cannot be shown, empty if they can. ``record_count`` also
    counts records that are not in ``rows``. ``held_counts`` has the number of records that each
    member has acquired, by the member's id.
    """

    rows: tuple[InFlightRow, ...] = ()
    held_counts: Mapping[str, int] = field(default_factory=dict)
    record_count: int = 0
    refusal: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether there are more records than the rows show."""
        shown = sum(row.last_offset - row.first_offset + 1 for row in self.rows)
        return shown < self.record_count


def in_flight(
    found: Mapping[TopicPartition, QueueInFlight], members: Sequence[MemberRow]
) -> InFlight:
    """Return the records in flight by partition and offset."""
    holders = {each.member_id: f"{each.client_id} at {each.host}" for each in members}
    held: Counter[str] = Counter()
    rows = []
    for where, queue in sorted(found.items()):
        for each in queue.ranges:
            text, mark = STATE_TEXTS.get(each.state, (each.state, ""))
            if each.member_id:
                held[each.member_id] += each.last_offset - each.first_offset + 1
            rows.append(
                InFlightRow(
                    topic=where.topic,
                    partition=where.partition,
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    state=text,
                    mark=mark,
                    delivery_count=each.delivery_count,
                    holder=holders.get(each.member_id, each.member_id),
                    lock_s=each.lock_ms / 1_000 if each.lock_ms >= 0 else None,
                )
            )
    return InFlight(
        rows=tuple(rows[:MAX_SHOWN_IN_FLIGHT]),
        held_counts=held,
        record_count=sum(queue.record_count for queue in found.values()),
    )
