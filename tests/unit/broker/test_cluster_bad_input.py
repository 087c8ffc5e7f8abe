"""A cluster refuses bad input with an error that says what is wrong, and changes nothing."""

from random import Random
from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.common.errors import ErrorCode, TidelogError
from log_service.common.types import NodeId
from log_service.metadata.features import SUPPORTED_FEATURES, first_feature_records
from log_service.protocol.messages import vote
from log_service.protocol.messages.add_raft_voter import AddRaftVoterRequest
from log_service.protocol.messages.add_raft_voter import Listener as VoterListener
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from log_service.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from log_service.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from log_service.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from log_service.raft.format import FormatPlan, format_directories
from tests.helpers.cluster import (
    BROKER_PORT,
    CLUSTER_ID,
    CONTROLLER_PORT,
    Cluster,
    host_of,
    node_properties,
    tell_cluster,
)
from tests.unit.broker.context import RawClient
from tests.unit.broker.quorum_requests import dynamic, voter

OTHER_CLUSTER = "another-cluster-of-kafka"
METADATA_ID = UUID(int=1)
QUIET_SECONDS = 5.0


async def ask(
    cluster: Cluster, node_id: int, request: Any, version: int, port: int = BROKER_PORT
) -> Any:
    client = RawClient(await cluster.world.client_env().network.connect(host_of(node_id), port))
    return await client.ask(request, version)


def facts(cluster: Cluster, node_id: int) -> tuple[object, ...]:
    """Return a node's metadata and the voters."""
    broker = cluster.brokers[node_id]
    image = broker.image
    return (
        image.cluster.brokers,
        image.topics.by_name,
        dict(image.configs.by_resource),
        dict(image.features),
        broker.raft.voters,
    )


async def settled(cluster: Cluster) -> int:
    """Wait until all nodes know three brokers, three controllers and a topic.

    Nothing may change any more. Return the active controller.
    """
    leader = await cluster.leader()
    await cluster.until(
        lambda: all(cluster.unfenced(each) == [1, 2, 3] for each in cluster.brokers)
    )
    await cluster.until(lambda: len(cluster.brokers[leader].image.cluster.controllers) == 3)
    created = await ask(
        cluster,
        leader,
        CreateTopicsRequest(
            topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=3)]
        ),
        7,
    )
    assert created.topics[0].error_code == 0
    before: list[tuple[object, ...]] = []
    while (now := [facts(cluster, each) for each in cluster.brokers]) != before or any(
        each[:4] != now[0][:4] for each in now
    ):
        before = now
        await trio.sleep(QUIET_SECONDS)
    return leader


def registration(**changes: Any) -> BrokerRegistrationRequest:
    fields = {
        "broker_id": 9,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=9_000),
        "log_dirs": [UUID(int=9_001)],
        "features": [
            Feature(name=name, min_supported_version=a, max_supported_version=b)
            for name, (a, b) in SUPPORTED_FEATURES.items()
        ],
        "previous_broker_epoch": -1,
    }
    return BrokerRegistrationRequest(**{**fields, **changes})


OLD_FEATURES = [Feature(name="metadata.version", min_supported_version=7, max_supported_version=25)]


def test_registrations_that_cannot_be_are_refused_and_change_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        before = facts(cluster, leader)
        other = cluster.brokers[leader].image.cluster.brokers[1 if leader != 1 else 2]  # type: ignore[index]
        for changes, code in (
            ({"cluster_id": OTHER_CLUSTER}, ErrorCode.INCONSISTENT_CLUSTER_ID),
            ({"broker_id": int(other.node_id)}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
            ({"log_dirs": list(other.log_dirs)}, ErrorCode.INVALID_REGISTRATION),
            ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
            ({"features": OLD_FEATURES}, ErrorCode.UNSUPPORTED_VERSION),
            ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ):
            response = await ask(cluster, leader, registration(**changes), 4, CONTROLLER_PORT)
            assert ErrorCode(response.error_code) is code, changes
        old = BrokerHeartbeatRequest(
            broker_id=int(other.node_id), broker_epoch=other.epoch - 1, want_fence=True
        )
        assert (
            await ask(cluster, leader, old, 1, CONTROLLER_PORT)
        ).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert facts(cluster, leader) == before

    tell_cluster(story)


def test_topics_and_moves_that_no_broker_could_take_are_refused_with_a_sentence() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        before = facts(cluster, leader)
        elsewhere = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 9])
        for topic, code, text in (
            (
                CreatableTopic(name="b", num_partitions=1, replication_factor=4),
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "4",
            ),
            (
                CreatableTopic(
                    name="b", num_partitions=-1, replication_factor=-1, assignments=[elsewhere]
                ),
                39,
                "9",
            ),
        ):
            (result,) = (
                await ask(cluster, leader, CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
            ).topics
            assert (result.error_code, text in result.error_message) == (code, True), result
        for replicas, text in (([1, 9], "9"), ([1, 1], "twice"), ([], "no brokers")):
            topics = [
                ReassignableTopic(
                    name="a",
                    partitions=[ReassignablePartition(partition_index=0, replicas=replicas)],
                )
            ]
            response = await ask(
                cluster,
                leader,
                AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5_000),
                0,
            )
            (result,) = response.responses[0].partitions
            assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert text in result.error_message
        updates = [
            FeatureUpdateKey(feature="metadata.version", max_version_level=31, upgrade_type=1)
        ]
        refused = await ask(
            cluster, leader, UpdateFeaturesRequest(feature_updates=updates, timeout_ms=5_000), 1
        )
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "metadata.version cannot become 31" in refused.error_message
        assert facts(cluster, leader) == before

    tell_cluster(story)


