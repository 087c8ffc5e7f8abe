"""Replicas on other nodes: leaders to fetch from, and followers whose ISR membership is proposed.

This file decides when each part that communicates with other nodes is created. A part is created
with the first partition that needs it, so that a single node imports and runs none of them.
``fetchers`` fetch, ``isr_changes`` propose, ``throttles`` limit the rate. This module passes
metadata changes on to the parts that exist. The replica manager decides which partitions exist.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from log_service.common.env import Clock
from log_service.common.types import NO_NODE, NodeId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.replication.partition import Partition
from log_service.replication.partition_state import Change

if TYPE_CHECKING:
    from log_service.replication.fetchers import Fetchers
    from log_service.replication.isr_changes import IsrChanges
    from log_service.replication.links import ClusterLinks
    from log_service.replication.throttles import Throttles


class RemoteReplicas:
    """Links from one node's partitions to other nodes.

    Without ``links``, nothing is fetched or proposed. ``led`` yields the partitions that this node
    leads. ``on_change`` is called with the changes that a response of the controller caused.
    ``on_safe`` is called with partitions whose high watermark moved after a fetch.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        clock: Clock,
        nursery: trio.Nursery,
        links: "ClusterLinks | None",
        image: Callable[[], MetadataImage],
        led: Callable[[], Iterable[Partition]],
        on_change: Callable[[Partition, Change], None],
        on_safe: Callable[[Partition], None],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._nursery = nursery
        self._links = links
        self._image = image
        self._led = led
        self._on_change = on_change
        self._on_safe = on_safe
        self._fetchers: Fetchers | None = None
        self._isr_changes: IsrChanges | None = None
        self.throttles: Throttles | None = None
        """The throttles of this node, or None if no broker and no topic has ever configured one."""

    def __repr__(self) -> str:
        return f"<RemoteReplicas {self._fetchers!r} {self._isr_changes!r}>"

    @property
    def has_fetched(self) -> bool:
        """Whether this node has ever followed a partition."""
        return self._fetchers is not None

    @property
    def max_lag(self) -> int:
        """The lag, in records, of the local replica that is furthest behind its leader."""
        return 0 if self._fetchers is None else self._fetchers.max_lag

    @property
    def isr_change_counts(self) -> tuple[int, int, int]:
        """The numbers of ISR shrinks, ISR expansions and refused changes of this node's leaders."""
        found = self._isr_changes
        return (
            (0, 0, 0)
            if found is None
            else (found.shrink_count, found.expand_count, found.refused_count)
        )

    # Partitions

    def place(self, partition: Partition, before: tuple[int, int] | None) -> None:
        """Fetch a partition from its leader on another node, or stop fetching it if there is none.

        ``before`` holds the leader and the leader epoch that the partition has followed so far. A
        new leader or leader epoch starts the fetch again. If this node leads the partition, ISR
        changes can be proposed from now on.
        """
        if partition.is_leader:
            self._begin_isr_changes()
        elif partition.leader != NO_NODE and not partition.is_offline:
            if before != (partition.leader, partition.leader_epoch):
                self._follow(partition)
            return
        self.forget(partition)

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition, if it is fetched."""
        if self._fetchers is not None:
            self._fetchers.forget(partition)

    def request_isr_change(self, partition: Partition) -> None:
        """Send a partition's proposed ISR to the controller, if there are links to other nodes."""
        self._begin_isr_changes()
        if self._isr_changes is not None:
            self._isr_changes.request(partition)

    def _begin_isr_changes(self) -> None:
        if self._isr_changes is not None or self._links is None:
            return
        from log_service.replication.isr_changes import (  # noqa: PLC0415 - a node alone has no followers
            IsrChanges,
        )

        self._isr_changes = IsrChanges(
            node_id=self._node_id,
            links=self._links,
            clock=self._clock,
            nursery=self._nursery,
            led=self._led,
            on_change=self._on_change,
        )

    def _follow(self, partition: Partition) -> None:
        if self._fetchers is None:
            if self._links is None:
                return
            from log_service.replication.fetchers import (  # noqa: PLC0415 - a node alone follows no one
                Fetchers,
            )

            self._fetchers = Fetchers(
                node_id=self._node_id,
                links=self._links,
                clock=self._clock,
                nursery=self._nursery,
                image=self._image,
                throttle=lambda: None if self.throttles is None else self.throttles.follower,
                on_safe=self._on_safe,
            )
        self._fetchers.follow(partition)

    # Metadata

    def on_brokers_changed(self, broker_ids: Iterable[int]) -> None:
        """Send requests to these brokers now, because their address or state may have changed."""
        if self._fetchers is not None:
            self._fetchers.on_brokers_changed(broker_ids)

    def look_for_laggards(self) -> None:
        """Check for followers that must leave the ISR, without waiting for the next interval."""
        if self._isr_changes is not None:
            self._isr_changes.look_for_laggards()

    def update_throttles(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply the throttle configuration of brokers and topics.

        Nothing happens until the metadata configures a throttle.
        """
        if self.throttles is None:
            if not any(
                "replication.throttled" in key
                for configs in delta.changed_configs.values()
                for key in configs
            ):
                return
            from log_service.replication.throttles import (  # noqa: PLC0415 - a node alone has nothing to throttle
                Throttles,
            )

            self.throttles = Throttles(self._node_id, self._clock.monotonic_ms())
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.TOPIC:
                self.throttles.set_topic(name, image.configs.of(ResourceType.TOPIC, name))
        own = image.configs.of(ResourceType.BROKER, str(self._node_id))
        self.throttles.set_broker(image.configs.of(ResourceType.BROKER, ""), own)
