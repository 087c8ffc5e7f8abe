"""A running cluster describes its quorum, and voters come and go.

A test also measures what the quorum costs a node alone.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages import begin_quorum_epoch as begin
from log_service.protocol.messages import end_quorum_epoch as end
from log_service.protocol.messages import fetch_snapshot, vote
from log_service.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from log_service.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.helpers.cluster import CONTROLLER_PORT, Cluster, host_of, node_properties, tell_cluster
from tests.unit.broker.context import RawClient, Story, tell
from tests.unit.broker.quorum_requests import described, dynamic, voter


def of_the_log(
    request_class: Callable[..., Any],
    topic_class: Callable[..., Any],
    partition: Any,
    **fields: Any,
) -> Any:
    """Return a request about the metadata log, by its name."""
    named = "name" if topic_class is fetch_snapshot.RequestTopicSnapshot else "topic_name"
    return request_class(
        topics=[topic_class(**{named: "__cluster_metadata"}, partitions=[partition])], **fields
    )


@pytest.mark.parametrize(
    ("request_", "versions"),
    [
        (
            of_the_log(
                vote.VoteRequest, vote.RequestTopicData, vote.RequestPartitionData(replica_id=9)
            ),
            2,
        ),
        (
            of_the_log(
                begin.BeginQuorumEpochRequest,
                begin.RequestTopicData,
                begin.RequestPartitionData(leader_id=9),
            ),
            1,
        ),
        (
            of_the_log(
                end.EndQuorumEpochRequest,
                end.RequestTopicData,
                end.RequestPartitionData(leader_id=9),
            ),
            1,
        ),
        (
            of_the_log(
                fetch_snapshot.FetchSnapshotRequest,
                fetch_snapshot.RequestTopicSnapshot,
                fetch_snapshot.RequestPartitionSnapshot(partition=0),
            ),
            1,
        ),
    ],
    ids=["Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot"],
)
def test_replicas_of_every_version_are_answered_once_a_leader_is_known(
    request_: Any, versions: int
) -> None:
    """Old versions have no place for the leader's address."""

    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.until(
            lambda: all(cluster.unfenced(each) == [1, 2, 3] for each in cluster.brokers)
        )
        for version in range(versions + 1):
            client = RawClient(
                await cluster.world.client_env().network.connect(host_of(leader), CONTROLLER_PORT)
            )
            response = await client.ask(request_, version)
            assert response.error_code == 0
            assert response.topics[0].partitions[0].error_code != 0, (
                "a stranger of epoch 0 is refused"
            )
            assert [each.node_id for each in response.node_endpoints] == (
                [leader] if version else []
            )

    tell_cluster(story)


def test_an_epoch_beyond_all_reason_leaves_the_quorum_as_it_is() -> None:
    """A voter that came to the highest epoch would have no next one: the quorum would never elect
    again.
    """

    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        before = (await described(cluster, leader)).leader_epoch
        asked = vote.RequestPartitionData(
            replica_id=9, replica_epoch=2**31 - 1, last_offset=2**40, last_offset_epoch=2**30
        )
        for node_id in cluster.brokers:
            client = RawClient(
                await cluster.world.client_env().network.connect(host_of(node_id), CONTROLLER_PORT)
            )
            refused = await client.ask(
                of_the_log(vote.VoteRequest, vote.RequestTopicData, asked), 2
            )
            assert refused.error_code == ErrorCode.INVALID_REQUEST
        await trio.sleep(10)
        assert (await described(cluster, leader)).leader_epoch == before

    tell_cluster(story)


