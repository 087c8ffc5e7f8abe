"""The controller believes the leader of the present epoch alone in AlterPartition.

The leader reports who is in sync (KIP-497, KIP-841, KIP-903).
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.stored.metadata_records import MetadataRecord, PartitionChangeRecord
from tests.unit.controller.context import WITHOUT_ELIGIBLE_LEADERS, ControllerContext, new_topic


def cluster(bootstrap: Sequence[MetadataRecord] = ()) -> ControllerContext:
    """Brokers 1 to 4; partition 0 of topic a is on 1, 2 and 3, and 1 leads it."""
    context = ControllerContext(bootstrap=bootstrap).start(1, 2, 3, 4)
    context.create(new_topic("a", assignments={0: (1, 2, 3)}))
    return context


def epoch_of(context: ControllerContext, node_id: int) -> int:
    broker = context.controller.image.cluster.brokers.get(NodeId(node_id))
    return -1 if broker is None else broker.epoch


def report(
    context: ControllerContext, isr: Sequence[int], *, sender: int = 1, **fields: Any
) -> ResponsePartitionData:
    """Have ``sender`` report an in-sync set, with what it knows being right but for ``fields``."""
    partition = context.partition("a")
    topic_id = fields.pop("topic_id", context.topic("a").topic_id)
    broker_epochs = fields.pop("broker_epochs", {})
    sender_epoch = fields.pop("sender_epoch", epoch_of(context, sender))
    asked = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "leader_recovery_state": partition.leader_recovery_state,
        "new_isr_with_epochs": [
            BrokerState(
                broker_id=each, broker_epoch=broker_epochs.get(each, epoch_of(context, each))
            )
            for each in isr
        ],
        **fields,
    }
    topic = RequestTopicData(topic_id=topic_id, partitions=[RequestPartitionData(**asked)])
    request = AlterPartitionRequest(broker_id=sender, broker_epoch=sender_epoch, topics=[topic])
    response: ResponsePartitionData = context.ask(request).topics[0].partitions[0]
    return response


def test_a_follower_that_falls_behind_leaves_the_in_sync_set_and_comes_back() -> None:
    context = cluster()
    left = report(context, (1, 3))
    assert (left.error_code, left.isr, left.leader_id, left.leader_epoch, left.partition_epoch) == (
        0,
        [1, 3],
        1,
        0,
        1,
    )
    assert context.partition("a").isr == (1, 3)
    back = report(context, (1, 3, 2))
    assert (back.error_code, back.isr, back.leader_epoch, back.partition_epoch) == (
        0,
        [1, 3, 2],
        0,
        2,
    )


def test_a_report_without_news_writes_nothing_and_tells_how_it_is() -> None:
    context = cluster()
    count = len(context.records)
    told = report(context, (3, 2, 1))
    assert (told.error_code, told.isr, told.partition_epoch) == (0, [1, 2, 3], 0)
    assert len(context.records) == count


def test_version_2_names_members_without_epochs() -> None:
    context = cluster()
    assert report(context, (), new_isr=[1, 2]).error_code == ErrorCode.NONE
    assert context.partition("a").isr == (1, 2)


def test_a_member_that_the_leader_has_not_heard_of_may_stay_whatever_its_epoch() -> None:
    assert report(cluster(), (1, 2), broker_epochs={2: -1}).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ((1, 2), {"topic_id": UUID(int=9)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ((1, 2), {"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"leader_epoch": 10**6}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 10**6}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"broker_epochs": {2: 10**6}}, ErrorCode.INELIGIBLE_REPLICA),
        # Of two faults the first in Kafka's order is told
        (
            (1, 4),
            {"leader_epoch": 10**6, "partition_index": 9},
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        ((1, 4), {"leader_epoch": -1, "partition_epoch": 10**6}, ErrorCode.NOT_CONTROLLER),
        ((1, 4), {"partition_epoch": -1, "sender": 2}, ErrorCode.INVALID_REQUEST),
        ((1, 4), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
    ],
    ids=str,
)
def test_what_is_refused_changes_nothing(
    isr: Sequence[int], fields: dict[str, Any], code: ErrorCode
) -> None:
    context = cluster()
    count = len(context.records)
    assert report(context, isr, **fields).error_code == code
    assert len(context.records) == count


def test_a_report_of_an_earlier_start_is_refused_as_a_whole() -> None:
    context = cluster()
    for fields in ({"sender_epoch": 10**6}, {"sender": 9}):
        with pytest.raises(KafkaError) as raised:
            report(context, (1, 2), **fields)
        assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_is_fenced_leaving_or_of_another_start_does_not_enter() -> None:
    context = cluster(bootstrap=WITHOUT_ELIGIBLE_LEADERS)
    report(context, (1, 3))
    old_epoch = epoch_of(context, 2)
    context.beat(2, want_fence=True)
    assert report(context, (1, 2, 3)).error_code == ErrorCode.INELIGIBLE_REPLICA
    context.pass_ms(60_000)
    context.start(1, 2, 3, incarnation=2)
    leader = context.partition("a").leader
    isr = (*context.partition("a").isr, 2)
    assert (
        report(context, isr, sender=leader, broker_epochs={2: old_epoch}).error_code
        == ErrorCode.INELIGIBLE_REPLICA
    )
    assert report(context, isr, sender=leader).error_code == ErrorCode.NONE


def test_a_broker_that_was_forgotten_does_not_enter() -> None:
    context = cluster()
    report(context, (1, 3))
    context.ask(UnregisterBrokerRequest(broker_id=2))
    assert report(context, (1, 2, 3)).error_code == ErrorCode.INELIGIBLE_REPLICA


def reassign(context: ControllerContext, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    context.ask(
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="a", partitions=[partition])]
        )
    )


def test_a_move_ends_once_the_added_replica_is_in_sync_and_the_leader_begins_a_new_epoch() -> None:
    context = cluster()
    reassign(context, 1, 2, 4)
    assert report(context, (1, 2)).error_code == ErrorCode.NONE
    assert context.partition("a").adding_replicas == (4,)
    done = report(context, (1, 2, 4))
    partition = context.partition("a")
    assert (
        partition.replicas,
        partition.isr,
        partition.adding_replicas,
        partition.removing_replicas,
    ) == ((1, 2, 4), (1, 2, 4), (), ())
    assert (done.error_code, done.leader_id, done.leader_epoch) == (0, 1, 1)


def test_a_leader_that_moves_away_is_told_that_another_one_leads() -> None:
    context = cluster()
    reassign(context, 2, 3, 4)
    told = report(context, (1, 2, 3, 4))
    assert told == ResponsePartitionData(partition_index=0, error_code=ErrorCode.NEW_LEADER_ELECTED)
    assert (context.partition("a").leader, context.partition("a").isr) == (2, (2, 3, 4))


def test_a_leader_that_was_elected_uncleanly_reports_its_recovery_before_others_join() -> None:
    context = cluster()
    context.write(
        PartitionChangeRecord(
            topic_id=context.topic("a").topic_id, partition_id=0, leader=-1, isr=[3]
        )
    )
    context.beat(3, want_fence=True)
    election = ElectLeadersRequest(
        election_type=1, topic_partitions=[TopicPartitions(topic="a", partitions=[0])]
    )
    context.ask(election)
    assert context.partition("a").leader_recovery_state == 1
    assert report(context, (1, 2)).error_code == ErrorCode.INVALID_REQUEST
    assert report(context, (1,)).error_code == ErrorCode.NONE, (
        "it may say that it has not recovered yet"
    )
    assert context.partition("a").leader_recovery_state == 1
    recovered = report(context, (1,), leader_recovery_state=0)
    assert (recovered.error_code, recovered.leader_recovery_state) == (0, 0)
    assert report(context, (1, 2)).error_code == ErrorCode.NONE
