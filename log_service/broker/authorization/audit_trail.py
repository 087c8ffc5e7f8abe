"""The audit log of one node: the queues of its file and its topic, and their writers.

``decision_log`` decides which decisions are written. ``audit_file`` and ``audit_topic`` write them.
"""

from typing import Final

import trio

from log_service.broker.authorization.audit_file import AuditFile
from log_service.broker.authorization.audit_queue import AuditQueue
from log_service.broker.authorization.audit_topic import AuditTopic, is_for_topic
from log_service.broker.rooms import NodeFoundation, Rooms
from log_service.common.env import NodeEnv
from log_service.config.views import AuditConfig
from log_service.security.audit import AuditEntry

FLUSH_DEADLINE_S: Final = 2.0
"""Seconds that a stopping node waits for its last decisions to be written."""
FILE, TOPIC = "file", "topic"


class AuditTrail:
    """The file and the topic that get one node's decisions, with their queues."""

    def __init__(self, env: NodeEnv, config: AuditConfig) -> None:
        self.queues: dict[str, AuditQueue] = {}
        """The queues by destination, which are the file and the topic."""
        self._topic = config.topic
        self._file: AuditFile | None = None
        if config.path is not None:
            self.queues[FILE] = AuditQueue()
            self._file = AuditFile(env.files, env.clock, config.path, config)
        if config.topic is not None:
            self.queues[TOPIC] = AuditQueue()

    def __repr__(self) -> str:
        return f"<AuditTrail {self.queues!r}>"

    @property
    def has_file(self) -> bool:
        """Whether decisions go into a file. If so, the logger's own handlers do not get them."""
        return self._file is not None

    def note(self, entry: AuditEntry) -> None:
        """Queue a decision for the file, and also for the topic if the topic accepts it."""
        if self._file is not None:
            self.queues[FILE].put_nowait(entry)
        if self._topic is not None and is_for_topic(entry, self._topic):
            self.queues[TOPIC].put_nowait(entry)

    async def start(self, nursery: trio.Nursery) -> None:
        """Start writing the file.

        Raises:
            OSError: the file cannot be written.
        """
        if self._file is not None:
            await self._file.open()
            nursery.start_soon(self.queues[FILE].write_with, self._file.write)

    def start_topic(self, foundation: NodeFoundation, rooms: Rooms) -> None:
        """Start writing the topic."""
        if self._topic is None:
            return
        topic = AuditTopic(
            self._topic,
            node_id=foundation.node_id,
            clock=foundation.env.clock,
            image=foundation.image,
            listener_name=foundation.config.inter_broker_listener_name,
            pool=foundation.peers,
            replicas=rooms.replicas,
            create_topic=rooms.topic_creation.create,
        )
        rooms.background.start_soon(self.queues[TOPIC].write_with, topic.write)

    async def flush(self) -> None:
        """Wait until all decisions are written, for at most ``FLUSH_DEADLINE_S``."""
        with trio.move_on_after(FLUSH_DEADLINE_S):
            for queue in self.queues.values():
                await queue.wait_empty()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
