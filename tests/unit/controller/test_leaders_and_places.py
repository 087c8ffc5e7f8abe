"""Admins change leaders, places and membership.

They ask for elections, reassignments, directories and features, and remove brokers.
"""

from typing import Any
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import METADATA_VERSION
from log_service.common.types import NodeId
from log_service.controller.rules.reassignments import list_partition_reassignments
from log_service.metadata.features import METADATA_VERSION_LEVEL
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from log_service.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from log_service.protocol.stored.metadata_records import FeatureLevelRecord, PartitionChangeRecord
from tests.unit.controller.context import ControllerContext, new_topic

PREFERRED, UNCLEAN = 0, 1
RECOVERING = 1


def cluster(*node_ids: int, replicas: tuple[int, ...] = (1, 2)) -> ControllerContext:
    """Brokers and a topic ``a`` of one partition on ``replicas``, all of them in sync."""
    context = ControllerContext().start(*(node_ids or (1, 2, 3)))
    (result,) = context.create(new_topic("a", assignments={0: replicas}))
    assert result.error_code == ErrorCode.NONE, result
    return context


def change(context: ControllerContext, **fields: Any) -> None:
    """Write a change of the partition that followers and leaders report.

    No request of an admin makes it.
    """
    record = PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, **fields)
    context.write(record)


def elect(
    context: ControllerContext, election_type: int = PREFERRED, *, index: int = 0
) -> ErrorCode:
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=[TopicPartitions(topic="a", partitions=[index])],
    )
    response = context.ask(request)
    (result,) = response.replica_election_results[0].partition_result
    return ErrorCode(result.error_code)


def reassign(
    context: ControllerContext,
    *replicas: int,
    cancels: bool = False,
    allows_new_factor: bool = True,
) -> ErrorCode:
    wanted = ReassignablePartition(partition_index=0, replicas=None if cancels else list(replicas))
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="a", partitions=[wanted])],
        allow_replication_factor_change=allows_new_factor,
    )
    response = context.ask(request)
    return ErrorCode(response.responses[0].partitions[0].error_code)


