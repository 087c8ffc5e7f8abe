"""Brokers come, lead, fall silent, leave and come back; no leader epoch is ever written twice."""

from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import LeaderEpoch, NodeId
from log_service.controller.controller import Controller
from log_service.controller.rules.table import ControllerConfig
from log_service.metadata.features import first_feature_records
from log_service.metadata.image import EMPTY_IMAGE, ResourceType
from log_service.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from log_service.state_machine.decision import Decision, ReplayContext
from tests.unit.controller.context import (
    CLUSTER,
    WITHOUT_ELIGIBLE_LEADERS,
    ControllerContext,
    new_topic,
)

SESSION_MS = 9_000


def refusal(raised: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return raised.value.code


def test_the_features_of_the_cluster_are_its_first_records() -> None:
    context = ControllerContext()
    min_isr = ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name="", name="min.insync.replicas", value="1"
    )
    assert context.records == [*first_feature_records(), min_isr]


def test_a_cluster_that_is_there_gets_no_first_records_again() -> None:
    context = ControllerContext()
    count = len(context.records)
    context.new_epoch()
    assert len(context.records) == count


def test_a_cluster_with_features_of_another_version_is_not_led() -> None:
    config = ControllerConfig(node_id=NodeId(1), cluster_id=CLUSTER)
    controller = Controller(config, EMPTY_IMAGE, LeaderEpoch(1), lambda: UUID(int=1))
    controller.replay(
        FeatureLevelRecord(name="metadata.version", feature_level=21), ReplayContext(0)
    )
    with pytest.raises(StorageError, match="level 21"):
        controller.activate((), Decision(0, 0))


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    context = ControllerContext()
    epoch = context.register()
    record = context.records[epoch]
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced) == (epoch, True)


def test_a_broker_is_unfenced_once_it_has_seen_its_own_registration() -> None:
    context = ControllerContext()
    epoch = context.register()
    early = context.beat(offset=epoch - 1)
    assert (early.is_caught_up, early.is_fenced, context.is_fenced()) == (False, True, True)
    caught_up = context.beat(offset=epoch)
    assert (caught_up.is_caught_up, caught_up.is_fenced, context.is_fenced()) == (
        True,
        False,
        False,
    )


def test_a_broker_that_wants_to_stay_fenced_stays_fenced() -> None:
    context = ControllerContext()
    context.register()
    assert context.beat(want_fence=True).is_fenced
    assert context.is_fenced()


def test_heartbeats_of_an_unfenced_broker_write_nothing() -> None:
    context = ControllerContext().start()
    before = len(context.records)
    assert not context.beat().is_fenced
    assert len(context.records) == before


def test_a_broker_of_another_cluster_is_refused() -> None:
    with pytest.raises(KafkaError) as raised:
        ControllerContext().register(cluster_id="other")
    assert refusal(raised) is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_broker_that_cannot_keep_the_clusters_features_is_refused() -> None:
    with pytest.raises(KafkaError) as raised:
        ControllerContext().register(features={"metadata.version": (7, 29)})
    assert refusal(raised) is ErrorCode.UNSUPPORTED_VERSION


def test_a_heartbeat_of_an_older_start_is_stale() -> None:
    context = ControllerContext().start()
    old = context.controller.image.cluster.brokers[NodeId(1)].epoch
    context.pass_ms(SESSION_MS)
    context.register(incarnation=2)
    with pytest.raises(KafkaError) as raised:
        context.beat(epoch=old)
    assert refusal(raised) is ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_never_registered_is_told_so() -> None:
    with pytest.raises(KafkaError) as raised:
        ControllerContext().beat(5)
    assert refusal(raised) is ErrorCode.STALE_BROKER_EPOCH


def test_a_second_process_under_a_live_brokers_number_is_refused() -> None:
    context = ControllerContext().start(1, 2)
    with pytest.raises(KafkaError) as raised:
        context.register(2, incarnation=9)
    assert refusal(raised) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    context.pass_ms(SESSION_MS)
    context.register(2, incarnation=9)


