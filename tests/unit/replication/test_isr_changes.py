"""What a leader sends the controller of its in-sync sets, where something came between."""

import trio

from tests.helpers.replica_cluster import ReplicaCluster, tell_cluster, until


def test_a_proposal_that_metadata_made_void_while_it_waited_is_not_sent_and_later_ones_are() -> None:
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