def test_every_broker_tells_what_the_leader_knows_of_voters_and_observers() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.until(
            lambda: all(cluster.unfenced(each) == [1, 2, 3, 4] for each in cluster.brokers)
        )
        for node_id in (1, 2, 3, 4):
            quorum = await described(cluster, node_id)
            assert (quorum.error_code, quorum.leader_id) == (0, leader)
            assert [each.replica_id for each in quorum.current_voters] == [1, 2, 3]
            assert [each.replica_id for each in quorum.observers] == [4]
            assert all(
                each.last_fetch_timestamp > 0
                for each in (*quorum.current_voters, *quorum.observers)
            )
            assert (
                max(each.log_end_offset for each in quorum.current_voters)
                >= quorum.high_watermark
                > 0
            )
        other = min({1, 2, 3} - {leader})
        assert (
            await described(cluster, other, CONTROLLER_PORT)
        ).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await described(cluster, leader, CONTROLLER_PORT)).error_code == 0

    files = {each: node_properties(each, (1, 2, 3)) for each in (1, 2, 3)}
    tell_cluster(story, {**files, 4: node_properties(4, (1, 2, 3), "broker")})


def test_a_controller_becomes_a_voter_and_goes_again() -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in (1, 2, 3):
            cluster.format(node_id, voters=tuple(map(voter, (1, 2, 3))))
        cluster.format(4)
        await cluster.start()
        await cluster.until(
            lambda: all(cluster.unfenced(each) == [1, 2, 3, 4] for each in cluster.brokers)
        )
        quorum = await described(cluster, 4)
        (observer,) = quorum.observers
        client = RawClient(await cluster.world.client_env().network.connect(host_of(4), 9092))
        add = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=10_000,
            voter_id=4,
            voter_directory_id=observer.replica_directory_id,
            listeners=[Listener(name="CONTROLLER", host=host_of(4), port=CONTROLLER_PORT)],
        )
        response = await client.ask(add, 1)
        assert (response.error_code, response.error_message) == (0, None)
        assert [each.replica_id for each in (await described(cluster, 1)).current_voters] == [
            1,
            2,
            3,
            4,
        ]
        assert (await client.ask(add, 1)).error_code == ErrorCode.DUPLICATE_VOTER
        remove = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=4, voter_directory_id=observer.replica_directory_id
        )
        assert (await client.ask(remove, 0)).error_code == 0
        assert [each.replica_id for each in (await described(cluster, 1)).current_voters] == [
            1,
            2,
            3,
        ]
        assert (await client.ask(remove, 0)).error_code == ErrorCode.VOTER_NOT_FOUND

    tell_cluster(story, {each: dynamic(each) for each in (1, 2, 3, 4)}, is_started=False)


def test_a_leader_of_others_writes_idle_records_and_a_node_alone_does_not() -> None:
    async def story(cluster: Cluster) -> None:
        leader = cluster.brokers[await cluster.leader()]
        await trio.sleep(5)
        before = leader.raft.high_watermark
        await trio.sleep(10)
        assert 18 <= leader.raft.high_watermark - before <= 22

    tell_cluster(story)

    async def alone(node: Story) -> None:
        broker = node.broker
        await trio.sleep(10)  # its first heartbeats may tell something
        before = broker.raft.log_end_offset
        await trio.sleep(60)
        assert broker.raft.log_end_offset == before

    tell(alone)


def test_a_node_alone_imports_neither_the_quorums_messages_nor_connections_to_others() -> None:
    script = (
        "import sys, tests.unit.broker.context as c\n"
        "async def story(node):\n    await node.create_topic('a')\n"
        "c.tell(story)\n"
        "print([name for name in ('log_service.raft.wire', 'log_service.rpc.pool') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_an_idle_leader_writes_a_record_in_each_interval() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await trio.sleep(30)
        raft = cluster.brokers[leader].raft
        before, epoch = raft.log_end_offset, raft.epoch
        await trio.sleep(70)
        assert raft.epoch == epoch
        assert 9 <= raft.log_end_offset - before <= 11

    tell_cluster(
        story,
        {
            each: node_properties(each, (1, 2, 3), metadata_max_idle_interval_ms="7000")
            for each in (1, 2, 3)
        },
    )