def test_the_same_process_that_registers_again_keeps_its_epoch_and_what_it_leads() -> None:
    context = ControllerContext().start(1, 2)
    context.create(new_topic("orders", assignments={0: (2, 1)}))
    epoch = context.controller.image.cluster.brokers[NodeId(2)].epoch
    assert context.register(2, rack="south") == epoch
    assert (context.is_fenced(2), context.controller.image.cluster.brokers[NodeId(2)].rack) == (
        False,
        "south",
    )
    assert (context.partition("orders").leader, context.partition("orders").leader_epoch) == (2, 0)


def test_the_same_process_that_registers_again_is_fenced_or_leaving_as_before() -> None:
    """A registration unfences nobody: the broker may not know its partitions yet."""
    context = ControllerContext().start(1, 2)
    context.beat(2, want_fence=True)
    context.register(2, rack="south")
    assert context.is_fenced(2)
    leaving = ControllerContext().start(1, 2)
    leaving.create(new_topic("orders", assignments={0: (2, 1)}))
    leaving.beat(2, want_shut_down=True)
    leaving.register(2, rack="south")
    assert leaving.controller.image.cluster.brokers[NodeId(2)].is_in_controlled_shutdown
    serving = ControllerContext().start(1, 2)
    serving.register(2, rack="south")
    assert not serving.controller.image.cluster.brokers[NodeId(2)].is_in_controlled_shutdown


def test_a_broker_that_wants_to_be_fenced_may_stop_only_where_it_wants_that_too() -> None:
    context = ControllerContext().start(1, 2)
    fenced = context.beat(1, want_fence=True)
    assert (fenced.is_fenced, fenced.should_shut_down) == (True, False)
    stopping = context.beat(2, want_fence=True, want_shut_down=True)
    assert (stopping.is_fenced, stopping.should_shut_down) == (True, True)


def test_a_broker_that_comes_from_zookeeper_is_refused() -> None:
    context = ControllerContext().start(1)
    with pytest.raises(KafkaError, match="broker 2 comes from ZooKeeper") as raised:
        context.register(2, is_migrating_zk_broker=True)
    assert refusal(raised) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert NodeId(2) not in context.controller.image.cluster.brokers


def test_the_first_directory_id_that_means_nothing_else_is_one_that_a_broker_may_have() -> None:
    context = ControllerContext().start(1)
    context.register(2, log_dirs=(UUID(int=100),))
    assert context.controller.image.cluster.brokers[NodeId(2)].log_dirs == (UUID(int=100),)


def test_a_clean_stop_fences_and_the_next_start_leads_in_a_new_epoch() -> None:
    context = ControllerContext().start()
    context.created("orders", 2)
    context.leave()
    assert context.is_fenced()
    partition = context.partition("orders")
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (-1, (), (1,))
    context.start(incarnation=2)
    assert [
        (context.partition("orders", index).leader, context.partition("orders", index).leader_epoch)
        for index in (0, 1)
    ] == [
        (1, 2),
        (1, 2),
    ]


def test_after_an_unclean_stop_every_led_partition_begins_a_new_epoch() -> None:
    context = ControllerContext().start()
    context.created("orders", 3)
    context.new_epoch()
    before = len(context.records)
    context.start(incarnation=2)
    epochs = {partition.leader_epoch for partition in context.topic("orders").partitions.values()}
    leaders = {partition.leader for partition in context.topic("orders").partitions.values()}
    assert (min(epochs) > 0, leaders) == (True, {1})
    kinds = [type(record) for record in context.records[before:]]
    assert kinds.count(PartitionChangeRecord) == 6
    assert kinds.count(BrokerRegistrationChangeRecord) == 1
    assert kinds.index(RegisterBrokerRecord) == 3, "what the process before led is given up first"


