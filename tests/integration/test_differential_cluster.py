"""tidelog and Apache Kafka describe their clusters alike.

The tests have directories, leaders, reassignments, the quorum, features, and producers.
"""

from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest

from log_service.protocol.messages.add_raft_voter import AddRaftVoterRequest
from log_service.protocol.messages.add_raft_voter import Listener as VoterListener
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from log_service.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from log_service.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from log_service.protocol.messages.describe_acls import DescribeAclsRequest
from log_service.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from log_service.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.list_config_resources import ListConfigResourcesRequest
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from log_service.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.integration.differential import Cluster, Duel

pytestmark = pytest.mark.timeout(120)

PROPERTIES = {"log.dirs": "{directory}/first,{directory}/second"}
METADATA = "__cluster_metadata"
SET, DELETE = 0, 1
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
SIZES = ("total_bytes", "usable_bytes")
"""Of the same disk, but of another moment."""


# Leaders


@pytest.mark.parametrize("election_type", [0, 1, 5])
def test_elections_of_single_partitions(duel: Duel, election_type: int) -> None:
    topic = f"elected-{election_type}"
    duel.create_topic(topic, 2)
    for name, indexes in (
        (topic, [0, 1]),
        (topic, [0, 7]),
        (topic, []),
        ("missing", [0]),
        (topic, [1, 1]),
    ):
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=[TopicPartitions(topic=name, partitions=indexes)],
        )
        for version in (1, 2):
            duel.compare(request, version)


def test_elections_of_all_partitions_and_of_none(duel: Duel) -> None:
    duel.create_topic("led")
    nobody: list[TopicPartitions] = []
    for election_type in (0, 1):
        for asked in (None, nobody):
            answer = duel.compare(
                ElectLeadersRequest(election_type=election_type, topic_partitions=asked),
                2,
                ignore=("replica_election_results",),
            )
            assert not [
                each for topic in answer.replica_election_results for each in topic.partition_result
            ]
    duel.compare(ElectLeadersRequest(election_type=5, topic_partitions=nobody), 2)
    duel.compare(
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="led", partitions=[0])]), 0
    )


# Reassignments


def reassign(
    topic: str, index: int, replicas: list[int] | None, *, allows_new_factor: bool = True
) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas)]
    return AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=allows_new_factor,
        topics=[ReassignableTopic(name=topic, partitions=partitions)],
    )


@pytest.mark.parametrize("allows_new_factor", [True, False], ids=["any-factor", "same-factor"])
def test_reassignments(duel: Duel, *, allows_new_factor: bool) -> None:
    topic = f"moved-{int(allows_new_factor)}"
    duel.create_topic(topic, 2)
    for replicas in ([1], [], [1, 1], [2], [1, 2], [-1], None):
        request = reassign(topic, 0, replicas, allows_new_factor=allows_new_factor)
        # Kafka names no reason beside NO_REASSIGNMENT_IN_PROGRESS
        ignored = ("error_message",) if replicas is None else ()
        duel.compare(request, 1, ignore=ignored)
        duel.compare(replace(request, allow_replication_factor_change=True), 0, ignore=ignored)
    for name, index in ((topic, 9), ("missing", 0)):
        duel.compare(reassign(name, index, [1], allows_new_factor=allows_new_factor), 1)
        duel.compare(reassign(name, index, None, allows_new_factor=allows_new_factor), 1)


def test_nothing_is_reassigned(duel: Duel) -> None:
    for allows in (True, False):
        duel.compare(AlterPartitionReassignmentsRequest(allow_replication_factor_change=allows), 1)


def test_a_partition_that_is_reassigned_twice_in_a_request(duel: Duel) -> None:
    duel.create_topic("twice")
    partitions = [
        ReassignablePartition(partition_index=0, replicas=[1]),
        ReassignablePartition(partition_index=0, replicas=[3]),
    ]
    duel.compare(
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="twice", partitions=partitions)]
        ),
        1,
    )


def test_no_reassignment_is_under_way(duel: Duel) -> None:
    duel.create_topic("resting")
    named = [
        ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9])
        for name in ("resting", "missing")
    ]
    for topics in (None, [], named):
        duel.compare(ListPartitionReassignmentsRequest(topics=topics), 0)


# Log directories


def test_log_directories_of_some_partitions(duel: Duel) -> None:
    duel.create_topic("placed", 2)
    asked = [
        DescribableLogDirTopic(topic="placed", partitions=[0, 1, 9]),
        DescribableLogDirTopic(topic="missing", partitions=[0]),
    ]
    for topics in ([], asked, [DescribableLogDirTopic(topic="placed", partitions=[])]):
        for version in range(1, 6):
            answer = duel.compare(
                DescribeLogDirsRequest(topics=topics), version, ignore=(*SIZES, "results")
            )
            found = sorted(
                each.partition_index
                for result in answer.results
                for topic in result.topics
                for each in topic.partitions
            )
            assert found == ([0, 1] if topics == asked else [])
            assert all((result.total_bytes > 0) == (version >= 4) for result in answer.results)


