"""kafka-python's admin handles a cluster.

It is asked about log directories, the quorum, features, leaders, reassignments, and producers.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import InvalidReplicationAssignmentError
    from kafka.structs import TopicPartition

NODE = 1


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_log_directories_hold_the_replicas(admin: Any, topic: str) -> None:
    [broker] = admin.describe_log_dirs()
    held = [
        (found["name"], each["partition_index"])
        for directory in broker["log_dirs"]
        for found in directory["topics"]
        for each in found["partitions"]
    ]
    assert held.count((topic, 0)) == 1
    assert all(
        directory["error_code"] == 0 and directory["total_bytes"] > 0
        for directory in broker["log_dirs"]
    )


def test_the_quorum_has_a_leader(admin: Any) -> None:
    [partition] = admin.describe_metadata_quorum()["topics"][0]["partitions"]
    assert partition["error"] is None
    assert partition["leader_id"] == NODE
    assert [voter["replica_id"] for voter in partition["current_voters"]] == [NODE]


def test_features_have_their_levels(admin: Any) -> None:
    assert admin.describe_features()["metadata.version"]["finalized"] == (30, 30)


def test_partitions_stay_or_go_only_where_a_broker_is(admin: Any, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    assert admin.alter_partition_reassignments({partition: [NODE]}) == {partition: None}
    assert admin.alter_partition_reassignments({partition: [99]}) == {
        partition: InvalidReplicationAssignmentError
    }
    assert admin.list_partition_reassignments() == {}


def test_producers_are_described(bootstrap: str, admin: Any, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    producer.send(topic, b"one", partition=0).get(20)
    producer.close()
    partition = TopicPartition(topic, 0)
    [found] = admin.describe_producers([partition])[partition].active_producers
    assert found.last_sequence == 0


def test_what_can_be_configured_is_listed(admin: Any, topic: str) -> None:
    listed = admin.list_config_resources()
    assert topic in listed["topic"]
    assert listed["broker"] == [str(NODE)]
