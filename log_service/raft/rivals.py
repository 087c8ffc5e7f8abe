"""Warns of two processes with one node id.

A voter's response may name this node as the leader of an epoch in which it does not lead. For a
short time, this may refer to this node's own past: it has returned with an empty disk, and the
other voters have not noticed yet. If it continues, another process leads with the same id, and this
process can take no part in the quorum. This is logged once a minute. The leader also logs once a
minute if two processes fetch from it with the id of one voter.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from log_service.common.quiet_log import QuietLogger
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.twins import Twins
from log_service.storage.partition_metadata import format_uuid

logger = logging.getLogger(__name__)

PAST_MS = 10_000
"""More time than other voters need to notice that a leader is gone, and to elect another."""
GAP_MS = 5_000
"""If a sign comes after a pause of at least this length, it counts as the first one."""
LOG_INTERVAL_MS = 60_000


class RivalWatch:
    """Logs signs of another process with this node's id, or of two with the id of one voter."""

    def __init__(self, node_id: NodeId, now_ms: Callable[[], int]) -> None:
        self._node_id = node_id
        self._now_ms = now_ms
        self._quiet = QuietLogger(logger, now_ms, interval_ms=LOG_INTERVAL_MS)
        self._first_ms = self._last_ms = -GAP_MS

    def note(self, epoch: LeaderEpoch) -> None:
        """Record that a peer names this node as the leader of an epoch that it does not lead."""
        now_ms = self._now_ms()
        if now_ms - self._last_ms >= GAP_MS:
            self._first_ms = now_ms
        self._last_ms = now_ms
        if now_ms - self._first_ms >= PAST_MS:
            text = (
                "Another process leads the metadata quorum as node %d, which is this node's id, in"
                " epoch %d: this one takes no part. Stop it, or give it a node.id of its own"
            )
            self._quiet.error("rival", text, self._node_id, epoch)

    def note_twins(self, twins: Twins) -> None:
        """Log that two processes fetch from this leader with the id of one voter."""
        self._quiet.error(twins.node_id, "%s", twins.text[0].upper() + twins.text[1:])

    def warn_of_no_vote(
        self, voting_directory: UUID, own: tuple[Path, UUID], *, is_auto_join_enabled: bool
    ) -> None:
        """Warn that this process has no vote, because the node votes from another directory.

        ``own`` is the path and the id of this process's directory.
        """
        text = (
            "Node %d votes in the metadata quorum from directory %s, and %s is directory %s: this"
            " process follows the log and has no vote. Start it over the directory that votes; %s"
        )
        lost = (
            "where that one is lost, this one takes its place by itself within seconds"
            if is_auto_join_enabled
            else (
                f"where that one is lost, tidelog cluster voters remove {self._node_id} --execute"
                " takes it out, and tidelog cluster voters add FILE --execute gives this one the"
                " vote"
            )
        )
        path, directory_id = own
        logger.warning(
            text,
            self._node_id,
            format_uuid(voting_directory),
            path,
            format_uuid(directory_id),
            lost,
        )