def test_moves_to_directories(duel: Duel) -> None:
    duel.create_topic("mover", 2)

    def move(path: str, topic: str, *indexes: int) -> AlterReplicaLogDirsRequest:
        return AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[AlterReplicaLogDirTopic(name=topic, partitions=list(indexes))],
                )
            ]
        )

    for version in (1, 2):
        for path in ("/no/such/directory", "first", ""):
            duel.compare(move(path, "mover", 0, 1, 9), version)
        duel.compare(lambda side: move(directory_of(side), "mover", 9), version)
        duel.compare(lambda side: move(directory_of(side), "missing", 0), version)
        duel.compare(lambda side: move(directory_of(side), "mover", 0, 1), version)
    duel.compare(AlterReplicaLogDirsRequest(), 2)

    def is_there(answer: object) -> bool:
        results = answer.results  # type: ignore[attr-defined]
        return sorted(
            sum(len(topic.partitions) for topic in result.topics) for result in results
        ) == [0, 2]

    asked = [DescribableLogDirTopic(topic="mover", partitions=[0, 1])]
    duel.until(DescribeLogDirsRequest(topics=asked), 2, is_there)
    duel.compare(DescribeLogDirsRequest(topics=asked), 5, ignore=SIZES)


def test_cordoned_directories_take_nothing(duel: Duel) -> None:
    duel.create_topic("fenced-out", 2)

    def cordon(value: str | None) -> IncrementalAlterConfigsRequest:
        change = AlterableConfig(
            name="cordoned.log.dirs", config_operation=SET if value else DELETE, value=value
        )
        return IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])]
        )

    def move(side: Cluster) -> AlterReplicaLogDirsRequest:
        topics = [
            AlterReplicaLogDirTopic(name=name, partitions=[0, 1])
            for name in ("fenced-out", "missing")
        ]
        return AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=directory_of(side), topics=topics)]
        )

    duel.compare(lambda side: cordon(directory_of(side)), 1)
    asked = DescribeLogDirsRequest(topics=[])
    duel.until(asked, 5, lambda answer: any(result.is_cordoned for result in answer.results))
    duel.compare(asked, 5, ignore=SIZES)
    duel.compare(move, 2)
    duel.compare(cordon(None), 1)
    duel.until(asked, 5, lambda answer: not any(result.is_cordoned for result in answer.results))


def directory_of(side: Cluster) -> str:
    """The second directory of a side."""
    paths: list[str] = sorted(
        result.log_dir for result in side.ask(DescribeLogDirsRequest(topics=[]), 2).results
    )
    return paths[1]


