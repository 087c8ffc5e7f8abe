"""A fetcher without a leader, beside partitions that this node has led: what it would ask for next."""

from collections.abc import Callable
from typing import Any

from log_service.common.types import NodeId
from log_service.config.views import ReplicationConfig
from log_service.metadata.partition import NO_LEADER
from log_service.protocol.stored.metadata_records import PartitionChangeRecord
from log_service.replication.fetcher import Fetcher
from log_service.replication.links import ClusterLinks
from log_service.replication.partition import Partition
from log_service.replication.throttles import Throttle
from tests.unit.replication.context import NODE, ReplicaContext, run_story, running

BACKOFF_MS = 1_000


def fetcher_of(
    context: ReplicaContext,
    *,
    find_leader: Callable[[], tuple[str, int] | None] = lambda: None,
    throttle: Throttle | None = None,
    metadata_version: int = 30,
    on_safe: Callable[[Partition], None] = lambda _partition: None,
) -> Fetcher:
    """Return a fetcher whose leader has no address: it fetches nothing, and waits."""
    unused: Any = None
    links = ClusterLinks(
        controller=unused,
        pool=unused,
        broker_epoch=lambda: 1,
        listener_name="",
        config=ReplicationConfig(backoff_ms=BACKOFF_MS),
    )
    return Fetcher(
        node_id=NODE,
        leader_id=2,
        index=0,
        links=links,
        clock=context.env.clock,
        find_leader=find_leader,
        metadata_version=lambda: metadata_version,
        throttle=lambda: throttle,
        on_safe=on_safe,
        start_soon=context.nursery.start_soon,
    )


def pair_of(context: ReplicaContext, *values: bytes, **configs: Any) -> tuple[Partition, Partition]:
    """Return two partitions that this node has led, with ``values``, and that have no leader now."""
    context.create_topic(partitions=2, replicas=(NODE, NodeId(2)), isr=(NODE, NodeId(2)), **configs)
    for value in values:
        context.produce(value, index=0)
        context.produce(value, index=1)
    identity = context.image.topics.by_name["a"].topic_id
    context.publish(
        *(
            PartitionChangeRecord(topic_id=identity, partition_id=index, leader=NO_LEADER)
            for index in (0, 1)
        )
    )
    return context.partition(index=0), context.partition(index=1)


def active(fetcher: Fetcher) -> list[Partition]:
    """Return the partitions that the next requests ask for."""
    return fetcher.active_partitions


def tell(story: Callable[[ReplicaContext], Any]) -> None:
    async def main() -> None:
        async with running() as context:
            await story(context)

    run_story(main)
