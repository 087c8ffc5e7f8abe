"""The methods of the admin for groups, share groups and their offsets.

Each method calls a function of another module of this package, which sends the requests. The
*queue* of a share group is the part of each partition that the group still has to process.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from log_service.client import arguments
from log_service.client.admin import groups, share_groups, share_records
from log_service.client.admin.admin_connection import AdminConnection
from log_service.client.admin.share_groups import ShareGroupDescription, ShareGroupOffset
from log_service.client.admin.share_records import QueueInFlight
from log_service.client.admin.values import GroupDescription, GroupListing, OffsetAndMetadata
from log_service.common.types import TopicPartition


class GroupAdmin(AdminConnection):
    """The methods of ``Admin`` for groups and share groups."""

    async def list_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        timeout_ms: int | None = None,
    ) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by id.

        ``states`` and ``types`` select groups. Types are classic, consumer, share and streams
        (KIP-848, KIP-932). The error is UNSUPPORTED_VERSION if the brokers are too old for a
        filter.
        """
        return await groups.list_groups(
            self.cluster, self._limit(timeout_ms), list(states), list(types)
        )

    async def describe_groups(
        self, group_ids: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription]:
        """Return groups of every type but share, with their members and assignments.

        A group that does not exist has state ``Dead``.
        """
        return await groups.describe_groups(
            self.cluster, arguments.names(group_ids, "groups"), self._limit(timeout_ms)
        )

    async def delete_groups(
        self, group_ids: Sequence[str], *, timeout_ms: int | None = None
    ) -> None:
        """Delete groups with their offsets.

        The error is NON_EMPTY_GROUP if a group has members, and GROUP_ID_NOT_FOUND if it does not
        exist.
        """
        await groups.delete_groups(
            self.cluster, arguments.names(group_ids, "groups"), self._limit(timeout_ms)
        )

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        is_stable_required: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets. ``partitions`` None means all of them.

        Partitions without a committed offset are left out. With ``is_stable_required`` the call
        waits while an open transaction is about to commit some of the offsets (KIP-447).
        """
        limit_ms = self._limit(timeout_ms)
        return await groups.list_group_offsets(
            self.cluster, group_id, partitions, limit_ms, is_stable_required=is_stable_required
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Set a group's committed offsets.

        The error is UNKNOWN_MEMBER_ID while the group has members.
        """
        await groups.alter_group_offsets(self.cluster, group_id, offsets, self._limit(timeout_ms))

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> None:
        """Delete a group's committed offsets (KIP-496).

        The error is GROUP_SUBSCRIBED_TO_TOPIC if members of the group read the topic.
        """
        await groups.delete_group_offsets(
            self.cluster, group_id, partitions, self._limit(timeout_ms)
        )

    # Share groups

    async def describe_share_groups(
        self, group_ids: Sequence[str], *, timeout_ms: int | None = None
    ) -> dict[str, ShareGroupDescription]:
        """Return share groups with their members and assignments (KIP-932).

        A group that does not exist has state ``Dead``.
        """
        return await share_groups.describe_share_groups(
            self.cluster, arguments.names(group_ids, "groups"), self._limit(timeout_ms)
        )

    async def list_share_group_offsets(
        self, group_id: str, topics: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return the start offset and the lag of a share group's queue, by partition.

        ``topics`` None means all topics that the group was ever subscribed to.
        """
        named = None if topics is None else arguments.names(topics, "topics")
        return await share_groups.list_share_group_offsets(
            self.cluster, group_id, named, self._limit(timeout_ms)
        )

    async def describe_share_records(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        max_ranges: int = 100,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, QueueInFlight]:
        """Return a queue's records in flight, with the members that hold them and delivery counts.

        Each broker returns at most ``max_ranges`` ranges of offsets. A partition without a leader
        is left out. Brokers other than tidelog's do not know this request. The error is then
        UNSUPPORTED_VERSION.
        """
        return await share_records.describe_share_records(
            self.cluster,
            group_id,
            arguments.partitions(partitions),
            max_ranges,
            self._limit(timeout_ms),
        )

    async def release_share_records(
        self,
        group_id: str,
        member_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> tuple[int, ...]:
        """End a member's share sessions at the leaders of partitions, and return the leaders' ids.

        A session covers all partitions of a leader. So all records that the member holds at these
        leaders are delivered again, to any member. A member that still runs opens a new session,
        and its acknowledgements of the released records are refused. The caller needs READ on the
        group. Brokers without a session of the member are not among the returned ids.
        """
        return await share_records.release_share_records(
            self.cluster,
            group_id,
            member_id,
            arguments.partitions(partitions),
            self._limit(timeout_ms),
        )

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> None:
        """Set the start offsets of a queue, and forget which of its records are acknowledged.

        The error is NON_EMPTY_GROUP while the group has members.
        """
        arguments.partitions(offsets)
        wanted = {where: arguments.offset(offset) for where, offset in offsets.items()}
        await share_groups.alter_share_group_offsets(
            self.cluster, group_id, wanted, self._limit(timeout_ms)
        )

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> None:
        """Delete the start offsets of a queue in all partitions of the given topics.

        The error is NON_EMPTY_GROUP while the group has members.
        """
        named = arguments.names(topics, "topics")
        await share_groups.delete_share_group_offsets(
            self.cluster, group_id, named, self._limit(timeout_ms)
        )
