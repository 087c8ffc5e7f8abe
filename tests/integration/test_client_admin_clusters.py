"""Our admin handles clusters of tidelog and of Apache Kafka.

It is asked about log directories, leaders, the quorum, and features.
"""

import itertools
import time
from collections.abc import Iterator
from uuid import UUID

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ElectionType,
    ErrorCode,
    FeatureUpdate,
    ItemsFailed,
    KafkaError,
    NewTopic,
    OffsetSpec,
    QuotaEntity,
    RaftVoter,
    ResourceType,
    TopicPartition,
    TopicPartitionReplica,
    UpgradeType,
)
from tests.integration.client_clusters import CLUSTERS, cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PROPERTIES = {"log.dirs": "{directory}/first,{directory}/second"}
METADATA_VERSION = "metadata.version"
NODE = 1

names = itertools.count()


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with cluster(request.param, tmp_path_factory.mktemp("cluster"), PROPERTIES) as servers:
        yield servers


@pytest.fixture
def admin(bootstrap: str) -> Iterator[BlockingAdmin]:
    with BlockingAdmin(bootstrap) as opened:
        yield opened


@pytest.fixture
def topic(admin: BlockingAdmin) -> str:
    """A new topic with two partitions."""
    name = f"topic-{next(names)}"
    admin.create_topics([NewTopic(name=name, partition_count=2)])
    return name


def fill(bootstrap: str, topic: str, count: int = 20) -> None:
    with BlockingProducer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"value %d" % number, partition=0)
        producer.flush()


def place_of(admin: BlockingAdmin, partition: TopicPartition) -> list[str]:
    """The directories in which a replica is, its copy among them."""
    return [
        path
        for path, found in admin.describe_log_dirs()[NODE].items()
        if partition in found.replicas
    ]


def test_log_directories_tell_their_replicas_and_room(
    admin: BlockingAdmin, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic)
    described = admin.describe_log_dirs([NODE])[NODE]
    assert len(described) == 2
    assert all(
        found.error == ErrorCode.NONE and 0 < found.usable_bytes <= found.total_bytes
        for found in described.values()
    )
    replicas = {
        partition: found
        for each in described.values()
        for partition, found in each.replicas.items()
        if partition.topic == topic
    }
    assert sorted(replicas) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert (
        replicas[TopicPartition(topic, 0)].size_bytes
        > replicas[TopicPartition(topic, 1)].size_bytes
        == 0
    )
    assert not any(found.is_future or found.offset_lag for found in replicas.values())


def test_a_replica_moves_to_another_directory_with_all_its_records(
    admin: BlockingAdmin, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic)
    partition = TopicPartition(topic, 0)
    [present] = place_of(admin, partition)
    [other] = set(admin.describe_log_dirs()[NODE]) - {present}
    admin.alter_replica_log_dirs({TopicPartitionReplica(topic, 0, NODE): other})
    deadline = time.monotonic() + 20
    while place_of(admin, partition) != [other]:
        assert time.monotonic() < deadline, "the replica never arrived"
        time.sleep(0.05)
    fill(bootstrap, topic)
    assert admin.list_offsets({partition: OffsetSpec.latest()})[partition].offset == 40
    assert sum(len(batch.batches) for batch in admin.read_range(partition, 0, 40)) > 0


def test_a_directory_that_is_not_there_is_refused(admin: BlockingAdmin, topic: str) -> None:
    replica = TopicPartitionReplica(topic, 0, NODE)
    with pytest.raises(ItemsFailed) as caught:
        admin.alter_replica_log_dirs({replica: "/no/such/directory"})
    assert caught.value.errors[replica].code == ErrorCode.LOG_DIR_NOT_FOUND