def placed(
    partition: PartitionRegistration,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


# Elections


def test_the_preferred_leader_gets_its_partition_back() -> None:
    context = cluster()
    context.leave(1)
    assert context.partition("a").leader == 2
    context.start(1, incarnation=2)
    assert elect(context) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is not in sync yet"
    change(context, isr=[1, 2])
    assert elect(context) is ErrorCode.NONE
    assert context.partition("a").leader == 1
    assert elect(context) is ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_is_for_partitions_without_leader() -> None:
    context = cluster()
    assert elect(context, UNCLEAN) is ErrorCode.ELECTION_NOT_NEEDED
    context.leave(2)
    context.leave(1)
    assert not context.partition("a").has_leader
    assert elect(context, UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    context.start(2, incarnation=2)
    epoch = context.partition("a").leader_epoch
    assert elect(context, UNCLEAN) is ErrorCode.NONE
    partition = context.partition("a")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (
        2,
        (2,),
        RECOVERING,
    )
    assert partition.leader_epoch == epoch + 1


def test_all_partitions_are_asked_for_with_nothing() -> None:
    context = cluster()
    context.created("b", 3)
    response = context.ask(ElectLeadersRequest(topic_partitions=None))
    assert [(each.topic, each.partition_result) for each in response.replica_election_results] == [
        ("a", []),
        ("b", []),
    ]


def test_elections_of_what_is_not_there() -> None:
    context = cluster()
    assert elect(context, index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(context, 5) is ErrorCode.INVALID_REQUEST
    response = context.ask(ElectLeadersRequest(election_type=5, topic_partitions=None))
    assert (response.error_code, response.replica_election_results) == (
        ErrorCode.INVALID_REQUEST,
        [],
    )


# Reassignments


def test_a_move_keeps_old_replicas_until_the_new_ones_are_in_sync() -> None:
    context = cluster()
    assert reassign(context, 3, 1) is ErrorCode.NONE
    assert placed(context.partition("a")) == ((3, 1, 2), (3,), (2,))
    assert context.partition("a").leader == 1
    (listed,) = list_partition_reassignments(
        context.controller.image, ListPartitionReassignmentsRequest(topics=None)
    ).topics
    assert (listed.name, listed.partitions[0].replicas, listed.partitions[0].adding_replicas) == (
        "a",
        [3, 1, 2],
        [3],
    )
    change(context, isr=[1, 2, 3])
    assert reassign(context, 3, 1) is ErrorCode.NONE
    assert placed(context.partition("a")) == ((3, 1), (), ())
    assert context.partition("a").isr == (1, 3)
    assert len(context.partition("a").directories) == 2


def test_a_move_to_fewer_brokers_is_done_at_once_and_elects() -> None:
    context = cluster()
    assert reassign(context, 2) is ErrorCode.NONE
    partition = context.partition("a")
    assert placed(partition) == ((2,), (), ())
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2,), 1)
    assert partition.directories == (UUID(int=502),)


def test_another_order_changes_the_preferred_leader_only() -> None:
    context = cluster()
    assert reassign(context, 2, 1) is ErrorCode.NONE
    assert (context.partition("a").replicas, context.partition("a").leader) == ((2, 1), 1)
    assert elect(context) is ErrorCode.NONE
    assert context.partition("a").leader == 2


def test_a_move_is_taken_back() -> None:
    context = cluster()
    assert reassign(context, cancels=True) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    reassign(context, 3)
    assert placed(context.partition("a")) == ((3, 1, 2), (3,), (1, 2))
    assert reassign(context, cancels=True) is ErrorCode.NONE
    assert placed(context.partition("a")) == ((1, 2), (), ())


def test_a_move_whose_old_replicas_are_all_out_of_sync_cannot_be_taken_back() -> None:
    context = cluster()
    reassign(context, 3)
    change(context, isr=[3], leader=3)
    assert reassign(context, cancels=True) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_replication_factor_may_be_kept() -> None:
    context = cluster()
    assert reassign(context, 3, allows_new_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(context, 3, 2, allows_new_factor=False) is ErrorCode.NONE
    assert reassign(context, 3, 1, allows_new_factor=False) is ErrorCode.NONE, (
        "what is being added does not count twice"
    )


def test_a_partition_stays_where_it_is_told_to_be() -> None:
    context = cluster()
    count = len(context.records)
    assert reassign(context, 1, 2) is ErrorCode.NONE
    assert len(context.records) == count


# Directories


def assign(
    context: ControllerContext,
    *,
    broker_id: int = 1,
    topic_id: UUID | None = None,
    partition: int = 0,
    **fields: Any,
) -> ErrorCode:
    """Say that a replica is in a directory, 77 unless it is given, and return the partition's
    error.
    """
    known = context.controller.image.cluster.brokers.get(NodeId(broker_id))
    one = RequestPartitionData(partition_index=partition)
    topic = RequestTopicData(topic_id=topic_id or context.topic("a").topic_id, partitions=[one])
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=fields.pop("broker_epoch", known.epoch if known else 0),
        directories=[
            RequestDirectoryData(id=fields.pop("directory_id", UUID(int=77)), topics=[topic])
        ],
    )
    response = context.ask(request)
    return ErrorCode(response.directories[0].topics[0].partitions[0].error_code)


def test_a_broker_tells_where_its_replica_is() -> None:
    context = cluster()
    assign(context)
    assert context.partition("a").directories == (UUID(int=77), UUID(int=502))
    count = len(context.records)
    assign(context)
    assert len(context.records) == count


def test_a_replica_that_is_told_to_be_in_a_directory_that_is_there_leads_at_once() -> None:
    """The broker has a new disk.

    The directory of before is gone, and with it the leader, until the broker says where the replica
    is.
    """
    context = cluster()
    change(context, isr=[1], leader=-1, directories=[UUID(int=999), UUID(int=502)])
    assert elect(context) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assign(context, directory_id=context.controller.image.cluster.brokers[NodeId(1)].log_dirs[0])
    assert (context.partition("a").leader, context.partition("a").isr) == (1, (1,))


@pytest.mark.parametrize("node_id", [1, 2], ids=["leader", "follower"])
def test_a_replica_that_is_told_to_be_in_a_directory_that_is_gone_is_in_sync_no_more(
    node_id: int,
) -> None:
    context = cluster()
    assert assign(context, broker_id=node_id, directory_id=UUID(int=999)) is ErrorCode.NONE
    other = 3 - node_id
    assert (context.partition("a").leader, context.partition("a").isr) == (other, (other,))


NEW_DISK = UUID(int=777)


def lose_the_last(
    *returning: int, replicas: tuple[int, ...] = (1, 2), log_dirs: tuple[UUID, ...] = (NEW_DISK,)
) -> ControllerContext:
    """Have broker 2 lead alone, die, and come back uncleanly with these directories.

    The returning ones have done so before.
    """
    context = cluster(1, 2, 3, replicas=replicas)
    change(context, isr=[2], leader=2)
    for node_id in replicas:
        context.beat(node_id, want_shut_down=True, want_fence=True)
    for node_id in returning:
        context.start(node_id, incarnation=2)
    context.register(2, incarnation=2, previous_broker_epoch=-1, log_dirs=log_dirs)
    context.beat(2)
    return context


def test_a_last_known_leader_with_an_empty_disk_takes_nothing_from_a_replica_that_has_its_log() -> (
    None
):
    context = lose_the_last(1)
    assert (context.partition("a").leader, context.partition("a").last_known_elr) == (-1, (2,))
    assign(context, broker_id=2, directory_id=NEW_DISK)
    partition = context.partition("a")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (
        1,
        (1,),
        RECOVERING,
    )
    assert partition.directory_of(NodeId(2)) == NEW_DISK


@pytest.mark.parametrize("replicas", [(1, 2), (2,)], ids=["the other is away", "there is no other"])
def test_a_last_known_leader_with_an_empty_disk_leads_where_no_other_can(
    replicas: tuple[int, ...],
) -> None:
    context = lose_the_last(replicas=replicas)
    assign(context, broker_id=2, directory_id=NEW_DISK)
    assert (context.partition("a").leader, context.partition("a").isr) == (2, (2,))


def test_a_last_known_leader_whose_disk_is_there_leads_again() -> None:
    context = lose_the_last(1, log_dirs=(UUID(int=502), NEW_DISK))
    assert (context.partition("a").leader, context.partition("a").isr) == (2, (2,))


@pytest.mark.parametrize("fields", [{"broker_epoch": 10**6}, {"broker_id": 9}], ids=str)
def test_places_that_another_start_tells_are_refused_as_a_whole(fields: dict[str, Any]) -> None:
    with pytest.raises(KafkaError) as caught:
        assign(cluster(), **fields)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic_id": UUID(int=9)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=str,
)
def test_places_of_what_is_not_there(fields: dict[str, Any], code: ErrorCode) -> None:
    context = cluster()
    count = len(context.records)
    assert assign(context, **fields) is code
    assert len(context.records) == count


