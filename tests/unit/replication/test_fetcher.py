"""Which partitions a fetcher goes on with when the metadata says something new while one of them waits."""

from collections.abc import Callable
from typing import Any

import trio

from log_service.common.types import NodeId
from log_service.config.views import ReplicationConfig
from log_service.metadata.partition import NO_LEADER
from log_service.protocol.stored.metadata_records import PartitionChangeRecord
from log_service.replication.fetcher import Fetcher
from log_service.replication.following import Step
from log_service.replication.links import ClusterLinks
from log_service.replication.partition import Partition
from tests.unit.replication.context import NODE, ReplicaContext, run_story, running

BACKOFF_MS = 1_000


def fetcher_of(context: ReplicaContext) -> Fetcher:
    """Return a fetcher whose leader has no address: it fetches nothing, and waits."""
    unused: Any = None
    links = ClusterLinks(
        controller=unused, pool=unused, broker_epoch=lambda: 1, listener_name="", config=ReplicationConfig(backoff_ms=BACKOFF_MS)
    )
    return Fetcher(
        node_id=NODE,
        leader_id=2,
        index=0,
        links=links,
        clock=context.env.clock,
        find_leader=lambda: None,
        metadata_version=lambda: 30,
        throttle=lambda: None,
        on_safe=lambda _partition: None,
        start_soon=context.nursery.start_soon,
    )


def followed_pair(context: ReplicaContext) -> tuple[Fetcher, Partition, Partition]:
    context.create_topic(partitions=2, replicas=(NODE, NodeId(2)), isr=(NODE, NodeId(2)))
    identity = context.image.topics.by_name["a"].topic_id
    context.publish(*(PartitionChangeRecord(topic_id=identity, partition_id=index, leader=NO_LEADER) for index in (0, 1)))
    fetcher, pair = fetcher_of(context), (context.partition(index=0), context.partition(index=1))
    for partition in pair:
        fetcher.add(partition)
    return fetcher, *pair


def tell(story: Callable[[ReplicaContext], Any]) -> None:
    async def main() -> None:
        async with running() as context:
            await story(context)

    run_story(main)


def test_a_partition_that_is_taken_away_while_it_pauses_is_not_resumed() -> None:
    async def story(context: ReplicaContext) -> None:
        fetcher, first, _second = followed_pair(context)
        followed = next(each for each in fetcher._followed.values() if each.partition is first)
        fetcher._pause(followed, Step.PAUSE)
        fetcher.remove(first)
        with trio.move_on_after(10 * BACKOFF_MS / 1_000):
            await fetcher.run()
        assert len(fetcher) == 1

    tell(story)


def test_an_earlier_life_of_a_partition_takes_no_later_one_along() -> None:
    async def story(context: ReplicaContext) -> None:
        fetcher, first, second = followed_pair(context)
        later = Partition(first.topic_partition, first.topic_id, first.log, node_id=NODE)
        fetcher.add(later)
        fetcher.remove(first)
        assert [each.partition for each in fetcher._followed.values()] == [later, second]

    tell(story)
