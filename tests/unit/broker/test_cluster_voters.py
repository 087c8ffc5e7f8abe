"""The voters of a running cluster change (KIP-853, KIP-1186).

Configuration becomes records (kraft.version 0 to 1), and controllers join by themselves.
"""

from typing import Any
from uuid import UUID

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.common.errors import ErrorCode
from log_service.common.features import KRAFT_VERSION
from log_service.common.types import NodeId
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from log_service.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from log_service.storage.partition_metadata import format_uuid
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
from tests.unit.broker.quorum_requests import described, dynamic, voter

TOLD_S = 4
"""A voter tells a new leader of itself two seconds after it has begun to follow."""
ELR = "eligible.leader.replicas.version"


async def ask(
    cluster: Cluster, node_id: int, request: Any, version: int, port: int = BROKER_PORT
) -> Any:
    client = RawClient(await cluster.world.client_env().network.connect(host_of(node_id), port))
    return await client.ask(request, version)


async def update(
    cluster: Cluster, node_id: int, *updates: tuple[str, int, int], is_only_checked: bool = False
) -> UpdateFeaturesResponse:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=way)
        for name, level, way in updates
    ]
    response: UpdateFeaturesResponse = await ask(
        cluster,
        node_id,
        UpdateFeaturesRequest(
            timeout_ms=10_000, feature_updates=keys, validate_only=is_only_checked
        ),
        1,
    )
    return response


def levels(cluster: Cluster, name: str = KRAFT_VERSION) -> set[int]:
    return {broker.image.features.get(name, 0) for broker in cluster.brokers.values()}


def directory_of(broker: Broker) -> UUID:
    (directory_id,) = broker.foundation.identity.directory_ids.values()
    return directory_id


def voters(cluster: Cluster, node_id: int) -> dict[NodeId, int]:
    return {each.node_id: each.directory_id.int for each in cluster.brokers[node_id].raft.voters}


def test_voters_of_the_configuration_become_records_and_can_be_changed() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        other = min({1, 2, 3} - {leader})
        await trio.sleep(TOLD_S)
        assert (
            await update(cluster, other, (KRAFT_VERSION, 1, 1), is_only_checked=True)
        ).error_code == 0
        assert levels(cluster) == {0}
        assert (await update(cluster, other, (KRAFT_VERSION, 1, 1))).error_code == 0
        await cluster.until(lambda: levels(cluster) == {1})
        directories = {
            NodeId(each): directory_of(broker).int for each, broker in cluster.brokers.items()
        }
        assert all(voters(cluster, each) == directories for each in (1, 2, 3))
        assert (
            await update(cluster, other, (KRAFT_VERSION, 1, 1))
        ).error_code == 0  # it is there already
        assert (
            await update(cluster, other, (KRAFT_VERSION, 0, 2))
        ).error_code == ErrorCode.INVALID_UPDATE_VERSION

        for node_id in (1, 2, 3):  # from here on the files' voters count for nothing
            cluster.kill(node_id)
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        removed = min({1, 2, 3} - {leader})
        key = next(
            each.key for each in cluster.brokers[leader].raft.voters if each.node_id == removed
        )
        remove = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=removed, voter_directory_id=key.directory_id
        )
        assert (await ask(cluster, leader, remove, 0)).error_code == 0
        assert set(voters(cluster, leader)) == {1, 2, 3} - {removed}
        quorum = await described(cluster, leader)
        assert [each.replica_id for each in quorum.observers] == [removed]

    tell_cluster(story)


def test_a_voter_that_was_never_heard_of_is_named_and_nothing_is_changed() -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in (1, 2, 3):
            cluster.format(node_id)
        await cluster.start(1, 2)
        await cluster.leader()
        await trio.sleep(TOLD_S)
        assert (await update(cluster, 1, (ELR, 0, 2))).error_code == 0
        refused = await update(cluster, 1, (ELR, 1, 1), (KRAFT_VERSION, 1, 1))
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "the voters 3 vote" in (refused.error_message or "")
        await cluster.until(lambda: (levels(cluster), levels(cluster, ELR)) == ({0}, {0}))
        await cluster.start(3)
        await trio.sleep(TOLD_S)
        assert (await update(cluster, 1, (ELR, 1, 1), (KRAFT_VERSION, 1, 1))).error_code == 0
        await cluster.until(lambda: (levels(cluster), levels(cluster, ELR)) == ({1}, {1}))

    tell_cluster(story, is_started=False)


def test_an_upgrade_beside_a_level_that_cannot_be_is_not_made() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.leader()
        await trio.sleep(TOLD_S)
        for fault in ((ELR, 2, 1), ("nonsense", 1, 1)):
            refused = await update(cluster, 1, (KRAFT_VERSION, 1, 1), fault)
            assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert levels(cluster) == {0}
        assert (
            await update(cluster, 1, (KRAFT_VERSION, 1, 2))
        ).error_code == ErrorCode.INVALID_UPDATE_VERSION  # up, by a downgrade

    tell_cluster(story)


