"""Decides the offsets to commit for a group in the target, so that its consumers can move there.

The decision depends on the group's offsets in both clusters and on the mirrored progress, which are
arguments. This module sends no request.

A transaction ends with a marker, which takes the offset after the last record. A group that has
read all mirrored records gets the offset after that marker. Otherwise it would have a lag of one
for ever. This is done only if nothing but the marker can be at the skipped offset.

Invariants: a group's offset in the target never goes back. No offsets are committed for a group
with members in the target, because it already reads there.
"""

from collections.abc import Mapping
from dataclasses import replace

from log_service.client.admin.values import (
    GroupDescription,
    GroupListing,
    OffsetAndMetadata,
    PartitionOffsets,
)
from log_service.common.types import TopicPartition
from log_service.mirror.progress import Progress
from log_service.mirror.settings import FlowSettings

CONSUMER_PROTOCOL = "consumer"
OF_CONSUMERS = frozenset({"", CONSUMER_PROTOCOL})
GROUP_TYPES = frozenset({"", "classic", "consumer"})
WITHOUT_MEMBERS = frozenset({"empty", "dead"})


def selected_groups(flow: FlowSettings, groups: list[GroupListing]) -> list[str]:
    """Return the ids of the groups whose offsets are copied to the target.

    These are consumer groups, not share groups or Kafka Streams groups, that the flow selects.
    """
    return [
        each.group_id
        for each in groups
        if each.protocol_type in OF_CONSUMERS
        and each.group_type.lower() in GROUP_TYPES
        and flow.selects_group(each.group_id)
    ]


def translated_offsets(
    flow: FlowSettings,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    progress: Mapping[TopicPartition, Progress],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return a group's offsets translated to the target, by partition of the target.

    Partitions that are not mirrored and offsets that cannot be translated are left out.
    """
    translated: dict[TopicPartition, OffsetAndMetadata] = {}
    for where, committed in offsets.items():
        offset = progress[where].translated(committed.offset) if where in progress else None
        if offset is not None:
            remote = TopicPartition(flow.remote_topic(where.topic), where.partition)
            translated[remote] = OffsetAndMetadata(offset=offset, metadata=committed.metadata)
    return translated


def partitions_read_up(
    flow: FlowSettings,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    progress: Mapping[TopicPartition, Progress],
) -> dict[TopicPartition, str]:
    """Return the partitions of which the group has read all mirrored records in the source.

    They are named as in the target, and each maps to the id of its topic in the target.
    """
    return {
        TopicPartition(flow.remote_topic(where.topic), where.partition): (
            progress[where].lineage.target_topic_id
        )
        for where, committed in offsets.items()
        if where in progress and progress[where].is_behind_all(committed.offset)
    }


def behind_marker(offset: OffsetAndMetadata, ends: PartitionOffsets) -> OffsetAndMetadata:
    """Return ``offset`` plus one if only a transaction marker can be at ``offset``.

    Return it unchanged otherwise. ``offset`` follows the last mirrored record. If the last stable
    offset is after ``offset``, the transaction of this record is committed. If ``offset`` is also
    the last offset of the partition, the marker of this transaction is there.
    """
    is_marker_last = ends.high_watermark == ends.last_stable_offset == offset.offset + 1
    return replace(offset, offset=offset.offset + 1) if is_marker_last else offset


def due_commits(
    translated: Mapping[TopicPartition, OffsetAndMetadata],
    there: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the translated offsets that are higher than ``there``, or missing in it.

    ``there`` are the group's offsets in the target.
    """
    return {
        where: each
        for where, each in translated.items()
        if where not in there or there[where].offset < each.offset
    }


def may_commit(group: GroupDescription) -> bool:
    """Whether the group has no members in the target, or does not exist there."""
    return group.state.lower() in WITHOUT_MEMBERS and not group.members