def test_a_broker_tells_only_of_its_own_replicas() -> None:
    assert assign(cluster(replicas=(2, 3))) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Features and brokers


def update(
    context: ControllerContext, *updates: FeatureUpdateKey, validate_only: bool = False
) -> None:
    request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
    context.ask(request)


@pytest.mark.parametrize(
    "fault",
    [
        FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=METADATA_VERSION_LEVEL + 1),
        FeatureUpdateKey(
            feature=METADATA_VERSION, max_version_level=METADATA_VERSION_LEVEL, upgrade_type=7
        ),
        FeatureUpdateKey(feature="streams.version", max_version_level=2),
        FeatureUpdateKey(feature="kraft.version", max_version_level=0, upgrade_type=3),
    ],
    ids=lambda fault: f"{fault.feature}-{fault.max_version_level}-{fault.upgrade_type}",
)
def test_levels_that_cannot_be_change_nothing(fault: FeatureUpdateKey) -> None:
    context = cluster()
    kraft = FeatureLevelRecord(name="kraft.version", feature_level=1)
    context.write(kraft)
    before = dict(context.controller.image.features)
    with pytest.raises(KafkaError) as caught:
        update(
            context,
            FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=METADATA_VERSION_LEVEL),
            fault,
        )
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert context.controller.image.features == before


def test_a_level_that_is_there_writes_nothing() -> None:
    context = cluster()
    count = len(context.records)
    update(
        context,
        FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=METADATA_VERSION_LEVEL),
    )
    assert len(context.records) == count


def test_a_broker_that_is_forgotten_leads_nothing_until_it_registers_again() -> None:
    context = cluster()
    context.ask(UnregisterBrokerRequest(broker_id=1))
    assert NodeId(1) not in context.controller.image.cluster.brokers
    assert context.partition("a").leader == 2
    with pytest.raises(KafkaError) as caught:
        context.beat(1)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
    context.pass_ms(60_000)
    context.start(1, incarnation=2)
    assert not context.is_fenced(1)


def test_another_broker_under_the_id_of_one_that_was_forgotten_takes_new_partitions() -> None:
    """The broker was cordoned while it was emptied, and the key outlived it.

    The next broker with that id got no topic, and nothing said why.
    """
    context = cluster()
    for key, value in (("cordoned.log.dirs", "*"), ("log.cleaner.threads", "2")):
        assert context.alter("3", (key, 0, value), resource_type=4).error_code is ErrorCode.NONE
    assert 3 not in {
        node_id
        for each in context.created("kept", 4, 2).partitions.values()
        for node_id in each.replicas
    }
    context.ask(UnregisterBrokerRequest(broker_id=3))
    assert context.configs("3", resource_type=4) == {"log.cleaner.threads": "2"}
    context.start(3, incarnation=2)
    assert 3 in {
        node_id
        for each in context.created("new", 4, 2).partitions.values()
        for node_id in each.replicas
    }


def test_a_broker_that_is_not_registered_cannot_be_forgotten() -> None:
    context = cluster()
    with pytest.raises(KafkaError) as caught:
        context.ask(UnregisterBrokerRequest(broker_id=9))
    assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
