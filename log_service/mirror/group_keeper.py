"""Translates committed offsets of the source's groups, and commits them in the target at intervals.

``group_plan`` decides which offsets to commit. The offsets that a group has in the target are
cached for a while and then read again, because they expire without members and disappear with a
deleted topic. A group whose offsets cannot be committed causes a complaint and does not delay other
groups.
"""

from collections.abc import Callable, Iterable, Mapping

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import OffsetAndMetadata, PartitionOffsets
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.mirror.complaints import Complaints
from log_service.mirror.group_plan import (
    behind_marker,
    due_commits,
    may_commit,
    partitions_read_up,
    selected_groups,
    translated_offsets,
)
from log_service.mirror.progress import Progress
from log_service.mirror.settings import FlowSettings

JOINED_MEANWHILE = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)
KNOWN_FOR_S = 300.0
"""How long the offsets of a group in the target are cached while no commit is due."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class GroupKeeper:
    """Copies the committed offsets of the groups of one flow.

    ``progress`` returns the progress committed in the target, by partition of the source.
    """

    def __init__(
        self,
        flow: FlowSettings,
        source: Admin,
        target: Admin,
        progress: Callable[[], Mapping[TopicPartition, Progress]],
        complaints: Complaints,
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._progress = progress
        self._complaints = complaints
        self._known: dict[str, tuple[float, Offsets]] = {}
        """By group: the time when its offsets in the target were read, and these offsets."""

    async def run(self) -> None:
        """Copy the offsets of all selected groups to the target at intervals, until cancelled."""
        while True:
            await trio.sleep(self._flow.sync_groups_s)
            try:
                await self.carry_over()
            except KafkaError as error:
                self._complaints.note(f"the groups cannot be looked at: {error}")

    async def carry_over(self) -> None:
        """Copy the offsets of all selected groups to the target once.

        Raises:
            KafkaError: the groups cannot be listed.
        """
        groups = selected_groups(self._flow, await self._source.list_groups())
        self._known = {group: known for group, known in self._known.items() if group in groups}
        for group in groups:
            try:
                await self._carry_over(group)
            except KafkaError as error:
                if error.code not in JOINED_MEANWHILE:
                    self._complaints.note(
                        f"the offsets of the group {group} cannot be carried over: {error}"
                    )

    async def _carry_over(self, group: str) -> None:
        offsets, progress = await self._source.list_group_offsets(group), self._progress()
        looked_at, known = self._known.get(group, (0.0, {}))
        is_fresh = trio.current_time() - looked_at < KNOWN_FOR_S
        translated = await self._behind_markers(offsets, progress, known if is_fresh else {})
        if not due_commits(translated, known if is_fresh else {}):
            return
        if not may_commit((await self._target.describe_groups([group]))[group]):
            return
        now = trio.current_time()
        there = await self._target.list_group_offsets(group)
        due = due_commits(translated, there)
        if due:
            await self._target.alter_group_offsets(group, due)
        self._known[group] = (now, {**there, **due})

    async def _behind_markers(
        self, offsets: Offsets, progress: Mapping[TopicPartition, Progress], known: Offsets
    ) -> Offsets:
        """Translate a group's offsets, and move them past the transaction markers of the target.

        Only offsets of partitions that the group has read completely are moved (``group_plan``).
        ``known`` are the group's offsets in the target. End offsets are requested only for
        partitions whose known offset is not past the marker yet.
        """
        translated = translated_offsets(self._flow, offsets, progress)
        asked = {
            where: topic_id
            for where, topic_id in partitions_read_up(self._flow, offsets, progress).items()
            if where in translated
            and (where not in known or known[where].offset <= translated[where].offset)
        }
        ends = await self._ends(asked)
        certain = {
            where: ends[where]
            for where, topic_id in asked.items()
            if where in ends and str(ends[where].topic_id) == topic_id
        }
        return {
            **translated,
            **{where: behind_marker(translated[where], each) for where, each in certain.items()},
        }

    async def _ends(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets]:
        """Return the end offsets of partitions of the target.

        Return an empty mapping if the request fails. No offset is then moved past a marker.
        """
        topics = sorted({where.topic for where in partitions})
        if not topics:
            return {}
        try:
            return await self._target.describe_offsets(topics)
        except KafkaError:
            return {}
