"""A leader sends the controller its in-sync sets, also where something came between."""

import logging

import pytest
import trio

from log_service.common.errors import ErrorCode
from tests.helpers.replica_cluster import ReplicaCluster, tell_cluster, until


def test_a_proposal_that_metadata_made_void_while_it_waited_is_not_sent_and_later_ones_are() -> (
    None
):
    async def story(cluster: ReplicaCluster) -> None:
        cluster.decision_seconds = 2.0
        cluster.create_topic("a", replicas=(1, 2), isr=(1,))
        await trio.sleep(0.5)
        cluster.create_topic("b", replicas=(1, 2), isr=(1,))
        await trio.sleep(0.5)
        assert cluster.node(1).partition("b").state.proposal is not None
        cluster.change("b", isr=[1, 2])
        await until(lambda: sorted(cluster.isr("a")) == [1, 2])
        cluster.create_topic("c", replicas=(1, 2), isr=(1,))
        await until(lambda: sorted(cluster.isr("c")) == [1, 2])
        asked = [topic.topic_id for request in cluster.alterations for topic in request.topics]
        topics = cluster.image.topics.by_name
        assert asked == [topics["a"].topic_id, topics["c"].topic_id]

    tell_cluster(story, count=2)


def test_in_sync_replicas_that_are_refused_together_are_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was a line for each partition, with the state that the partition has in memory."""
    caplog.set_level(logging.INFO, "log_service.replication.isr_changes")

    async def story(cluster: ReplicaCluster) -> None:
        cluster.refusal = lambda _: ErrorCode.INELIGIBLE_REPLICA
        cluster.decision_seconds = 0.5
        for number in range(5):
            cluster.create_topic(f"t{number}", replicas=(1, 2), isr=(1,))
        await until(lambda: sum(len(request.topics) for request in cluster.alterations) >= 5)
        await trio.sleep(1)

    tell_cluster(story, count=2)
    lines = [line for line in caplog.messages if "refuses" in line]
    assert len(lines) == 1
    assert "PartitionState" not in lines[0]