def of_partition(**fields: Any) -> list[vote.RequestTopicData]:
    return [
        vote.RequestTopicData(
            topic_name="__cluster_metadata", partitions=[vote.RequestPartitionData(**fields)]
        )
    ]


def fetch(replica_id: int, *, epoch: int, cluster_id: str | None = CLUSTER_ID) -> FetchRequest:
    partition = FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=0, last_fetched_epoch=0
    )
    topics = [FetchTopic(topic_id=METADATA_ID, partitions=[partition])]
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=replica_id),
        topics=topics,
        max_bytes=1_000,
    )


def test_peers_of_another_cluster_of_an_old_epoch_or_with_the_leaders_id_do_not_disturb_the_quorum() -> (
    None
):
    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        raft = cluster.brokers[leader].raft
        before = facts(cluster, leader), raft.leader_id, raft.epoch
        stranger = {
            "replica_id": 9,
            "replica_epoch": 99,
            "voter_directory_id": UUID(int=1),
            "last_offset": 0,
        }
        for voted in (1, 2, 3):
            ballot = vote.VoteRequest(
                cluster_id=OTHER_CLUSTER, voter_id=voted, topics=of_partition(**stranger)
            )
            assert (
                await ask(cluster, voted, ballot, 2, CONTROLLER_PORT)
            ).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
            late = vote.VoteRequest(
                cluster_id=CLUSTER_ID,
                voter_id=voted,
                topics=of_partition(**{**stranger, "replica_epoch": 0}),
            )
            response = await ask(cluster, voted, late, 2, CONTROLLER_PORT)
            (answered,) = response.topics[0].partitions
            assert answered.error_code in {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST}
            assert not answered.vote_granted
        for request, code in (
            (
                fetch(9, epoch=raft.epoch, cluster_id=OTHER_CLUSTER),
                ErrorCode.INCONSISTENT_CLUSTER_ID,
            ),
            (fetch(9, epoch=raft.epoch - 1), ErrorCode.FENCED_LEADER_EPOCH),
            (fetch(9, epoch=raft.epoch + 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
            (fetch(leader, epoch=raft.epoch), ErrorCode.INVALID_REQUEST),
        ):
            response = await ask(cluster, leader, request, 17, CONTROLLER_PORT)
            found = response.error_code or response.responses[0].partitions[0].error_code
            assert ErrorCode(found) is code
        assert (facts(cluster, leader), raft.leader_id, raft.epoch) == before

    tell_cluster(story)


def test_changes_of_voters_that_cannot_be_are_refused_with_a_sentence() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.format(1, voters=(voter(1),))
        await cluster.start()
        await cluster.leader()
        await trio.sleep(3)  # its first heartbeats are over
        before = facts(cluster, 1)
        own = voter(1)
        listeners = [VoterListener(name="CONTROLLER", host=host_of(9), port=CONTROLLER_PORT)]
        new: dict[str, Any] = {
            "voter_id": 9,
            "voter_directory_id": UUID(int=999),
            "listeners": listeners,
            "timeout_ms": 5_000,
        }
        for request, code in (
            (
                RemoveRaftVoterRequest(
                    cluster_id=None, voter_id=1, voter_directory_id=own.directory_id
                ),
                ErrorCode.VOTER_NOT_FOUND,
            ),
            (
                RemoveRaftVoterRequest(
                    cluster_id=None, voter_id=9, voter_directory_id=UUID(int=999)
                ),
                ErrorCode.VOTER_NOT_FOUND,
            ),
            (
                RemoveRaftVoterRequest(
                    cluster_id=None, voter_id=1, voter_directory_id=UUID(int=999)
                ),
                ErrorCode.VOTER_NOT_FOUND,
            ),
            (
                RemoveRaftVoterRequest(cluster_id=OTHER_CLUSTER, voter_id=1),
                ErrorCode.INCONSISTENT_CLUSTER_ID,
            ),
            (
                AddRaftVoterRequest(cluster_id=OTHER_CLUSTER, **new),
                ErrorCode.INCONSISTENT_CLUSTER_ID,
            ),
            (
                AddRaftVoterRequest(cluster_id=None, **{**new, "voter_id": 1}),
                ErrorCode.DUPLICATE_VOTER,
            ),
            (
                AddRaftVoterRequest(cluster_id=None, **{**new, "listeners": []}),
                ErrorCode.INVALID_REQUEST,
            ),
            # It cannot be reached, and never caught up.
            (
                AddRaftVoterRequest(cluster_id=None, **new),
                ErrorCode.REQUEST_TIMED_OUT,
            ),
        ):
            response = await ask(cluster, 1, request, 0)
            assert ErrorCode(response.error_code) is code, request
            assert response.error_message, request
        await trio.sleep(3)
        assert facts(cluster, 1) == before
        assert cluster.brokers[1].raft.is_leader

    tell_cluster(story, {1: dynamic(1)}, is_started=False)


# Nodes that must not start


async def started(cluster: Cluster, properties: dict[str, str], host: str) -> Broker | TidelogError:
    """Start a node apart from the cluster's own; return what it ends with, or itself where it
    serves.
    """
    cluster.files = {**cluster.files, 9: properties}
    config, texts = cluster.config(9)
    broker = Broker(cluster.world.node_env(host), config, static_texts=texts)
    try:
        with trio.fail_after(200):
            await cluster.nursery.start(broker.run)
    except TidelogError as error:
        return error
    return broker


def broker_file(node_id: int, **properties: str) -> dict[str, str]:
    """The file of a broker that gives up soon."""
    return node_properties(
        node_id, (1, 2, 3), "broker", initial_broker_registration_timeout_ms="10000", **properties
    )


def test_a_node_of_another_cluster_ends_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        before = facts(cluster, leader)
        error = await started(cluster, broker_file(4, cluster_id=OTHER_CLUSTER), host_of(4))
        assert isinstance(error, TidelogError), error
        assert "no active controller is known" in str(error), error
        told = [
            record.getMessage()
            for record in caplog.records
            if "is of another cluster than this node" in record.getMessage()
        ]
        assert len(told) == len(set(told)) > 0
        assert all(OTHER_CLUSTER in text for text in told)
        assert facts(cluster, leader) == before

    tell_cluster(story)


def test_a_second_broker_of_one_id_ends_with_the_reason() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        taken = min({1, 2, 3} - {leader})
        before = facts(cluster, leader)
        twin = {
            **broker_file(taken, cluster_id=CLUSTER_ID),
            "controller.quorum.bootstrap.servers": f"{host_of(leader)}:{CONTROLLER_PORT}",
        }
        twin["listeners"] = f"PLAINTEXT://{host_of(4)}:{BROKER_PORT}"
        del twin["controller.quorum.voters"]
        error = await started(cluster, twin, host_of(4))
        assert isinstance(error, TidelogError), error
        assert (
            f"another process is alive as broker {taken}, at PLAINTEXT://{host_of(taken)}:{BROKER_PORT}; stop it, or"
            in str(error)
        ), error
        assert facts(cluster, leader) == before

    tell_cluster(story)


def test_a_second_controller_under_the_leaders_id_says_so_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others go on without it; it would else retry in silence."""
    controllers = {each: node_properties(each, (1, 2, 3), "controller") for each in (1, 2, 3)}

    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        twin = {**controllers[leader], "listeners": f"CONTROLLER://{host_of(4)}:{CONTROLLER_PORT}"}
        cluster.files = {**cluster.files, 4: twin}
        config, _ = cluster.config(4)
        plan = FormatPlan(
            node_id=NodeId(config.node_id),
            cluster_id=CLUSTER_ID,
            is_log_elsewhere=True,
            bootstrap_records=first_feature_records(),
            new_bits=Random(4).getrandbits,
            now_ms=0,
        )
        format_directories(
            cluster.world.node_env(host_of(4)).files,
            config.log_manager.log_dirs,
            config.metadata_log_dir,
            plan,
        )
        assert isinstance(await started(cluster, twin, host_of(4)), Broker)
        await trio.sleep(90)
        told = [
            record.getMessage()
            for record in caplog.records
            if "Another process leads" in record.getMessage()
        ]
        assert len(told) == 2, told
        assert told[0].startswith(
            f"Another process leads the metadata quorum as node {leader}, which is this node's id, in epoch "
        )
        assert await cluster.leader() == leader

    tell_cluster(story, controllers)


@pytest.mark.parametrize("taken_id", [1, 5])
def test_the_directory_of_another_node_is_refused_at_the_start(taken_id: int) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await settled(cluster)
        before = facts(cluster, leader)
        cluster.files = (
            {**cluster.files, taken_id: node_properties(taken_id, (1, 2, 3), "broker")}
            if taken_id > 3
            else cluster.files
        )
        if taken_id > 3:
            cluster.format(taken_id)
        cluster.kill(leader)
        files = {**cluster.files[leader], "node.id": "4"}
        files["process.roles"], files["listeners"] = (
            "broker",
            f"PLAINTEXT://{host_of(leader)}:{BROKER_PORT}",
        )
        host = host_of(leader) if taken_id <= 3 else host_of(taken_id)
        error = await started(cluster, files, host)
        assert isinstance(error, TidelogError), error
        assert "belongs to node" in str(error), error
        assert "this is node 4" in str(error), error
        assert before[1] == facts(cluster, min(cluster.brokers))[1]

    tell_cluster(story)
