"""Share groups in ``tidelog groups`` (KIP-932): describes them, and changes their offsets.

A share group has a start offset instead of a committed offset. All records before it are finished,
and some after it may be finished, too. So the lag comes from the cluster and is not computed here.
Start offset and lag are unknown until the group's state of a partition is initialized.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from log_service.cli.names import split_partitions
from log_service.client.admin.admin import Admin
from log_service.client.admin.share_groups import ShareGroupDescription
from log_service.client.admin.values import OffsetAndMetadata
from log_service.common.types import TopicPartition

SHARE = "share"


async def share_groups_among(admin: Admin, group_ids: Sequence[str]) -> set[str]:
    """Return those of ``group_ids`` that are share groups."""
    return {
        group.group_id for group in await admin.list_groups() if group.group_type == SHARE
    }.intersection(group_ids)


async def described_share_group(admin: Admin, group: ShareGroupDescription) -> dict[str, Any]:
    """Return everything about a share group, with the fields that other groups have."""
    return {
        "group_id": group.group_id,
        "state": group.state,
        "protocol_type": SHARE,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator.node_id,
        "offsets": await _offset_rows(admin, group),
        "members": [
            {
                "member_id": member.member_id,
                "instance": None,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": [str(where) for where in member.assignment],
            }
            for member in group.members
        ],
    }


async def _offset_rows(admin: Admin, group: ShareGroupDescription) -> list[dict[str, Any]]:
    """Return a row per partition that the group reads. Several clients may read the same one."""
    offsets = await admin.list_share_group_offsets(group.group_id)
    readers: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for where in member.assignment:
            readers.setdefault(where, []).append(member.client_id)
    ends = (
        await admin.describe_offsets(sorted({where.topic for where in offsets})) if offsets else {}
    )
    return [
        {
            "topic": where.topic,
            "partition": where.partition,
            "start": offsets[where].start_offset,
            "end": ends[where].high_watermark if where in ends else None,
            "lag": offsets[where].lag,
            "client": ", ".join(sorted(readers.get(where, []))) or None,
        }
        for where in sorted(offsets)
    ]


async def queue_positions(
    admin: Admin, group_id: str
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return a queue's start offsets in the form of committed offsets.

    Partitions without a start offset are left out.
    """
    offsets = await admin.list_share_group_offsets(group_id)
    return {
        where: OffsetAndMetadata(offset=each.start_offset)
        for where, each in offsets.items()
        if each.start_offset is not None
    }


def whole_topics(named: Sequence[str]) -> list[str]:
    """Return the topics that an option names.

    Raises:
        UsageError: the option names partitions of a topic, but a queue forgets only whole topics.
    """
    topics = [split_partitions(text, "--topic") for text in named]
    for topic, partitions in topics:
        if partitions is not None:
            raise click.UsageError(f"a share group forgets whole topics: say --topic {topic}")
    return [topic for topic, _ in topics]
