"""Observers are brokers that are not in sync and lead nothing.

A partition takes them where too few others are in sync.
"""

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.runtime_keys import OBSERVER, OBSERVER_PROMOTION
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
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.unit.controller.context import SET, ControllerContext, epoch_of, new_topic, sets

BROKERS = 4
FEATURE = "tidelog.observers"


def with_feature(*, brokers: tuple[int, ...] = (1, 2, 3)) -> ControllerContext:
    context = ControllerContext().start(*brokers)
    context.ask(
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature=FEATURE, max_version_level=1)]
        )
    )
    return context


def set_key(
    context: ControllerContext, name: str, value: str, broker: str = "3"
) -> tuple[int, str]:
    found = context.alter(broker, (name, SET, value), resource_type=BROKERS)
    return found.error_code, found.error_message or ""


def report(context: ControllerContext, leader: int, isr: tuple[int, ...]) -> int:
    """Let a leader propose an in-sync set."""
    partition = context.partition("a")
    asked = RequestPartitionData(
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
    )
    topic = RequestTopicData(topic_id=context.topic("a").topic_id, partitions=[asked])
    response = context.ask(
        AlterPartitionRequest(
            broker_id=leader, broker_epoch=epoch_of(context, leader), topics=[topic]
        )
    )
    code: int = response.topics[0].partitions[0].error_code
    return code


def reassign(context: ControllerContext, replicas: tuple[int, ...]) -> None:
    asked = [ReassignablePartition(partition_index=0, replicas=list(replicas))]
    context.ask(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a", partitions=asked)])
    )


def observing(*, promotes: bool = False, **configs: str) -> ControllerContext:
    """Brokers 1 to 3, of which 3 is an observer, and a topic ``a`` on all of them."""
    context = with_feature()
    assert set_key(context, OBSERVER, "true") == (0, "")
    if promotes:
        assert set_key(context, OBSERVER_PROMOTION, "under-min-isr", "") == (0, "")
    named = {key.replace("_", "."): value for key, value in configs.items()}
    (result,) = context.create(new_topic("a", assignments={0: (3, 1, 2)}, configs=named))
    assert result.error_code == 0
    return context


def test_a_new_partition_is_led_by_others_and_has_its_observer_out_of_sync() -> None:
    assert sets(observing()) == (1, (1, 2), ())


def test_observers_get_replicas_only_where_someone_names_them() -> None:
    context = observing()
    for name in "bcdef":
        assert all(
            3 not in partition.replicas
            for partition in context.created(name, partitions=3, replicas=2).partitions.values()
        )
    (refused,) = context.create(new_topic("g", partitions=1, replicas=3))
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    (refused,) = context.create(new_topic("h", assignments={0: (3,)}))
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_observer_is_not_taken_in_sync() -> None:
    context = observing(min_insync_replicas="2")
    assert report(context, 1, (1, 2, 3)) == ErrorCode.INELIGIBLE_REPLICA
    assert report(context, 1, (1,)) == ErrorCode.NONE
    assert report(context, 1, (1, 3)) == ErrorCode.INELIGIBLE_REPLICA, (
        "without the policy nothing promotes it"
    )


def test_an_observer_is_not_elected_even_uncleanly() -> None:
    context = observing(unclean_leader_election_enable="true")
    context.leave(1)
    context.leave(2)
    assert sets(context)[0] == -1


def test_an_observer_that_is_one_no_more_comes_in_sync() -> None:
    context = observing()
    assert set_key(context, OBSERVER, "false") == (0, "")
    assert report(context, 1, (1, 2, 3)) == ErrorCode.NONE
    assert sets(context) == (1, (1, 2, 3), ())


def test_the_policy_takes_an_observer_while_too_few_others_are_in_sync() -> None:
    context = observing(promotes=True, min_insync_replicas="2")
    assert report(context, 1, (1, 2, 3)) == ErrorCode.INELIGIBLE_REPLICA, "there is no need"
    assert report(context, 1, (1,)) == ErrorCode.NONE
    assert report(context, 1, (1, 3)) == ErrorCode.NONE
    assert report(context, 1, (1, 2, 3)) == ErrorCode.NONE, (
        "it is in sync already: its leader lets it go"
    )
    assert report(context, 1, (1, 2)) == ErrorCode.NONE
    assert sets(context) == (1, (1, 2), ())


def test_a_promoted_observer_leads_when_the_last_other_one_dies() -> None:
    context = observing(promotes=True, min_insync_replicas="2")
    assert report(context, 1, (1,)) == ErrorCode.NONE
    assert report(context, 1, (1, 3)) == ErrorCode.NONE
    context.leave(1)
    assert sets(context)[:2] == (3, (3,))


def test_a_reassignment_does_not_wait_for_an_observer() -> None:
    context = with_feature(brokers=(1, 2, 3))
    assert set_key(context, OBSERVER, "true") == (0, "")
    context.create(new_topic("a", assignments={0: (1, 2)}))
    reassign(context, (1, 2, 3))
    partition = context.partition("a")
    assert (partition.replicas, partition.adding_replicas, partition.isr) == ((1, 2, 3), (), (1, 2))


@pytest.mark.parametrize(
    ("replicas", "min_isr", "told"),
    [
        ((3, 1), "1", "a-0 needs it: it leads it"),
        ((1, 3), "2", "fewer than 2 would be, as min.insync.replicas asks for"),
    ],
)
def test_a_broker_that_a_partition_needs_does_not_become_an_observer(
    replicas: tuple[int, ...], min_isr: str, told: str
) -> None:
    context = with_feature()
    context.create(
        new_topic("a", assignments={0: replicas}, configs={"min.insync.replicas": min_isr})
    )
    code, text = set_key(context, OBSERVER, "true")
    assert code == ErrorCode.POLICY_VIOLATION
    assert told in text
    assert not context.configs("3", BROKERS)


@pytest.mark.parametrize(
    ("name", "value", "broker", "told"),
    [
        (OBSERVER, "TRUE", "3", "tidelog.observer is true or false, not 'TRUE'"),
        (OBSERVER, "true", "", "is set for single brokers"),
        (OBSERVER_PROMOTION, "under-min-isr", "3", "is set for all brokers together"),
        (OBSERVER_PROMOTION, "always", "", "is by-hand or under-min-isr, not 'always'"),
    ],
)
def test_values_that_make_no_sense_are_refused(
    name: str, value: str, broker: str, told: str
) -> None:
    code, text = set_key(with_feature(), name, value, broker)
    assert code == ErrorCode.INVALID_CONFIG
    assert told in text


def test_without_the_feature_there_are_no_observers() -> None:
    code, text = set_key(ControllerContext().start(1, 2, 3), OBSERVER, "true")
    assert code == ErrorCode.INVALID_CONFIG
    assert "nodes of Apache Kafka do not" in text


def test_nodes_that_do_not_know_the_feature_stay_out() -> None:
    kafka = {name: levels for name, levels in SUPPORTED_FEATURES.items() if name != FEATURE}
    context = with_feature()
    with pytest.raises(KafkaError) as refused:
        context.register(4, features=kafka)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    mixed = ControllerContext().start(1)
    mixed.register(2, features=kafka)
    with pytest.raises(KafkaError, match="broker 2 keeps levels 0 to 0"):
        mixed.ask(
            UpdateFeaturesRequest(
                feature_updates=[FeatureUpdateKey(feature=FEATURE, max_version_level=1)]
            )
        )
    assert epoch_of(mixed, 2) > 0
