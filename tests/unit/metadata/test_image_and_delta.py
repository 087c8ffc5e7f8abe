"""Records become images; an image never changes; a delta copies only what it touches."""

from dataclasses import replace
from uuid import UUID

import pytest

from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.errors import MetadataError
from log_service.metadata.image import EMPTY_IMAGE, ResourceType
from log_service.metadata.partition import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
)
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from tests.unit.metadata.records import (
    ACCESS,
    DIRECTORY,
    END_OF_ACCESS,
    NODE_1,
    broker,
    credential,
    delta_of,
    image_of,
    partition,
    topic,
    topic_id,
)


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_of(*topic("orders", 1, 3))
    found = image.topics.by_name["orders"]
    assert found is image.topics.by_id[found.topic_id]
    assert sorted(found.partitions) == [0, 1, 2]
    assert image.topics.partition("orders", 2) == found.partitions[2]
    assert image.topics.partition("orders", 3) is None
    assert image.topics.partition("nothing", 0) is None


def test_an_image_knows_where_it_stands() -> None:
    image = image_of(*topic("orders", 1))
    assert (image.offset, image.epoch) == (1, 1)
    assert repr(image) == "<MetadataImage offset=1 epoch=1 brokers=0 topics=1 partitions=1>"


def test_an_older_image_stays_as_it_was() -> None:
    before = image_of(broker(), *topic("orders", 1, 2))
    image_of(
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=-1),
        RemoveTopicRecord(topic_id=topic_id(1)),
        FenceBrokerRecord(id=1, epoch=10),
        base=before,
    )
    assert before.topics.by_name["orders"].partitions[0].leader == 1
    assert not before.cluster.brokers[NODE_1].is_fenced


def test_what_a_delta_does_not_touch_is_shared() -> None:
    before = image_of(broker(), *topic("orders", 1, 2), *topic("planes", 2))
    after = image_of(
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=-1), base=before
    )
    assert after.topics.by_name["planes"] is before.topics.by_name["planes"]
    assert (
        after.topics.by_name["orders"].partitions[1]
        is before.topics.by_name["orders"].partitions[1]
    )
    assert after.cluster is before.cluster
    assert after.configs is before.configs
    assert after.features is before.features
    assert after.access is before.access


def test_the_index_of_acls_outlives_a_change_of_other_access() -> None:
    before = image_of(*ACCESS)
    assert before.access.acl_index is not None
    assert image_of(credential("bob"), base=before).access.acl_index is before.access.acl_index


def test_a_change_that_names_a_leader_raises_both_epochs_even_if_it_is_the_same_leader() -> None:
    image = image_of(
        *topic("orders", 1), PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=1)
    )
    changed = image.topics.by_name["orders"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 1, 1)


def test_a_change_without_a_leader_raises_only_the_partition_epoch() -> None:
    image = image_of(
        *topic("orders", 1, replicas=(1, 2)),
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, isr=[1]),
    )
    changed = image.topics.by_name["orders"].partitions[0]
    assert (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch) == (
        (1,),
        1,
        0,
        1,
    )


def test_changes_of_one_partition_in_one_delta_add_up() -> None:
    change = PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=-1)
    back = PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=1)
    changed = image_of(*topic("orders", 1), change, back).topics.by_name["orders"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 2, 2)


def test_a_partition_without_a_leader_says_so() -> None:
    image = image_of(
        *topic("orders", 1),
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=0, leader=NO_LEADER),
    )
    assert not image.topics.by_name["orders"].partitions[0].has_leader


def test_a_partition_knows_the_log_directory_of_each_replica() -> None:
    first, second, third = NodeId(1), NodeId(2), NodeId(3)
    known = PartitionRegistration(
        replicas=(first, second),
        isr=(first,),
        leader=first,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        directories=(DIRECTORY, LOST_DIRECTORY),
    )
    assert [known.directory_of(node_id) for node_id in (first, second, third)] == [
        DIRECTORY,
        LOST_DIRECTORY,
        None,
    ]
    assert known._replace(directories=()).directory_of(second) == MIGRATING_DIRECTORY


@pytest.mark.parametrize(
    ("directory_id", "is_online"),
    [
        (DIRECTORY, True),
        (UUID(int=777), False),
        (UNASSIGNED_DIRECTORY, True),
        (MIGRATING_DIRECTORY, True),
        (LOST_DIRECTORY, False),
    ],
)
def test_a_broker_can_serve_a_replica_in_a_directory_that_it_has_and_in_one_that_is_not_chosen(
    directory_id: UUID, *, is_online: bool
) -> None:
    registered = image_of(broker()).cluster.brokers[NODE_1]
    assert replace(registered, log_dirs=(DIRECTORY,)).has_online(directory_id) is is_online
    assert replace(registered, log_dirs=()).has_online(directory_id) is (
        directory_id != LOST_DIRECTORY
    )


