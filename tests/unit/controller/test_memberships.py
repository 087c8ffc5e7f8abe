"""Brokers leave in order, lose directories, crash or take each other's place.

Their partitions get other leaders.
"""

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.controller.controller import NEXT_RUN_MS, ElectionTimer
from log_service.controller.rules import elections
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from log_service.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
)
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.unit.controller.context import (
    FIRST,
    SECOND,
    SESSION_MS,
    SET,
    WITHOUT_ELIGIBLE_LEADERS,
    ControllerContext,
    cluster,
    epoch_of,
    new_topic,
    sets,
)

BROKER = 4
ELR = "eligible.leader.replicas.version"


def refusal(context: ControllerContext, **fields: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        context.register(7, **fields)
    return raised.value.code


# Registration


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (FIRST, FIRST)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=99),)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (UUID(int=501),)}, ErrorCode.INVALID_REGISTRATION),
        ({"features": {"group.version": (0, 1)}}, ErrorCode.INVALID_REGISTRATION),
        (
            {"features": {**SUPPORTED_FEATURES, "metadata.version": (7, 29)}},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            {"features": {**SUPPORTED_FEATURES, "group.version": (2, 2)}},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"features": {"metadata.version": (7, 30)}}, ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=str,
)
def test_registrations_that_would_break_the_cluster_are_refused(
    fields: dict[str, Any], code: ErrorCode
) -> None:
    """The last one does not say that it keeps the KRaft version, which the cluster has at 1."""
    context = ControllerContext().start(1)
    context.write(FeatureLevelRecord(name="kraft.version", feature_level=1))
    count = len(context.records)
    assert refusal(context, **fields) is code
    assert len(context.records) == count


def test_a_session_begins_with_the_first_heartbeat_not_with_the_registration() -> None:
    context = ControllerContext().start(1)
    context.register(2, incarnation=1)
    first = context.register(2, incarnation=2)
    assert context.register(2, incarnation=3) > first
    context.beat(2, want_fence=True)
    with pytest.raises(KafkaError) as raised:
        context.register(2, incarnation=4)
    assert raised.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_the_epoch_is_the_next_offset_and_clean_up_comes_before_the_registration() -> None:
    context = cluster(2, 1)
    context.pass_ms(SESSION_MS - 1)
    context.beat(1)
    context.pass_ms(1)
    context.beat(2)
    context.write(
        PartitionChangeRecord(
            topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2], leader=2
        )
    )
    context.pass_ms(SESSION_MS)
    context.start(1)
    before = len(context.records)
    context.write(
        PartitionChangeRecord(
            topic_id=context.topic("a").topic_id, partition_id=0, isr=[1, 2], leader=2
        )
    )
    epoch = context.register(2, incarnation=5)
    assert epoch == before + 1
    assert [type(record) for record in context.records[epoch:]] == [
        PartitionChangeRecord,
        RegisterBrokerRecord,
    ]
    early = context.beat(2, offset=epoch)
    assert (early.is_caught_up, early.is_fenced) == (False, True), (
        "the offset of the record counts, not the epoch"
    )
    assert not context.beat(2, offset=epoch + 1).is_fenced


# Leaving in order