# Quorum, voters, brokers


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_metadata_quorum(duel: Duel, version: int) -> None:
    # the voter's listener has the name of another listener; offsets and epochs are each cluster's
    # own
    different = (
        "high_watermark",
        "log_end_offset",
        "leader_epoch",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "nodes",
    )
    for asked in (
        [(METADATA, [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [("other", [0])],
        [(METADATA, [0]), ("other", [0])],
        [],
    ):
        topics = [
            RequestTopicData(
                topic_name=name,
                partitions=[RequestPartitionData(partition_index=index) for index in indexes],
            )
            for name, indexes in asked
        ]
        duel.compare(DescribeQuorumRequest(topics=topics), version, ignore=different)


def test_voters_that_cannot_be_added(duel: Duel) -> None:
    def add(changes: dict[str, object], side: Cluster) -> AddRaftVoterRequest:
        described = DescribeQuorumRequest(
            topics=[
                RequestTopicData(
                    topic_name=METADATA, partitions=[RequestPartitionData(partition_index=0)]
                )
            ]
        )
        listener = side.ask(described, 2).nodes[0].listeners[0].name
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=500,
            voter_id=2,
            voter_directory_id=UUID(int=7),
            listeners=[VoterListener(name=listener, host="127.0.0.1", port=1)],
        )
        return replace(request, **changes)  # type: ignore[arg-type]

    cases: tuple[dict[str, object], ...] = (
        {"cluster_id": "another"},
        {"voter_id": -2},
        {"voter_directory_id": UUID(int=0)},
        {"listeners": []},
        {"voter_id": 1},
        {"listeners": [VoterListener(name="NONE", host="127.0.0.1", port=1)]},
        {},
    )
    for changes in cases:
        duel.compare(partial(add, changes), 0)


def test_voters_that_cannot_be_removed(duel: Duel) -> None:
    for cluster_id, voter_id, directory in (
        ("another", 1, 7),
        (None, -1, 7),
        (None, 1, 0),
        (None, 5, 7),
        (None, 1, 7),
    ):
        duel.compare(
            RemoveRaftVoterRequest(
                cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=UUID(int=directory)
            ),
            0,
        )


def test_brokers_that_are_not_registered(duel: Duel) -> None:
    for broker_id in (9, -1):
        duel.compare(UnregisterBrokerRequest(broker_id=broker_id), 0)


# Features


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type"),
    [
        ("metadata.version", 30, UPGRADE),
        ("metadata.version", 30, SAFE_DOWNGRADE),
        ("metadata.version", 31, UPGRADE),
        ("metadata.version", 29, UPGRADE),
        ("metadata.version", 29, SAFE_DOWNGRADE),
        ("metadata.version", 29, UNSAFE_DOWNGRADE),
        ("metadata.version", 0, UNSAFE_DOWNGRADE),
        ("metadata.version", -1, UPGRADE),
        ("metadata.version", 30, 0),
        ("metadata.version", 30, 9),
        ("kraft.version", 1, UPGRADE),
        ("kraft.version", 0, UPGRADE),
        ("kraft.version", 0, UNSAFE_DOWNGRADE),
        ("kraft.version", 2, UPGRADE),
        ("no.such.feature", 1, UPGRADE),
        ("no.such.feature", 0, SAFE_DOWNGRADE),
        ("", 1, UPGRADE),
    ],
)
def test_feature_levels(duel: Duel, feature: str, level: int, upgrade_type: int) -> None:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
    for version in (1, 2):
        request = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
        # Kafka writes the word NONE where there is no text
        duel.compare(request, version, ignore=("error_message",))


def test_feature_updates_come_together_or_not_at_all(duel: Duel) -> None:
    good = FeatureUpdateKey(feature="metadata.version", max_version_level=30)
    bad = FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
    for updates in ([], [good, bad], [good, good]):
        for version in (1, 2):
            duel.compare(
                UpdateFeaturesRequest(feature_updates=updates), version, ignore=("error_message",)
            )
    old = FeatureUpdateKey(feature="metadata.version", max_version_level=30, allow_downgrade=True)
    duel.compare(UpdateFeaturesRequest(feature_updates=[old]), 0, ignore=("error_message",))


def test_apis_and_features_are_kafkas_where_we_have_them(duel: Duel) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answers = [cluster.ask(request, 4) for cluster in duel.clusters.sides()]
    ranges = [
        {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        for answer in answers
    ]
    levels = [
        {
            each.name: (each.min_version_level, each.max_version_level)
            for each in answer.finalized_features
        }
        for answer in answers
    ]
    assert all(theirs[key] == span for theirs in ranges for key, span in ranges[0].items())
    assert all(theirs[name] == span for theirs in levels for name, span in levels[0].items())
    versions = {
        "metadata.version",
        "kraft.version",
        "eligible.leader.replicas.version",
        "group.version",
        "share.version",
    }
    versions |= {"streams.version", "transaction.version"}
    assert set(levels[0]) == versions


# Producers and resources


def test_producers_of_partitions(duel: Duel) -> None:
    duel.create_topic("written", 2)
    asked = DescribeProducersRequest(
        topics=[TopicRequest(name="written", partition_indexes=[0, 1])]
    )
    # Kafka tells a leader first.
    duel.until(
        asked, 0, lambda answer: not any(each.error_code for each in answer.topics[0].partitions)
    )
    for name, indexes in (
        ("written", [0, 1, 9]),
        ("written", [-1]),
        ("written", []),
        ("missing", [0]),
        ("", [0]),
        ("not a name", [0]),
    ):
        duel.compare(
            DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=indexes)]), 0
        )


def test_resources_that_can_be_configured(duel: Duel) -> None:
    for types in ([4], [8], [4, 8], [16], [32], [4, 4], [99], [4, 0]):
        duel.compare(ListConfigResourcesRequest(resource_types=types), 1)
    duel.compare(ListConfigResourcesRequest(), 0)
    duel.create_topic("listed")
    answers = [
        cluster.ask(ListConfigResourcesRequest(resource_types=[2]), 1)
        for cluster in duel.clusters.sides()
    ]
    assert all(
        "listed" in {each.resource_name for each in answer.config_resources} for answer in answers
    )


# Access rules, where nobody checks any

ANY, TOPIC, ALLOW = 1, 2, 3


@pytest.mark.parametrize("version", [1, 2, 3])
def test_access_rules_without_an_authorizer(duel: Duel, version: int) -> None:
    duel.compare(
        DescribeAclsRequest(
            resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY
        ),
        version,
    )
    duel.compare(
        DescribeAclsRequest(
            resource_type_filter=TOPIC, resource_name_filter="a", operation=ANY, permission_type=ANY
        ),
        version,
    )
    rule = AclCreation(
        resource_type=TOPIC,
        resource_name="written",
        principal="User:reader",
        host="*",
        operation=3,
        permission_type=ALLOW,
    )
    for rules in ([], [rule], [rule, replace(rule, principal="nobody", resource_name="")]):
        duel.compare(CreateAclsRequest(creations=rules), version)
    named = DeleteAclsFilter(
        resource_type_filter=TOPIC, resource_name_filter=None, operation=ANY, permission_type=ANY
    )
    for filters in ([], [named], [named, replace(named, resource_type_filter=ANY)]):
        duel.compare(DeleteAclsRequest(filters=filters), version)
