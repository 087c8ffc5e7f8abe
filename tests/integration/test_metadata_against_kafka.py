"""The metadata log of a node fits Apache Kafka's.

It is formatted alike, read by its tools, and led by its controller and back by ours.

Needs Java and a folder with Apache Kafka's jars in ``TIDELOG_KAFKA_LIBS``; without them the tests
skip and say so.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.helpers.broker_process import DEFAULTS
from tests.integration.metadata_node import CLUSTER_ID, Node, dump

LIBS = os.environ.get("TIDELOG_KAFKA_LIBS", "")
JAVA = shutil.which("java") or ""
FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
TOPIC, BROKER = ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER
DEFAULTS_OF_OUR_OWN = {
    "log.dir",
    "max.connections",
    "max.connections.per.ip",
    "num.io.threads",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}
"""Each says why in its documentation."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not LIBS or not JAVA,
        reason="set TIDELOG_KAFKA_LIBS to a folder with Apache Kafka's jars, and have java on the PATH",
    ),
]


def leaders(admin: AdminClient, topic: str) -> dict[int, int]:
    return {
        index: partition.leader
        for index, partition in admin.list_topics(timeout=10).topics[topic].partitions.items()
    }


def topic_id(admin: AdminClient, topic: str) -> str:
    return str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id)


def configs_of(admin: AdminClient, kind: Any, name: str) -> dict[str, tuple[str | None, bool]]:
    """Return (value, is_read_only) of every configuration of a resource."""
    resource = ConfigResource(kind, name)
    rows = admin.describe_configs([resource])[resource].result(30)
    return {key: (row.value, row.is_read_only) for key, row in rows.items()}


def administer(admin: AdminClient) -> None:
    """Leave every kind of record that the controller writes for topics."""
    for topic in ("orders", "planes", "gone"):
        admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "86400000"})])[
            topic
        ].result(30)
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(30)
    admin.delete_topics(["gone"])["gone"].result(30)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    )
    resource.add_incremental_config(
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    )
    admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A node that tidelog formatted, administered and stopped in order."""
    node = Node(tmp_path_factory.mktemp("used"))
    with node.tidelog() as broker:
        administer(AdminClient({"bootstrap.servers": broker.bootstrap}))
        assert broker.stop() == 0
    return node


def test_a_fresh_directory_is_formatted_as_kafka_storage_does(tmp_path: Path) -> None:
    theirs, ours = Node(tmp_path / "theirs"), Node(tmp_path / "ours")
    theirs.format_by_kafka()
    with ours.tidelog() as broker:
        broker.kill()
    expected, found = dump(theirs.metadata(FIRST_SNAPSHOT)), dump(ours.metadata(FIRST_SNAPSHOT))
    assert (
        [kind for kind, _ in found]
        == [kind for kind, _ in expected]
        == ["SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"]
    )
    (their_voter,), (our_voter,) = expected[2][1]["voters"], found[2][1]["voters"]
    assert our_voter["endpoints"] == [
        {"name": "CONTROLLER", "host": "127.0.0.1", "port": ours.controller_port}
    ]
    unlike = {"voterDirectoryId", "endpoints"}
    assert {key: value for key, value in our_voter.items() if key not in unlike} == {
        key: value for key, value in their_voter.items() if key not in unlike
    }
    assert found[1] == expected[1]
    their_first, our_first = (
        dump(theirs.data / "bootstrap.checkpoint"),
        dump(ours.data / "bootstrap.checkpoint"),
    )
    assert our_first[0] == their_first[0]
    assert (
        our_first[1]
        == their_first[1]
        == ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 30})
    )
    assert our_first[-1] == their_first[-1]
    assert (
        set(keys_of(ours))
        == set(keys_of(theirs))
        == {"version", "cluster.id", "node.id", "directory.id"}
    )
    assert keys_of(ours)["cluster.id"] == keys_of(theirs)["cluster.id"] == CLUSTER_ID
    assert our_voter["voterDirectoryId"] == keys_of(ours)["directory.id"]


def keys_of(node: Node) -> dict[str, str]:
    lines = (node.data / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_kafkas_tool_decodes_every_metadata_record(used: Node) -> None:
    records = dump(used.metadata("00000000000000000000.log"))
    kinds = [kind for kind, _ in records]
    assert kinds[:12] == [
        "LeaderChange",
        "KRaftVersion",
        "KRaftVoters",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "FEATURE_LEVEL_RECORD",
        "CONFIG_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
    ]
    registration = records[10][1]
    assert (registration["brokerEpoch"], registration["fenced"]) == (10, True)
    assert registration["logDirs"] == [keys_of(used)["directory.id"]]
    assert {
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "REMOVE_TOPIC_RECORD",
        "PARTITION_CHANGE_RECORD",
    } <= set(kinds)
    partitions = [fields for kind, fields in records if kind == "PARTITION_RECORD"]
    assert all(
        fields["directories"] == [keys_of(used)["directory.id"]] and fields["leaderEpoch"] == 0
        for fields in partitions
    )
    configs = [
        fields
        for kind, fields in records
        if kind == "CONFIG_RECORD" and fields["name"] == "cleanup.policy"
    ]
    assert [fields["value"] for fields in configs] == ["delete,compact"]


def test_kafkas_controller_leads_our_log_and_we_lead_it_again(used: Node, tmp_path: Path) -> None:
    node = Node(tmp_path)
    shutil.copytree(used.data, node.data)
    with node.kafka() as admin:
        assert leaders(admin, "orders") == {0: 1, 1: 1, 2: 1}
        assert leaders(admin, "planes") == {0: 1, 1: 1}
        known_id = topic_id(admin, "orders")
        their_topic, their_broker = (
            configs_of(admin, TOPIC, "orders"),
            configs_of(admin, BROKER, "1"),
        )
        assert their_topic["cleanup.policy"] == ("delete,compact", False)
        admin.create_topics([NewTopic("theirs", 4, 1)])["theirs"].result(30)
        admin.delete_topics(["planes"])["planes"].result(30)
    with node.tidelog() as broker:
        ours = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert leaders(ours, "theirs") == {0: 1, 1: 1, 2: 1, 3: 1}
        assert leaders(ours, "orders") == {0: 1, 1: 1, 2: 1}
        assert "planes" not in ours.list_topics(timeout=10).topics
        assert topic_id(ours, "orders") == known_id
        our_topic, our_broker = configs_of(ours, TOPIC, "orders"), configs_of(ours, BROKER, "1")
    assert our_topic == their_topic
    known = {name: row for name, row in our_broker.items() if name in their_broker}
    assert our_broker.keys() - their_broker.keys() == {"cluster.id"}
    assert known.keys() == their_broker.keys()
    unlike = {name for name, (value, _) in known.items() if value != their_broker[name][0]}
    assert unlike - DEFAULTS.keys() == DEFAULTS_OF_OUR_OWN
    may_change = {name for name, (_, is_read_only) in known.items() if not is_read_only}
    assert may_change == {
        name for name, (_, is_read_only) in their_broker.items() if not is_read_only
    }


def test_a_directory_that_kafka_formatted_is_taken_over(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.format_by_kafka()
    with node.tidelog() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
    records = dump(node.metadata("00000000000000000000.log"))
    levels = [fields for kind, fields in records if kind == "FEATURE_LEVEL_RECORD"]
    assert {level["name"]: level["featureLevel"] for level in levels} == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