def test_a_broker_that_leads_leaves_when_all_others_know_who_leads_now() -> None:
    context = cluster(1, 2, 3)
    for node_id in (2, 3):
        context.beat(node_id, offset=1)
    first = context.beat(1, want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert context.controller.image.cluster.brokers[NodeId(1)].is_in_controlled_shutdown
    assert sets(context)[:2] == (2, (2, 3))
    end = len(context.records) - 1
    context.beat(2, offset=end)
    assert not context.beat(1, want_shut_down=True).should_shut_down, "broker 3 does not know yet"
    context.beat(3, offset=end)
    last = context.beat(1, want_shut_down=True)
    assert (last.should_shut_down, last.is_fenced) == (True, True)
    assert context.is_fenced(1)
    context.start(1, incarnation=2)


def test_a_broker_that_leads_nothing_may_leave_at_once() -> None:
    context = cluster(1, 2)
    assert context.beat(3, want_shut_down=True).should_shut_down


def test_a_broker_alone_leaves_its_partitions_without_leader() -> None:
    context = cluster(1, brokers=(1,))
    assert not context.beat(1, want_shut_down=True).should_shut_down
    assert sets(context) == (-1, (1,), ())
    assert context.beat(1, want_shut_down=True).should_shut_down


def test_a_controller_that_takes_over_lets_a_broker_leave_too() -> None:
    context = cluster(1, 2, 3)
    context.beat(3, want_shut_down=True)
    context.beat(2, want_shut_down=True)
    context.beat(1, want_shut_down=True)
    context.new_epoch()
    assert context.beat(1, want_shut_down=True).should_shut_down, "it leads nothing any more"


# Directories


def test_a_directory_that_went_offline_takes_its_replicas_out_of_sync() -> None:
    context = ControllerContext()
    context.register(1, log_dirs=(FIRST, SECOND))
    context.beat(1)
    context.start(2)
    context.create(new_topic("a", assignments={0: (1, 2)}))
    context.write(
        PartitionChangeRecord(
            topic_id=context.topic("a").topic_id, partition_id=0, directories=[FIRST, UUID(int=502)]
        ),
    )
    context.beat(1, offline_log_dirs=[SECOND])
    assert sets(context)[:2] == (1, (1, 2)), "the other one"
    assert context.controller.image.cluster.brokers[NodeId(1)].log_dirs == (FIRST,)
    context.beat(1, offline_log_dirs=[FIRST, SECOND])
    assert sets(context)[:2] == (2, (2,))
    count = len(context.records)
    context.register(3)
    context.beat(3, offline_log_dirs=[])
    assert len(context.records) == count + 2


def test_directories_that_take_no_new_partitions_are_told_by_heartbeats() -> None:
    context = ControllerContext().start(1, 2)
    context.beat(1, cordoned_log_dirs=[UUID(int=501)])
    assert context.records[-1] == BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=epoch_of(context, 1), cordoned_log_dirs=[UUID(int=501)]
    )
    count = len(context.records)
    context.beat(1, cordoned_log_dirs=[UUID(int=501)])
    assert len(context.records) == count
    assert {partition.replicas for partition in context.created("b", 4).partitions.values()} == {
        (2,)
    }
    context.beat(1, cordoned_log_dirs=[])
    assert {partition.leader for partition in context.created("c", 4).partitions.values()} == {1, 2}


def test_a_cordoned_directory_that_has_failed_leaves_the_others_open() -> None:
    """The controller counted names against directories.

    An operator had cordoned a bad disk, it failed, and the broker got no partition.
    """
    context = ControllerContext()
    context.register(1, log_dirs=(FIRST, SECOND))
    context.beat(1)
    context.alter("1", ("cordoned.log.dirs", 0, "/first"), resource_type=4)
    context.beat(1, cordoned_log_dirs=[FIRST])
    assert {partition.leader for partition in context.created("b", 2).partitions.values()} == {1}
    context.beat(1, offline_log_dirs=[FIRST], cordoned_log_dirs=[FIRST])
    assert {partition.leader for partition in context.created("c", 2).partitions.values()} == {1}
    context.beat(1, cordoned_log_dirs=[FIRST, SECOND])
    with pytest.raises(AssertionError, match="0 broker"):
        context.created("d")


def test_directories_that_are_cordoned_by_name_count_until_a_broker_that_returns_tells_of_them() -> (
    None
):
    context = ControllerContext()
    context.register(1, log_dirs=(FIRST, SECOND))
    context.alter("1", ("cordoned.log.dirs", 0, "/first,/second"), resource_type=4)
    context.beat(1)
    with pytest.raises(AssertionError, match="0 broker"):
        context.created("b")
    context.beat(1, cordoned_log_dirs=[FIRST])
    context.created("b")


# Eligible leader replicas, as brokers stop (KIP-966)


def test_a_clean_stop_keeps_a_broker_eligible_and_a_crash_does_not() -> None:
    for is_clean, eligible in ((True, (2,)), (False, ())):
        context = cluster(1, 2, elr=True, brokers=(1, 2), min_insync_replicas="2")
        context.leave(2)
        assert sets(context) == (1, (1,), (2,))
        old_epoch = epoch_of(context, 2)
        context.register(2, incarnation=2, previous_broker_epoch=old_epoch if is_clean else -1)
        assert sets(context) == (1, (1,), eligible)


