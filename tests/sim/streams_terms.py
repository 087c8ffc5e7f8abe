"""A node coordinates the streams group of a simulated cluster in a leader epoch.

The module tells which one, and whether another may do so by now.

Looks into the nodes, so that a response can be judged by what its coordinator could know: one that
was succeeded, and has not heard of it, says what it knew, as with Apache Kafka.
"""

from collections.abc import Callable, Sequence
from math import inf

import trio

from log_service.common.java_hashing import hashed_partition
from log_service.common.types import GROUP_METADATA_TOPIC
from tests.sim.node_host import NodeHost
from tests.sim.streams_history import NOT_KNOWN, Elected


class CoordinatorTerms:
    """The terms of one group's coordinators. ``note`` hears of each election."""

    def __init__(
        self, group_id: str, hosts: Sequence[NodeHost], note: Callable[[Elected], object]
    ) -> None:
        self._group_id = group_id
        self._hosts = {host.name: host for host in hosts}
        self._note = note
        self._newest = NOT_KNOWN
        self._looked_at = -inf

    def before(self, name: str) -> int:
        """Return the epoch in which a node that is about to be asked coordinates the group.

        It is ``NOT_KNOWN`` if the node does not.
        """
        self._look()
        return self._of(name)

    def _of(self, name: str) -> int:
        partition, current = self._partition(), self._hosts[name].current
        rooms = (
            current.broker.open_rooms
            if self._hosts[name].is_running and current is not None
            else None
        )
        led = None if rooms is None or partition is None else rooms.groups.shards.led.get(partition)
        return NOT_KNOWN if led is None else led.coordinator_log.leader_epoch

    def after(self, name: str, before: int) -> int:
        """Return ``before``, the epoch of a node when it was asked.

        No other one may be known to any node when its response came.
        """
        self._look()
        return (
            before
            if self._newest == before and self._of(name) in {before, NOT_KNOWN}
            else NOT_KNOWN
        )

    def _look(self) -> None:
        """Take note of the highest leader epoch of the group's coordinator that any node knows."""
        known, partition = self._newest, self._partition()
        for host in self._hosts.values():
            image = (
                host.current.broker.image if host.is_running and host.current is not None else None
            )
            topic = None if image is None else image.topics.by_name.get(GROUP_METADATA_TOPIC)
            if topic is not None and partition is not None and partition in topic.partitions:
                known = max(known, topic.partitions[partition].leader_epoch)
        if known > self._newest:
            self._newest = known
            self._note(Elected(term=known, after=self._looked_at))
        self._looked_at = trio.current_time()

    def _partition(self) -> int | None:
        for host in self._hosts.values():
            if host.is_running and host.current is not None:
                topic = host.current.broker.image.topics.by_name.get(GROUP_METADATA_TOPIC)
                if topic is not None:
                    return hashed_partition(self._group_id, len(topic.partitions))
        return None
