"""A task goes from one instance to another in stages.

They are those of the coordinator of its streams group, and some wait for one.

Decides when a stage is reached: when a member comes into it after the watch began. Looks at the
coordinator's memory, and changes nothing.
"""

from collections.abc import Iterator

import trio

from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.values.streams_tasks import StreamsMember, TaskState
from tests.sim.node_host import NodeHost

TASK_STAGES = (TaskState.UNREVOKED_TASKS, TaskState.UNREVOKED_TASKS, TaskState.UNRELEASED_TASKS)
"""A member has to give tasks up; a member waits for tasks of others."""


class HandoverWatch:
    """Waits until a member of a group that a node coordinates comes into a state."""

    def __init__(self, host: NodeHost, wanted: TaskState) -> None:
        self.is_reached = trio.Event()
        self._host = host
        self._wanted = wanted
        self._known = {id(member.current) for member in self._members()}

    def look(self) -> None:
        """Look once; cheap enough to be done whenever time is about to pass."""
        if any(
            member.current.state is self._wanted and id(member.current) not in self._known
            for member in self._members()
        ):
            self.is_reached.set()

    def _members(self) -> Iterator[StreamsMember]:
        current = self._host.current
        rooms = current.broker.open_rooms if self._host.is_running and current is not None else None
        if rooms is not None:
            shards = (
                led.shard for led in rooms.groups.shards.led.values() if led.runtime is not None
            )
            groups = (
                group
                for shard in shards
                for group in shard.groups.values()
                if isinstance(group, StreamsGroup)
            )
            yield from (member for group in groups for member in group.members.values())