@pytest.mark.parametrize("claimed", ["-1", "0", "older", "stored", "newer"])
@pytest.mark.parametrize("incarnation", [1, 2])
def test_only_the_stored_epoch_claims_a_clean_stop(claimed: str, incarnation: int) -> None:
    """The controller compares the stored epoch with the claimed one, for another incarnation only.

    So does ``ClusterControlManager.registerBroker`` of Apache Kafka 4.3. Brokers of both products
    send the same claim, -1 where they do not know (KIP-966).
    """
    context = cluster(1, 2, elr=True, brokers=(1, 2), min_insync_replicas="2")
    context.leave(2)
    stored = epoch_of(context, 2)
    epochs = {"-1": -1, "0": 0, "older": stored - 1, "stored": stored, "newer": stored + 1}
    context.register(2, incarnation=incarnation, previous_broker_epoch=epochs[claimed])
    is_same_process = incarnation == 1
    eligible = (2,) if is_same_process or epochs[claimed] == stored else ()
    assert sets(context) == (1, (1,), eligible)


def test_an_eligible_broker_leads_when_it_is_back_before_the_last_leader() -> None:
    context = cluster(1, 2, elr=True, brokers=(1, 2, 3), min_insync_replicas="2")
    context.leave(2)
    context.leave(1)
    assert sets(context) == (-1, (), (1, 2))
    context.register(2, incarnation=2, previous_broker_epoch=epoch_of(context, 2))
    context.beat(2)
    assert sets(context) == (2, (2,), (1,))


@pytest.mark.parametrize("min_isr", ["2", "1"])
@pytest.mark.parametrize("node_id", [1, 2])
def test_brokers_whose_sessions_end_at_one_moment_stay_eligible_together(
    node_id: int, min_isr: str
) -> None:
    """A new controller gives all of them the same time. One that lost its records meanwhile is not
    the only one that may lead.
    """
    context = cluster(1, 2, elr=True, brokers=(1, 2, 3), min_insync_replicas=min_isr).new_epoch()
    context.pass_ms(SESSION_MS - 1)
    context.beat(3)
    context.pass_ms(1)
    assert context.is_fenced(1)
    assert context.is_fenced(2)
    assert not context.is_fenced(3)
    assert sets(context) == (-1, (), (1, 2))
    context.register(node_id, incarnation=2, previous_broker_epoch=epoch_of(context, node_id))
    context.beat(node_id)
    assert sets(context) == (node_id, (node_id,), (3 - node_id,) if min_isr == "2" else ()), (
        "a leader that may commit alone is alone"
    )


def test_without_eligible_leaders_the_leader_stays_the_only_one_in_sync() -> None:
    context = cluster(2, 1, 3, brokers=(1, 2, 3)).new_epoch()
    context.pass_ms(SESSION_MS)
    assert all(context.is_fenced(node_id) for node_id in (1, 2, 3))
    assert sets(context) == (-1, (2,), ())


def test_a_broker_that_is_forgotten_stays_eligible_and_cannot_lead() -> None:
    context = cluster(1, 2, elr=True, brokers=(1, 2, 3), min_insync_replicas="2")
    context.ask(UnregisterBrokerRequest(broker_id=1))
    assert sets(context) == (2, (2,), (1,))
    context.leave(2)
    assert sets(context) == (-1, (), (1, 2))


def test_another_min_insync_replicas_makes_elr_be_chosen_anew() -> None:
    context = cluster(1, 2, elr=True, brokers=(1, 2), min_insync_replicas="2")
    assert ClearElrRecord(topic_name="a") in context.records, (
        "a topic that is created with it says so"
    )
    context.leave(2)
    assert context.alter("a", ("min.insync.replicas", SET, "1")).error_code == 0
    assert sets(context) == (1, (1,), ())
    assert context.records[-1] == ClearElrRecord(topic_name="a")
    assert (
        context.alter("", ("min.insync.replicas", SET, "2"), resource_type=BROKER).error_code == 0
    )
    assert context.records[-1] == ClearElrRecord(topic_name="")


