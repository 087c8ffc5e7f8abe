"""Metadata of all kinds outlives our snapshots.

Apache Kafka writes it, our snapshot takes the place of its log, and Kafka reads that.

Needs Java and a folder with Apache Kafka's jars in ``TIDELOG_KAFKA_LIBS``; without them the tests
skip and say so. ``MetadataOfAllKinds.java`` writes the metadata and describes what is there.
"""

from pathlib import Path
from uuid import uuid4

import pytest

from log_service.metadata.image import MetadataImage
from log_service.metadata.loader import MetadataLoader
from log_service.metadata.snapshot import snapshot_records
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from log_service.protocol.stored.control_records import VotersRecord
from log_service.raft.batches import MetadataBatch, decode_batches, voters_of
from log_service.raft.log_view import SnapshotId
from log_service.raft.snapshots import encode_snapshot, parse_snapshot_name
from tests.helpers.ports import free_ports
from tests.integration.kafka_node import java, skip_unless_kafka_is_there
from tests.integration.metadata_node import CLUSTER_ID, METADATA, Node, dump
from tests.integration.wire import Wire

WRITER = Path(__file__).with_name("MetadataOfAllKinds.java")
SEGMENT = "00000000000000000000.log"
KINDS_OF_A_SNAPSHOT = [
    "FEATURE_LEVEL_RECORD",
    "REGISTER_BROKER_RECORD",
    "REGISTER_CONTROLLER_RECORD",
    "TOPIC_RECORD",
    "PARTITION_RECORD",
    "CONFIG_RECORD",
    "CLIENT_QUOTA_RECORD",
    "PRODUCER_IDS_RECORD",
    "ACCESS_CONTROL_ENTRY_RECORD",
    "USER_SCRAM_CREDENTIAL_RECORD",
    "DELEGATION_TOKEN_RECORD",
]
FEATURES_OF_KAFKA_ALONE = ("group", "transaction", "share", "streams", "eligible.leader.replicas")

pytestmark = pytest.mark.integration


class SecuredNode(Node):
    """A node whose Kafka has an authorizer, and a listener for users beside the open one."""

    def __init__(self, root: Path) -> None:
        *ports, self.users_port = free_ports(3)
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        super().__init__(
            root,
            ports=ports,
            properties={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:admin",
                "delegation.token.secret.key": "secret of the cluster",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.users.plain.sasl.jaas.config": f'{plain} username="admin" password="secret" user_admin="secret";',
            },
        )
        for name, more in (  # of a property that a file has twice Kafka takes the later one
            ("listeners", f",USERS://127.0.0.1:{self.users_port}"),
            ("listener.security.protocol.map", ",USERS:SASL_PLAINTEXT"),
        ):
            with self.file.open("a") as lines:
                lines.write(f"{name}={self.properties[name]}{more}\n")

    def run(self, mode: str) -> list[str]:
        """Run the Java program against the node and return the lines it printed."""
        users = f"127.0.0.1:{self.users_port}"
        return java(str(WRITER), mode, self.address, users, cwd=self.root).splitlines()

    def register_brokers(self, *node_ids: int) -> None:
        """Register brokers of which no process runs."""
        levels = [
            Feature(name=name, max_supported_version=100)
            for name in ("metadata.version", "kraft.version")
        ]
        levels += [
            Feature(name=f"{name}.version", max_supported_version=100)
            for name in FEATURES_OF_KAFKA_ALONE
        ]
        with Wire(f"127.0.0.1:{self.controller_port}") as wire:
            for node_id in node_ids:
                request = BrokerRegistrationRequest(
                    broker_id=node_id,
                    cluster_id=CLUSTER_ID,
                    incarnation_id=uuid4(),
                    listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=9)],
                    features=levels,
                    rack=f"rack {node_id}",
                    log_dirs=[uuid4()],
                )
                response = wire.ask(request, 4)
                assert response.error_code == 0, response

    def write_and_describe(self) -> list[str]:
        """Let Kafka write metadata of all kinds, and return what it says of them once it has
        started again.
        """
        with self.kafka():
            self.register_brokers(2, 3)
            self.run("write")
        with self.kafka():
            return self.run("describe")

    def replace_log_by_our_snapshot(self) -> MetadataImage:
        """Write all that the log says as a snapshot of ours, and remove the log."""
        batches = list(decode_batches(self.metadata(SEGMENT).read_bytes(), SEGMENT))
        image = image_of(batches)
        named = [
            value for batch in batches for value in batch.control if isinstance(value, VotersRecord)
        ]
        snapshot_id = SnapshotId(batches[-1].last_offset + 1, batches[-1].epoch)
        for path in (self.data / METADATA).iterdir():
            if (
                path.suffix in {".log", ".index", ".timeindex", ".checkpoint", ".snapshot"}
                or path.name == "leader-epoch-checkpoint"
            ):
                path.unlink()
        content = encode_snapshot(
            snapshot_records(image),
            epoch=snapshot_id.epoch,
            timestamp_ms=batches[-1].timestamp_ms,
            last_contained_timestamp_ms=batches[-1].timestamp_ms,
            voters=voters_of(named[-1]),
        )
        self.metadata(snapshot_id.file_name).write_bytes(b"".join(content))
        return image


def image_of(batches: list[MetadataBatch]) -> MetadataImage:
    loader = MetadataLoader()
    loader.on_batches(batches)
    return loader.image


@pytest.fixture
def node(tmp_path: Path) -> SecuredNode:
    skip_unless_kafka_is_there()
    return SecuredNode(tmp_path)


def test_kafka_finds_everything_in_our_snapshot_of_its_log(node: SecuredNode) -> None:
    node.format_by_kafka()
    before = node.write_and_describe()
    kinds = {kind for kind, _ in dump(node.metadata(SEGMENT)) if kind.endswith("_RECORD")}
    assert kinds >= {
        *KINDS_OF_A_SNAPSHOT,
        "BEGIN_TRANSACTION_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "CLEAR_ELR_RECORD",
        "END_TRANSACTION_RECORD",
        "NO_OP_RECORD",
        "PARTITION_CHANGE_RECORD",
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        "REMOVE_DELEGATION_TOKEN_RECORD",
        "REMOVE_TOPIC_RECORD",
        "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
        "UNREGISTER_BROKER_RECORD",
    }
    image = node.replace_log_by_our_snapshot()
    assert image.topics.by_name["orders"].partitions[0].eligible_leader_replicas == (1,)
    (snapshot,) = [
        path for path in (node.data / METADATA).iterdir() if parse_snapshot_name(path.name)
    ]
    found = dump(snapshot)
    assert (
        list(dict.fromkeys(kind for kind, _ in found if kind.endswith("_RECORD")))
        == KINDS_OF_A_SNAPSHOT
    )
    assert found[3][1]["name"] == "metadata.version"
    with node.kafka():
        assert node.run("describe") == before


def test_a_node_of_ours_takes_over_and_gives_everything_back(node: SecuredNode) -> None:
    levels = [
        argument
        for name in FEATURES_OF_KAFKA_ALONE
        for argument in ("--feature", f"{name}.version=0")
    ]
    node.format_by_kafka("--release-version", "4.3", *levels)
    before = node.write_and_describe()
    for _ in range(3):
        with node.tidelog(metadata_log_max_record_bytes_between_snapshots="1") as broker:
            assert broker.stop() == 0
    first_offset = min(int(path.stem) for path in (node.data / METADATA).glob("*.log"))
    assert first_offset > 0, "the log that Kafka wrote is gone"
    with node.kafka():
        assert node.run("describe") == before
