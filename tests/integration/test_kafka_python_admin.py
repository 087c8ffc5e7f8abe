"""kafka-python's admin client."""

from collections.abc import Callable, Iterator
from typing import Any

import kafka
import kafka.admin
import kafka.errors
import pytest
from kafka.structs import OffsetAndMetadata

from tests.integration.confluent import produce, wait_until

MakeTopic = Callable[..., str]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def topic_resource(name: str, **configs: str) -> Any:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return kafka.admin.ConfigResource("TOPIC", name, configs=named or None)


def member_of(bootstrap: str, topic: str, group: str, **more: Any) -> Any:
    """Join a group and wait for partitions. This client forgets a join that a poll had no time to
    wait for: polls are long.
    """
    member = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", **more
    )

    def has_partitions() -> bool:
        member.poll(timeout_ms=5_000)
        return bool(member.assignment())

    wait_until(has_partitions, "the member has partitions")
    return member


def commit_for(admin: Any, group: str, where: Any, offset: int, metadata: str = "") -> None:
    """Commit for a group without members; this client hands out errors and tries nothing again."""

    def is_committed() -> bool:
        answer = admin.alter_group_offsets(group, {where: OffsetAndMetadata(offset, metadata, -1)})
        return answer[where] is kafka.errors.NoError

    wait_until(is_committed, "the offset is committed")


def test_topics_are_created_described_and_deleted(admin: Any, name: str) -> None:
    admin.create_topics([kafka.admin.NewTopic(name, 2, 1, topic_configs={"retention.ms": "60000"})])
    assert name in admin.list_topics()
    (described,) = admin.describe_topics([name])
    assert [partition["leader_id"] for partition in described["partitions"]] == [1, 1]
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([kafka.admin.NewTopic(name, 2, 1)])
    admin.delete_topics([name])
    assert name not in admin.list_topics()


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (kafka.admin.NewTopic("not/a/name", 1, 1), kafka.errors.InvalidTopicError),
        (kafka.admin.NewTopic("wide", 1, 3), kafka.errors.InvalidReplicationFactorError),
        (kafka.admin.NewTopic("empty", 0, 1), kafka.errors.InvalidPartitionsError),
        (
            kafka.admin.NewTopic("odd", 1, 1, topic_configs={"retention.ms": "soon"}),
            kafka.errors.InvalidConfigurationError,
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused(admin: Any, topic: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        admin.create_topics([topic])


def test_partitions_are_added(admin: Any, topic: str) -> None:
    admin.create_partitions({topic: kafka.admin.NewPartitions(3, [[1], [1]])})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        admin.create_partitions({topic: kafka.admin.NewPartitions(2, [[1]])})
    with pytest.raises(kafka.errors.InvalidReplicationAssignmentError):
        # What this client makes of it: no replicas for the new partition.
        admin.create_partitions({topic: 4})


def test_configs_are_described_and_altered(admin: Any, topic: str) -> None:
    admin.alter_configs([topic_resource(topic, retention_ms="123000")])
    modified = admin.describe_configs([topic_resource(topic)])["topic"][topic]
    assert modified["retention.ms"]["value"] == "123000"
    everything = admin.describe_configs(
        [topic_resource(topic)], include_synonyms=True, config_filter="all"
    )["topic"][topic]
    assert len(everything) > 25
    assert everything["retention.ms"]["synonyms"][0] == {
        "name": "retention.ms",
        "value": "123000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    admin.reset_configs([topic_resource(topic, retention_ms="")])

    def is_reset() -> bool:
        return "retention.ms" not in admin.describe_configs([topic_resource(topic)])["topic"][topic]

    wait_until(is_reset, "the config has its default back")


def test_records_are_deleted(bootstrap: str, admin: Any, topic: str) -> None:
    produce(bootstrap, topic, [b"one", b"two", b"three"])
    where = kafka.TopicPartition(topic, 0)
    assert admin.delete_records({where: 2})[where]["low_watermark"] == 2
    with pytest.raises(kafka.errors.KafkaError):
        admin.delete_records({where: 9})


def test_offsets_are_listed(bootstrap: str, admin: Any, topic: str) -> None:
    produce(bootstrap, topic, [b"one", b"two"])
    where = kafka.TopicPartition(topic, 0)
    spec = kafka.admin.OffsetSpec
    found = {
        one: admin.list_partition_offsets({where: one})[where].offset
        for one in (spec.EARLIEST, spec.LATEST)
    }
    assert found == {spec.EARLIEST: 0, spec.LATEST: 2}
    assert admin.list_partition_offsets({where: spec.MAX_TIMESTAMP})[where].timestamp > 0


def test_groups_are_listed_described_and_deleted(
    bootstrap: str, admin: Any, topic: str, name: str
) -> None:
    produce(bootstrap, topic, [b"one"])
    where = kafka.TopicPartition(topic, 0)
    member = member_of(bootstrap, topic, name)
    assert {group["group_id"]: group["group_state"] for group in admin.list_groups()}[
        name
    ] == "Stable"
    described = admin.describe_groups([name])[name]
    assert described["group_state"] == "Stable"
    assert len(described["members"]) == 1
    assert admin.delete_groups([name])[name] == "NonEmptyGroupError"
    member.close(autocommit=True)
    commit_for(admin, name, where, 1, "moved")
    offsets = admin.list_group_offsets(name)[name]
    assert (offsets[where].offset, offsets[where].metadata) == (1, "moved")
    assert name in [group["group_id"] for group in admin.list_groups(states_filter=["Empty"])]
    assert name not in [group["group_id"] for group in admin.list_groups(states_filter=["Stable"])]
    assert admin.delete_groups([name])[name] == "OK"
    assert name not in [group["group_id"] for group in admin.list_groups()]


def test_several_groups_are_asked_for_in_one_request(
    bootstrap: str, admin: Any, topic: str, name: str
) -> None:
    """KIP-709."""
    where = kafka.TopicPartition(topic, 0)
    for number in range(3):
        commit_for(admin, f"{name}-{number}", where, number)
    found = admin.list_group_offsets([f"{name}-{number}" for number in range(3)])
    assert [found[f"{name}-{number}"][where].offset for number in range(3)] == [0, 1, 2]


def test_members_are_removed(bootstrap: str, admin: Any, topic: str, name: str) -> None:
    """KIP-345, KIP-571: an administrator makes members leave."""
    member = member_of(bootstrap, topic, name, group_instance_id="static")
    admin.remove_group_members(name, [kafka.admin.MemberToRemove(group_instance_id="static")])
    assert admin.describe_groups([name])[name]["members"] == []
    member.close(autocommit=False)


def test_the_cluster_is_described(admin: Any) -> None:
    cluster = admin.describe_cluster()
    assert len(cluster["cluster_id"]) == 22
    assert cluster["controller_id"] == 1
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [1]
