"""Two processes under one node id: what is said of them, and when.

A voter's response may name this node as the leader of an epoch in which it does not lead. For a moment that is this node's own past: it
came back with an empty disk, and the others have not noticed yet. Where it goes on, another process leads under the same id, and this one
can take no part: it is told so once a minute. The leader says as often where two processes follow it under the id of one voter.
"""

import logging
from collections.abc import Callable

from log_service.common.quiet_log import QuietLogger
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.twins import Twins

logger = logging.getLogger(__name__)

PAST_MS = 10_000
"""Longer than others take to notice that a leader has gone, and to elect another."""
GAP_MS = 5_000
"""After so long without a word of it, what is heard next is heard for the first time."""
TOLD_EVERY_MS = 60_000


class RivalWatch:
    """Signs of other processes with this node's id, and of leaders that share one id."""

    def __init__(self, node_id: NodeId, now_ms: Callable[[], int]) -> None:
        self._node_id = node_id
        self._now_ms = now_ms
        self._quiet = QuietLogger(logger, now_ms, interval_ms=TOLD_EVERY_MS)
        self._first_ms = self._last_ms = -GAP_MS

    def note(self, epoch: LeaderEpoch) -> None:
        """Take note that a peer calls this node the leader of an epoch in which it does not lead."""
        now_ms = self._now_ms()
        if now_ms - self._last_ms >= GAP_MS:
            self._first_ms = now_ms
        self._last_ms = now_ms
        if now_ms - self._first_ms >= PAST_MS:
            text = (
                "Another process leads the metadata quorum as node %d, which is this node's id, in epoch %d: this one takes no part. "
                "Stop it, or give it a node.id of its own"
            )
            self._quiet.error("rival", text, self._node_id, epoch)

    def note_twins(self, twins: Twins) -> None:
        """Take note that two processes follow as one voter, which this node leads."""
        self._quiet.error(twins.node_id, "%s", twins.text[0].upper() + twins.text[1:])