def test_a_broker_is_active_unless_it_is_fenced_or_leaves() -> None:
    registered = image_of(broker()).cluster.brokers[NODE_1]
    assert replace(registered, is_fenced=False).is_active
    assert not replace(registered, is_fenced=True).is_active
    assert not replace(registered, is_fenced=False, is_in_controlled_shutdown=True).is_active


def test_a_delta_tells_what_is_new_and_what_changed() -> None:
    before = image_of(*topic("orders", 1, 2))
    delta = delta_of(partition(1, 2), *topic("planes", 2), base=before)
    delta.build(offset=9, epoch=1)
    grown, created = delta.changed_topics[topic_id(1)], delta.changed_topics[topic_id(2)]
    assert (grown.is_new, sorted(grown.changed_partitions), sorted(grown.topic.partitions)) == (
        False,
        [2],
        [0, 1, 2],
    )
    assert (created.is_new, sorted(created.changed_partitions)) == (True, [0])


def test_a_deleted_topic_takes_its_configuration_along() -> None:
    before = image_of(
        *topic("orders", 1),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
    )
    delta = delta_of(RemoveTopicRecord(topic_id=topic_id(1)), base=before)
    after = delta.build(offset=9, epoch=1)
    assert delta.deleted_topics[topic_id(1)].name == "orders"
    assert after.topics.by_name == after.topics.by_id == {}
    assert after.configs.of(ResourceType.TOPIC, "orders") == {}


def test_a_topic_that_is_configured_and_deleted_in_the_same_delta_leaves_no_configuration() -> None:
    records = [
        *topic("orders", 1),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
    ]
    assert image_of(*records, RemoveTopicRecord(topic_id=topic_id(1))).configs.by_resource == {}


def test_a_name_may_return_with_another_id_in_the_same_delta() -> None:
    before = image_of(*topic("orders", 1))
    delta = delta_of(RemoveTopicRecord(topic_id=topic_id(1)), *topic("orders", 2), base=before)
    after = delta.build(offset=9, epoch=1)
    assert after.topics.by_name["orders"].topic_id == topic_id(2)
    assert list(after.topics.by_id) == [topic_id(2)]
    assert list(delta.deleted_topics) == [topic_id(1)]


def test_names_that_may_collide_are_found_by_what_metrics_write() -> None:
    image = image_of(*topic("a.b", 1), *topic("plain", 2), *topic("c_d", 3))
    assert image.topics.by_colliding_key == {"a_b": "a.b", "c_d": "c_d"}
    image = image_of(
        RemoveTopicRecord(topic_id=topic_id(1)),
        *topic("a_b", 4),
        RemoveTopicRecord(topic_id=topic_id(3)),
        base=image,
    )
    assert image.topics.by_colliding_key == {"a_b": "a_b"}


def test_a_topic_that_came_and_went_in_one_delta_was_never_there() -> None:
    delta = delta_of(*topic("orders", 1), RemoveTopicRecord(topic_id=topic_id(1)))
    after = delta.build(offset=9, epoch=1)
    assert after.topics.by_name == {}
    assert delta.deleted_topics == {}
    assert delta.changed_topics == {}


def test_configuration_is_set_and_deleted_key_by_key() -> None:
    def config(name: str, value: str | None) -> ConfigRecord:
        return ConfigRecord(
            resource_type=ResourceType.BROKER, resource_name="", name=name, value=value
        )

    before = image_of(config("a", "1"), config("b", "2"))
    after = image_of(config("a", None), config("c", "3"), base=before)
    assert before.configs.of(ResourceType.BROKER, "") == {"a": "1", "b": "2"}
    assert after.configs.of(ResourceType.BROKER, "") == {"b": "2", "c": "3"}
    assert image_of(config("b", None), config("c", None), base=after).configs.by_resource == {}


def test_a_feature_at_level_zero_is_not_there() -> None:
    levels = {"group.version": 1, "metadata.version": 30}
    image = image_of(
        *(FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items())
    )
    after = image_of(FeatureLevelRecord(name="group.version", feature_level=0), base=image)
    assert dict(image.features) == levels
    assert dict(after.features) == {"metadata.version": 30}


def test_a_broker_registers_is_unfenced_fenced_and_forgotten() -> None:
    image = image_of(broker(1, fenced=True))
    assert image.cluster.unfenced() == []
    image = image_of(
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1), base=image
    )
    assert [found.node_id for found in image.cluster.unfenced()] == [1]
    image = image_of(
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=10, fenced=1, in_controlled_shutdown=1
        ),
        base=image,
    )
    assert image.cluster.brokers[NODE_1].is_fenced
    assert image.cluster.brokers[NODE_1].is_in_controlled_shutdown
    image = image_of(UnregisterBrokerRecord(broker_id=1, broker_epoch=10), base=image)
    assert image.cluster.brokers == {}