def test_a_silent_broker_is_fenced_when_its_session_ends() -> None:
    context = ControllerContext().start(1, 2)
    context.pass_ms(SESSION_MS - 1)
    context.beat(1)
    assert not context.is_fenced(2)
    context.pass_ms(1)
    assert (context.is_fenced(1), context.is_fenced(2)) == (False, True)


def test_a_broker_that_is_heard_of_again_is_unfenced_again() -> None:
    context = ControllerContext().start(2)
    context.pass_ms(SESSION_MS)
    assert context.is_fenced(2)
    assert not context.beat(2).is_fenced


def test_leaders_move_to_another_replica_in_sync() -> None:
    context = ControllerContext().start(1, 2)
    context.created("orders", 2, 2)
    context.leave(2)
    for partition in context.topic("orders").partitions.values():
        assert (partition.leader, partition.isr) == (1, (1,))
    led_before = [
        partition.leader_epoch for partition in context.topic("orders").partitions.values()
    ]
    assert sorted(led_before) == [0, 1]


def test_a_replica_that_returns_does_not_lead_before_it_is_in_sync() -> None:
    context = ControllerContext().start(1, 2)
    context.create(new_topic("orders", assignments={0: (1, 2)}))
    context.leave(1)
    context.start(1, incarnation=2)
    assert (context.partition("orders").leader, context.partition("orders").isr) == (2, (2,))


def test_the_last_replica_in_sync_is_waited_for() -> None:
    context = ControllerContext(bootstrap=WITHOUT_ELIGIBLE_LEADERS).start(1, 2)
    context.create(new_topic("orders", assignments={0: (1, 2)}))
    context.leave(1)
    context.leave(2)
    assert (context.partition("orders").leader, context.partition("orders").isr) == (-1, (2,))
    context.start(1, incarnation=2)
    assert context.partition("orders").leader == -1
    context.start(2, incarnation=2)
    assert context.partition("orders").leader == 2


def test_brokers_that_count_as_alive_get_one_session_from_a_new_controller() -> None:
    context = ControllerContext().start(1, 2)
    context.new_epoch()
    with pytest.raises(KafkaError) as raised:
        context.register(2, incarnation=9)
    assert refusal(raised) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    context.pass_ms(SESSION_MS - 1)
    context.beat(1)
    context.pass_ms(1)
    assert (context.is_fenced(1), context.is_fenced(2)) == (False, True)


def test_the_next_process_of_the_controllers_own_node_is_no_duplicate() -> None:
    """The directories of the controller's own node are locked.

    When its controller begins, the metadata shows the broker process before.
    """
    context = ControllerContext().start(1, 2)
    context.new_epoch()
    context.register(1, incarnation=9)
    context.beat(1)
    with pytest.raises(KafkaError) as raised:
        context.register(1, incarnation=10)
    assert refusal(raised) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_producer_ids_come_in_blocks_that_no_other_broker_gets() -> None:
    context = ControllerContext().start(1, 2)
    brokers = context.controller.image.cluster.brokers
    blocks = []
    for node_id in (1, 2, 1):
        epoch = brokers[NodeId(node_id)].epoch
        blocks.append(
            context.ask(AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=epoch))
        )
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]


def test_producer_ids_are_not_given_to_a_broker_that_was_replaced() -> None:
    context = ControllerContext().start()
    with pytest.raises(KafkaError) as raised:
        context.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0))
    assert refusal(raised) is ErrorCode.STALE_BROKER_EPOCH


def test_a_new_controller_aborts_the_metadata_transaction_that_another_left_open() -> None:
    context = ControllerContext()
    begun: list[MetadataRecord] = [
        BeginTransactionRecord(name="bulk"),
        TopicRecord(name="orders", topic_id=UUID(int=1)),
    ]
    context.write(*begun)
    context.new_epoch()
    assert context.records[-1] == AbortTransactionRecord(
        reason="the controller that began it leads no more"
    )
    context.write(TopicRecord(name="planes", topic_id=UUID(int=2)))
    assert list(context.controller.image.topics.by_name) == ["planes"]
