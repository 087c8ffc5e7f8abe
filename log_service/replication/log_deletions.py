"""Deletes the logs of deleted topics, a few at a time.

A large topic therefore does not block the event loop.

This file decides when a log is renamed for deletion. The partition is no longer served at that
time. Invariant: if a partition is created again under the same name, it gets its log only after the
old log was renamed.
"""

import logging
from itertools import islice

import trio

from log_service.common.errors import TidelogError
from log_service.common.types import TopicPartition
from log_service.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

DELETED_AT_ONCE = 64
"""The number of logs that are renamed in one turn of the event loop."""


class LogDeletions:
    """The requested deletions of one node, in order of request."""

    def __init__(self, logs: LogManager, nursery: trio.Nursery) -> None:
        self._logs = logs
        self._nursery = nursery
        self._doomed: dict[TopicPartition, None] = {}
        self._is_running = False

    def __repr__(self) -> str:
        return f"<LogDeletions {len(self._doomed)}>"

    def request(self, topic_partition: TopicPartition) -> None:
        """Request the deletion of a partition's log. Nothing happens before ``begin``."""
        self._doomed[topic_partition] = None

    def begin(self) -> None:
        """Delete some of the logs now, and the rest in later turns of the event loop."""
        if self._doomed and not self._is_running:
            self._is_running = True
            self._delete_some(DELETED_AT_ONCE)
            self._nursery.start_soon(self._delete_rest)

    def finish(self, topic_partition: TopicPartition | None = None) -> None:
        """Delete one log now, or all logs.

        A log that remains when the node stops would be a stray log at the next start.
        """
        if topic_partition is None:
            self._delete_some(len(self._doomed))
        elif topic_partition in self._doomed:
            self._delete(topic_partition)

    async def _delete_rest(self) -> None:
        while self._doomed:
            await trio.lowlevel.checkpoint()
            self._delete_some(DELETED_AT_ONCE)
        self._is_running = False

    def _delete_some(self, limit: int) -> None:
        for topic_partition in tuple(islice(self._doomed, limit)):
            self._delete(topic_partition)

    def _delete(self, topic_partition: TopicPartition) -> None:
        del self._doomed[topic_partition]
        try:
            self._logs.delete_log(topic_partition)
        except TidelogError as error:
            logger.error("The log of %s could not be deleted: %s", topic_partition, error)