def test_min_insync_replicas_is_one_value_of_the_cluster_while_it_keeps_elr() -> None:
    context = ControllerContext(
        static_texts={"min.insync.replicas": "2"}, bootstrap=WITHOUT_ELIGIBLE_LEADERS
    ).start(1, 2)
    context.alter("1", ("min.insync.replicas", SET, "3"), resource_type=BROKER)
    before = len(context.records)
    context.ask(
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=ELR, max_version_level=1)])
    )
    assert context.records[before:] == [
        ConfigRecord(resource_type=BROKER, resource_name="", name="min.insync.replicas", value="2"),
        ConfigRecord(
            resource_type=BROKER, resource_name="1", name="min.insync.replicas", value=None
        ),
        FeatureLevelRecord(name=ELR, feature_level=1),
    ]
    for name, change in (
        ("1", ("min.insync.replicas", SET, "3")),
        ("", ("min.insync.replicas", 1, None)),
    ):
        assert (
            context.alter(name, change, resource_type=BROKER).error_code == ErrorCode.INVALID_CONFIG
        )


def test_a_new_cluster_that_keeps_elr_has_min_insync_replicas_from_its_begin() -> None:
    context = ControllerContext(
        bootstrap=[
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            FeatureLevelRecord(name=ELR, feature_level=1),
        ]
    )
    assert context.records[-1] == ConfigRecord(
        resource_type=BROKER, resource_name="", name="min.insync.replicas", value="1"
    )


# Features


def test_a_level_that_a_controller_does_not_keep_is_refused() -> None:
    context = ControllerContext().start(1)
    features = [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]
    context.ask(
        ControllerRegistrationRequest(
            controller_id=9, incarnation_id=UUID(int=9), features=features
        )
    )
    with pytest.raises(KafkaError, match="controller 9 keeps levels 0 to 0"):
        context.ask(
            UpdateFeaturesRequest(
                feature_updates=[FeatureUpdateKey(feature=ELR, max_version_level=1)]
            )
        )


# One partition twice in a request


def test_the_second_report_about_a_partition_sees_what_the_first_has_changed() -> None:
    context = cluster(1, 2, 3)
    asked = [
        RequestPartitionData(
            leader_epoch=0,
            partition_epoch=0,
            new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
        )
        for isr in ((1, 2), (1, 3))
    ]
    topic = RequestTopicData(topic_id=context.topic("a").topic_id, partitions=asked)
    response = context.ask(
        AlterPartitionRequest(broker_id=1, broker_epoch=epoch_of(context, 1), topics=[topic])
    )
    assert [each.error_code for each in response.topics[0].partitions] == [
        0,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert (context.partition("a").isr, context.partition("a").partition_epoch) == ((1, 2), 1)


def test_the_second_move_of_a_partition_goes_on_from_the_first() -> None:
    context = cluster(1, 2, brokers=(1, 2, 3, 4))
    asked = [
        ReassignablePartition(partition_index=0, replicas=list(replicas))
        for replicas in ((1, 3), (1, 4))
    ]
    context.ask(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a", partitions=asked)])
    )
    partition = context.partition("a")
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        (1, 4, 2, 3),
        (4,),
        (2, 3),
    )


def test_no_replica_is_placed_on_a_broker_that_leaves() -> None:
    context = cluster(1, 2, 3)
    assert not context.beat(1, want_shut_down=True).should_shut_down
    (made, refused) = context.create(
        new_topic("b", partitions=6, replicas=2), new_topic("c", partitions=1, replicas=3)
    )
    assert (made.error_code, refused.error_code) == (
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    )
    assert {
        node_id for each in context.topic("b").partitions.values() for node_id in each.replicas
    } == {2, 3}


def test_a_broker_that_has_stopped_in_order_gets_replicas_where_there_are_too_few_others() -> None:
    """It is expected back; while it is on its way out it gets none."""
    context = cluster(1, 2)
    context.leave(1)
    assert context.controller.image.cluster.brokers[NodeId(1)].is_in_controlled_shutdown
    (made,) = context.create(new_topic("b", partitions=1, replicas=3))
    assert made.error_code == ErrorCode.NONE
    assert sorted(context.partition("b").replicas) == [1, 2, 3]
    assert sorted(context.partition("b").isr) == [2, 3]


