"""Which offsets to commit in the target for a group of the source, so that a consumer that moves goes on where it was.

Decides by the group's offsets in both clusters and by what is mirrored. Asks no cluster.

Invariants: a group's offset in the target never goes back. A group that has members in the target is left alone: it reads there already.
"""

from collections.abc import Mapping

from log_service.client.admin.values import GroupDescription, GroupListing, OffsetAndMetadata
from log_service.common.types import TopicPartition
from log_service.mirror.progress import Progress
from log_service.mirror.settings import FlowSettings

CONSUMER_PROTOCOL = "consumer"
OF_CONSUMERS = frozenset({"", CONSUMER_PROTOCOL})
GROUP_TYPES = frozenset({"", "classic", "consumer"})
WITHOUT_MEMBERS = frozenset({"empty", "dead"})


def selected_groups(flow: FlowSettings, groups: list[GroupListing]) -> list[str]:
    """Return the groups whose offsets are carried over: those of consumers. Queues and Kafka Streams are not among them."""
    return [
        each.group_id
        for each in groups
        if each.protocol_type in OF_CONSUMERS and each.group_type.lower() in GROUP_TYPES and flow.selects_group(each.group_id)
    ]


def translated_offsets(
    flow: FlowSettings, offsets: Mapping[TopicPartition, OffsetAndMetadata], progress: Mapping[TopicPartition, Progress]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return a group's offsets in the target, as far as its topics are mirrored and the offsets can be translated."""
    translated: dict[TopicPartition, OffsetAndMetadata] = {}
    for where, committed in offsets.items():
        offset = progress[where].translated(committed.offset) if where in progress else None
        if offset is not None:
            remote = TopicPartition(flow.remote_topic(where.topic), where.partition)
            translated[remote] = OffsetAndMetadata(offset=offset, metadata=committed.metadata)
    return translated


def due_commits(
    translated: Mapping[TopicPartition, OffsetAndMetadata], there: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return what to commit: what lies ahead of ``there``, the group's offsets in the target."""
    return {where: each for where, each in translated.items() if where not in there or there[where].offset < each.offset}


def may_commit(group: GroupDescription) -> bool:
    """Whether the group has no members in the target, or does not exist there."""
    return group.state.lower() in WITHOUT_MEMBERS and not group.members