def test_a_leader_that_is_right_needs_no_election(admin: BlockingAdmin, topic: str) -> None:
    partition, missing = TopicPartition(topic, 0), TopicPartition(topic, 7)
    with pytest.raises(ItemsFailed) as caught:
        admin.elect_leaders([partition, missing])
    errors = {item: error.code for item, error in caught.value.errors.items()}
    assert errors == {
        partition: ErrorCode.ELECTION_NOT_NEEDED,
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert admin.elect_leaders() == set()
    assert admin.elect_leaders(None, ElectionType.UNCLEAN) == set()


def test_reassignments_go_only_to_brokers_that_are_there(admin: BlockingAdmin, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    admin.alter_partition_reassignments({partition: [NODE]})
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments([partition]) == {}
    for target, code in {
        (99,): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        (): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }.items():
        with pytest.raises(ItemsFailed) as caught:
            admin.alter_partition_reassignments({partition: target})
        assert caught.value.errors[partition].code == code
    with pytest.raises(ItemsFailed) as caught:
        admin.alter_partition_reassignments({partition: None}, is_factor_kept=True)
    assert caught.value.errors[partition].code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_producers_of_a_partition_are_told(
    admin: BlockingAdmin, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, 5)
    written, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    described = admin.describe_producers([written, empty])
    assert described[empty] == ()
    [producer] = described[written]
    assert producer.producer_id >= 0
    assert producer.producer_epoch == 0
    assert producer.last_sequence == 4
    assert producer.last_timestamp_ms > 0
    assert producer.transaction_start_offset == -1
    with pytest.raises(ItemsFailed) as caught:
        admin.describe_producers([TopicPartition(topic, 9)])
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_quorum_has_one_voter_which_leads(admin: BlockingAdmin) -> None:
    found = admin.describe_metadata_quorum()
    assert found.leader_id == NODE
    assert found.leader_epoch >= 1
    [voter] = found.voters
    assert voter.node_id == NODE
    assert voter.directory_id.int
    assert voter.log_end_offset >= found.high_watermark > 0
    assert found.observers == ()
    assert list(found.endpoints) == [NODE]


def test_features_are_told_and_keep_their_levels(admin: BlockingAdmin) -> None:
    found = admin.describe_features()
    assert found.supported == admin.describe_features(NODE).supported
    assert found.finalized[METADATA_VERSION] == found.supported[METADATA_VERSION][1] == 30
    assert found.finalized["kraft.version"] == 1
    assert found.finalized_epoch > 0
    admin.update_features({METADATA_VERSION: FeatureUpdate(level=30)})
    for name, level in (
        (METADATA_VERSION, 31),
        (METADATA_VERSION, 0),
        ("no.such.feature", 1),
        ("kraft.version", 0),
    ):
        with pytest.raises(KafkaError) as caught:
            admin.update_features(
                {name: FeatureUpdate(level=level, upgrade_type=UpgradeType.SAFE_DOWNGRADE)},
                is_validated_only=True,
            )
        assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION, name


def test_voters_that_are_not_there_are_not_added_or_removed(admin: BlockingAdmin) -> None:
    [voter] = admin.describe_metadata_quorum().voters
    [listener] = admin.describe_metadata_quorum().endpoints[NODE]
    with pytest.raises(KafkaError) as caught:
        admin.add_raft_voter(
            RaftVoter(
                node_id=NODE, directory_id=UUID(int=7), endpoints={listener: ("127.0.0.1", 1)}
            )
        )
    assert caught.value.code == ErrorCode.DUPLICATE_VOTER
    with pytest.raises(KafkaError) as caught:
        admin.add_raft_voter(
            RaftVoter(node_id=2, directory_id=UUID(int=7), endpoints={listener: ("127.0.0.1", 1)}),
            timeout_ms=1_000,
        )
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    for node_id, directory_id in ((NODE, voter.directory_id), (2, voter.directory_id)):
        with pytest.raises(KafkaError) as caught:
            admin.remove_raft_voter(node_id, directory_id)
        assert caught.value.code == ErrorCode.VOTER_NOT_FOUND


def test_brokers_that_are_not_registered_cannot_be_unregistered(admin: BlockingAdmin) -> None:
    with pytest.raises(KafkaError) as caught:
        admin.unregister_broker(99)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_what_can_be_configured_is_listed(admin: BlockingAdmin, topic: str) -> None:
    listed = admin.list_config_resources()
    assert ConfigResource.topic(topic) in listed
    assert ConfigResource.broker(NODE) in listed
    assert {each.resource_type for each in admin.list_config_resources([ResourceType.BROKER])} == {
        ResourceType.BROKER
    }


def test_quotas_are_set_shown_and_removed(admin: BlockingAdmin) -> None:
    def until(expected: dict[QuotaEntity, dict[str, float]]) -> None:
        deadline = time.monotonic() + 20
        while admin.describe_client_quotas() != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        assert admin.describe_client_quotas() == expected

    alice, anybody, both = (
        QuotaEntity(user="alice"),
        QuotaEntity(user=""),
        QuotaEntity(user="alice", client_id=""),
    )
    changes = {
        alice: {"producer_byte_rate": 1e9},
        anybody: {"request_percentage": 1000.5},
        both: {"consumer_byte_rate": 2e9},
    }
    admin.alter_client_quotas(changes, is_validated_only=True)
    until({})
    admin.alter_client_quotas(changes)
    until(changes)
    assert admin.describe_client_quotas({"user": "alice"}) == {
        alice: changes[alice],
        both: changes[both],
    }
    assert admin.describe_client_quotas({"user": "alice"}, is_strict=True) == {
        alice: changes[alice]
    }
    assert admin.describe_client_quotas({"user": "", "client-id": None}) == {}
    admin.alter_client_quotas({entity: dict.fromkeys(values) for entity, values in changes.items()})
    until({})
    with pytest.raises(ItemsFailed) as caught:
        admin.alter_client_quotas(
            {alice: {"producer_byte_rate": -1}, anybody: {"request_percentage": None}}
        )
    assert {str(entity): error.code for entity, error in caught.value.errors.items()} == {
        "user alice": ErrorCode.INVALID_REQUEST
    }


def test_lists_grow_and_shrink_by_their_items(admin: BlockingAdmin, topic: str) -> None:
    resource, key = ConfigResource.topic(topic), "cleanup.policy"

    def change(operation: ConfigOperation, value: str | None) -> str | None:
        admin.alter_configs({resource: {key: ConfigChange(operation=operation, value=value)}})
        deadline = time.monotonic() + 10
        found = admin.describe_configs([resource])[resource][key].value
        while found in seen and time.monotonic() < deadline:
            time.sleep(0.05)
            found = admin.describe_configs([resource])[resource][key].value
        seen[:] = [found]
        return found

    seen = [admin.describe_configs([resource])[resource][key].value]
    assert seen == ["delete"]
    assert change(ConfigOperation.APPEND, "compact") == "delete,compact"
    assert change(ConfigOperation.SUBTRACT, "delete") == "compact"
    assert change(ConfigOperation.DELETE, None) == "delete"


def test_every_offset_that_can_be_asked_for(
    admin: BlockingAdmin, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic, 10)
    partition = TopicPartition(topic, 0)
    assert 0 <= admin.list_offsets({partition: OffsetSpec.max_timestamp()})[partition].offset < 10
    assert admin.delete_records({partition: 3}) == {partition: 3}
    specs = {
        OffsetSpec.earliest(): 3,
        OffsetSpec.latest(): 10,
        OffsetSpec.earliest_local(): 3,
        OffsetSpec.latest_tiered(): -1,
        OffsetSpec.at(0): 3,
        OffsetSpec.at(2**50): -1,
    }
    for spec, offset in specs.items():
        assert admin.list_offsets({partition: spec})[partition].offset == offset, spec


def test_offsets_are_deleted_but_not_below_readers(
    admin: BlockingAdmin, bootstrap: str, topic: str
) -> None:
    group, kept, gone = f"readers-of-{topic}", TopicPartition(topic, 0), TopicPartition(topic, 1)
    with pytest.raises(KafkaError) as refused:
        admin.delete_group_offsets(group, [gone])
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    admin.alter_group_offsets(group, {kept: 1, gone: 2})
    admin.delete_group_offsets(group, [gone])
    assert set(admin.list_group_offsets(group)) == {kept}
    with BlockingConsumer(bootstrap, group_id=group) as reader:
        reader.subscribe([topic])
        while not reader.assignment:
            reader.poll(timeout_ms=100)
        with pytest.raises(ItemsFailed) as caught:
            admin.delete_group_offsets(group, [kept])
    assert caught.value.errors[kept].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
