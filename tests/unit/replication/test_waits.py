"""News of the leader, of the topic and of awaited brokers ends the wait of a request for a
partition.
"""

from collections.abc import Callable

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from tests.helpers.replica_cluster import ReplicaCluster, tell_cluster, until
from tests.unit.broker.context import batch
from tests.unit.replication.context import ReplicaContext, key_of, run_story, running


class Waiting:
    """An operation that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def is_ready(self, key: TopicPartition) -> bool:
        self.asked += 1
        return False

    def on_ready(self) -> None: ...

    def on_expired(self) -> None: ...


def lose(context: ReplicaContext) -> None:
    context.elect(-1)


def delete(context: ReplicaContext) -> None:
    context.delete_topic()


@pytest.mark.parametrize("end", [lose, delete])
@pytest.mark.parametrize("purgatory", ["delayed_fetches", "delayed_produces", "delayed_deletes"])
def test_every_request_that_waits_for_a_leader_is_asked_when_it_leads_no_more(
    purgatory: str, end: Callable[[ReplicaContext], None]
) -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            waiting = Waiting()
            getattr(context.replicas, purgatory).watch(waiting, [key_of("a")], 1_000_000)
            end(context)
            assert waiting.asked > 0

    run_story(main)


def test_an_append_waits_for_a_broker_that_is_about_to_join_until_that_is_fenced() -> None:
    """It has caught up, so that records that it lacks are not safe yet. A fenced broker joins no
    more.
    """

    async def story(cluster: ReplicaCluster) -> None:
        cluster.refusal = lambda _request: ErrorCode.INELIGIBLE_REPLICA
        cluster.create_topic(replicas=(1, 2, 3), isr=(1, 2))
        assert (await cluster.node(1).produce("a", batch(b"one"))).error_code == 0
        await until(lambda: cluster.node(3).log().log_end_offset == 1)
        await cluster.node(3).kill()
        cluster.nursery.start_soon(fence_later, cluster)
        began = trio.current_time()
        assert (await cluster.node(1).produce("a", batch(b"two"))).error_code == 0
        assert trio.current_time() - began == pytest.approx(0.75, abs=0.05)

    tell_cluster(story)


async def fence_later(cluster: ReplicaCluster) -> None:
    await trio.sleep(0.75)
    cluster.fence(3)