# Elections of the controller's own


def with_elections(context: ControllerContext) -> ControllerContext:
    """The same cluster under a controller that holds elections each second, and has heard of its
    brokers.
    """
    context.new_epoch(leader_balance_interval_ms=1_000, unclean_election_interval_ms=1_000)
    for broker in context.controller.image.cluster.unfenced():
        context.beat(broker.node_id)
    return context


@pytest.mark.parametrize("brokers", [(1, 2), (1, 2, 3)], ids=["two-brokers", "three-brokers"])
def test_partitions_go_back_to_their_preferred_leaders(brokers: tuple[int, ...]) -> None:
    context = cluster(*brokers, brokers=brokers)
    context.leave(1)
    context.start(1, incarnation=2)
    context.write(
        PartitionChangeRecord(
            topic_id=context.topic("a").topic_id, partition_id=0, isr=list(brokers)
        )
    )
    assert context.partition("a").leader == 2
    with_elections(context).pass_ms(1_000)
    assert context.partition("a").leader == 1
    assert ElectionTimer.PREFERRED in context.timers, "and again later"


def test_elections_that_are_too_many_for_one_run_go_on_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elections, "balance_leaders", partial(elections.balance_leaders, limit=2))
    context = cluster(1, 2)
    context.create(new_topic("b", assignments=dict.fromkeys(range(4), (1, 2))))
    context.leave(1)
    context.start(1, incarnation=2)
    topics = [context.topic(name) for name in ("a", "b")]
    everywhere = [(topic.topic_id, index) for topic in topics for index in topic.partitions]
    context.write(
        *(
            PartitionChangeRecord(topic_id=topic_id, partition_id=index, isr=[1, 2])
            for topic_id, index in everywhere
        )
    )
    with_elections(context)
    led_by_first = []
    for pause_ms in (1_000, NEXT_RUN_MS, NEXT_RUN_MS):
        context.pass_ms(pause_ms)
        leaders = [
            each.leader for name in ("a", "b") for each in context.topic(name).partitions.values()
        ]
        led_by_first.append(leaders.count(NodeId(1)))
    assert led_by_first == [2, 4, 5]
    assert context.timers[ElectionTimer.PREFERRED] - context.now_ms > NEXT_RUN_MS, (
        "nothing is left to do"
    )


def test_unclean_elections_that_are_too_many_for_one_run_go_on_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elections, "elect_uncleanly", partial(elections.elect_uncleanly, limit=2))
    context = cluster(1, 3)
    context.create(new_topic("b", assignments=dict.fromkeys(range(2), (1, 3))))
    lost = [
        (context.topic(name), index)
        for name in ("a", "b")
        for index in context.topic(name).partitions
    ]
    context.write(
        *(
            PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, isr=[1])
            for topic, index in lost
        )
    )
    context.leave(1)
    with_elections(context)
    for name in ("a", "b"):
        context.alter(name, ("unclean.leader.election.enable", SET, "true"))
    led = []
    for pause_ms in (1_000, NEXT_RUN_MS):
        context.pass_ms(pause_ms)
        led.append(
            sum(
                each.has_leader
                for name in ("a", "b")
                for each in context.topic(name).partitions.values()
            )
        )
    assert led == [2, 3]


@pytest.mark.parametrize(("allowed", "leader"), [("true", 3), ("false", -1)])
def test_a_partition_without_leader_gets_one_uncleanly_where_its_topic_allows_it(
    allowed: str, leader: int
) -> None:
    context = cluster(1, 3)
    context.write(
        PartitionChangeRecord(topic_id=context.topic("a").topic_id, partition_id=0, isr=[1])
    )
    context.leave(1)
    with_elections(context).alter("a", ("unclean.leader.election.enable", SET, allowed))
    assert context.partition("a").leader == -1
    context.pass_ms(1_000)
    assert context.partition("a").leader == leader