def test_a_broker_that_knows_no_kraft_version_is_let_in_before_the_upgrade_only() -> None:
    """The active controller knows the new level at once: a registration after the upgrade is judged
    by it.
    """

    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await trio.sleep(TOLD_S)
        request = BrokerRegistrationRequest(
            broker_id=9,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=9_000),
            log_dirs=[UUID(int=9_001)],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
                if name != KRAFT_VERSION
            ],
            previous_broker_epoch=-1,
        )
        assert (await ask(cluster, leader, request, 4, CONTROLLER_PORT)).error_code == 0
        assert (await update(cluster, leader, (KRAFT_VERSION, 0, 1))).error_code == 0
        assert (
            await update(cluster, leader, (KRAFT_VERSION, 1, 1))
        ).error_code == ErrorCode.INVALID_UPDATE_VERSION  # of broker 9
        assert (await ask(cluster, leader, UnregisterBrokerRequest(broker_id=9), 0)).error_code == 0
        assert (await update(cluster, leader, (KRAFT_VERSION, 1, 1))).error_code == 0
        assert (
            await ask(cluster, leader, request, 4, CONTROLLER_PORT)
        ).error_code == ErrorCode.UNSUPPORTED_VERSION

    tell_cluster(story)


# Joining


def joining(node_id: int, roles: str = "broker,controller") -> dict[str, str]:
    return dynamic(node_id, roles, controller_quorum_auto_join_enable="true")


@pytest.mark.parametrize("roles", ["broker,controller", "controller"])
def test_a_controller_joins_by_itself_and_again_with_a_new_disk(roles: str) -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in (1, 2):
            cluster.format(node_id, voters=tuple(map(voter, (1, 2))))
        cluster.format(3)
        await cluster.start()
        leader = await cluster.leader()
        await cluster.until(lambda: set(voters(cluster, leader)) == {1, 2, 3}, 10)
        first = voters(cluster, leader)[NodeId(3)]

        cluster.kill(3)
        cluster.wipe(3)
        await cluster.start(3)
        await cluster.until(lambda: voters(cluster, leader).get(NodeId(3), first) != first, 20)
        assert set(voters(cluster, leader)) == {1, 2, 3}
        await cluster.until(lambda: voters(cluster, 3) == voters(cluster, leader), 5)

    tell_cluster(story, {1: dynamic(1), 2: dynamic(2), 3: joining(3, roles)}, is_started=False)


def test_a_controller_that_shall_not_join_and_a_broker_stay_observers() -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in (1, 2):
            cluster.format(node_id, voters=tuple(map(voter, (1, 2))))
        cluster.format(3)
        cluster.format(4)
        await cluster.start()
        leader = await cluster.leader()
        await trio.sleep(15)
        assert set(voters(cluster, leader)) == {1, 2}
        assert sorted(each.replica_id for each in (await described(cluster, leader)).observers) == [
            3,
            4,
        ]

    broker = {
        **node_properties(4, (), "broker"),
        "controller.quorum.bootstrap.servers": f"{host_of(1)}:{CONTROLLER_PORT}",
    }
    del broker["controller.quorum.voters"]
    tell_cluster(story, {1: dynamic(1), 2: dynamic(2), 3: dynamic(3), 4: broker}, is_started=False)


@pytest.mark.parametrize("is_joining", [False, True])
def test_a_controller_in_a_directory_that_does_not_vote_says_so_once(
    is_joining: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in (1, 2, 3):
            cluster.format(node_id, voters=tuple(map(voter, (1, 2, 3))))
        await cluster.start()
        leader = await cluster.leader()
        other = min({1, 2, 3} - {leader})
        await trio.sleep(5)
        cluster.kill(other)
        cluster.wipe(other)
        assert [each for each in caplog.messages if "has no vote" in each] == []
        await cluster.start(other)
        await trio.sleep(20)
        (told,) = [each for each in caplog.messages if "has no vote" in each]
        own, voting = directory_of(cluster.brokers[other]), voter(other).directory_id
        assert told.startswith(
            f"Node {other} votes in the metadata quorum from directory {format_uuid(voting)}, and /"
        )
        assert (
            f"is directory {format_uuid(own)}: this process follows the log and has no vote. Start it over the directory that"
            in told
        )
        way = (
            "this one takes its place by itself within seconds"
            if is_joining
            else "cluster voters add FILE --execute gives this one the vote"
        )
        assert way in told
        assert (voters(cluster, leader)[NodeId(other)] == own.int) is is_joining

    file = joining if is_joining else dynamic
    tell_cluster(story, {each: file(each) for each in (1, 2, 3)}, is_started=False)