def test_a_broker_tells_which_log_directories_it_has_left() -> None:
    left = UUID(int=501)
    image = image_of(
        broker(1), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, log_dirs=[left])
    )
    assert image.cluster.brokers[NODE_1].log_dirs == (left,)
    image = image_of(
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1), base=image
    )
    assert image.cluster.brokers[NODE_1].log_dirs == (left,), "a change that names none leaves them"


def test_older_fencing_records_are_understood() -> None:
    image = image_of(broker(1), FenceBrokerRecord(id=1, epoch=10))
    assert image.cluster.brokers[NODE_1].is_fenced
    assert (
        not image_of(UnfenceBrokerRecord(id=1, epoch=10), base=image)
        .cluster.brokers[NODE_1]
        .is_fenced
    )


def test_a_registration_replaces_the_one_before() -> None:
    image = image_of(broker(1, epoch=10), broker(1, epoch=20, fenced=True))
    assert (image.cluster.brokers[NODE_1].epoch, image.cluster.brokers[NODE_1].is_fenced) == (
        20,
        True,
    )
    assert image.cluster.brokers[NODE_1].log_dirs == (DIRECTORY,)


def test_producer_ids_only_go_forward_with_the_log() -> None:
    assert (
        image_of(
            ProducerIdsRecord(next_producer_id=1000), ProducerIdsRecord(next_producer_id=2000)
        ).next_producer_id
        == 2000
    )


def test_a_controller_registers() -> None:
    assert list(image_of(RegisterControllerRecord(controller_id=3)).cluster.controllers) == [3]


@pytest.mark.parametrize("record", [NoOpRecord(), ZkMigrationStateRecord(zk_migration_state=3)])
def test_a_record_without_a_meaning_here_changes_nothing(record: MetadataRecord) -> None:
    before = image_of(broker(), *topic("orders", 1))
    assert replace(image_of(record, base=before), offset=before.offset) == before


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (PartitionChangeRecord(topic_id=topic_id(9), partition_id=0), "does not exist"),
        (PartitionChangeRecord(topic_id=topic_id(1), partition_id=7), "orders-7"),
        (RemoveTopicRecord(topic_id=topic_id(9)), "does not exist"),
        (partition(9, 0), "does not exist"),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9), "epoch 9"),
        (UnregisterBrokerRecord(broker_id=2, broker_epoch=10), "broker 2"),
        (topic("orders", 2)[0], "created twice"),
        (ClearElrRecord(topic_name="planes"), "topic planes"),
        (
            RemoveAccessControlEntryRecord(id=UUID(int=7)),
            "ACL 00000000-0000-0000-0000-000000000007",
        ),
        (EndTransactionRecord(), "has not begun"),
        (AbortTransactionRecord(), "has not begun"),
    ],
)
def test_a_record_that_contradicts_the_log_is_damage(record: MetadataRecord, named: str) -> None:
    with pytest.raises(MetadataError, match=named):
        delta_of(record, base=image_of(broker(1), *topic("orders", 1)))


def test_the_changes_between_two_images_are_those_of_a_replay() -> None:
    before = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=25),
        FeatureLevelRecord(name="group.version", feature_level=1),
        broker(1),
        broker(2),
        *topic("planes", 2, 2),
        *topic("orders", 1, 3),
        *topic("gone", 3),
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name="gone", name="retention.ms", value="1"
        ),
        *ACCESS,
    )
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=0),
        UnregisterBrokerRecord(broker_id=2, broker_epoch=10),
        RegisterControllerRecord(controller_id=3),
        RemoveTopicRecord(topic_id=topic_id(3)),
        PartitionChangeRecord(topic_id=topic_id(1), partition_id=2, leader=-1),
        *topic("ships", 4),
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name="orders", name="retention.ms", value="1"
        ),
        ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=1000),
        *END_OF_ACCESS,
    ]
    replayed = delta_of(*records, base=before)
    after = replayed.build(offset=99, epoch=1)
    found = MetadataDelta.between(before, after)
    for view in CHANGED:
        assert getattr(found, view) == getattr(replayed, view), view
        assert getattr(found, view), view
        assert not getattr(MetadataDelta.between(after, after), view), view


def test_the_changes_from_nothing_name_topics_in_order() -> None:
    delta = MetadataDelta.between(EMPTY_IMAGE, image_of(*topic("planes", 1), *topic("orders", 2)))
    assert [changed.topic.name for changed in delta.changed_topics.values()] == ["orders", "planes"]


CHANGED = [
    "changed_brokers",
    "changed_controllers",
    "changed_configs",
    "changed_features",
    "changed_topics",
    "deleted_topics",
    "changed_acls",
    "changed_scram_credentials",
    "changed_delegation_tokens",
    "changed_client_quotas",
]
