"""Our snapshot loses nothing of a metadata log of Apache Kafka 4.3.1.

The log has all kinds of records. ``recorded/kafka-4.3.1.metadata`` is the first segment of the log
that ``tests/integration/test_metadata_of_all_kinds.py`` has Kafka write.
"""

from pathlib import Path

import pytest

from log_service.metadata.access import QuotaPart, ScramUser
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.metadata.loader import MetadataLoader
from log_service.metadata.snapshot import snapshot_records
from log_service.protocol.stored.metadata_records import (
    METADATA_RECORD_CLASSES,
    UserScramCredentialRecord,
)
from log_service.raft.batches import MetadataBatch, decode_batches
from log_service.raft.snapshots import encode_snapshot

RECORDED = Path(__file__).parent / "recorded" / "kafka-4.3.1.metadata"
NEVER_WRITTEN_BY_4_3 = {
    "FenceBrokerRecord",
    "UnfenceBrokerRecord",
    "ZkMigrationStateRecord",
    "AbortTransactionRecord",
}


@pytest.fixture(scope="module")
def batches() -> list[MetadataBatch]:
    return list(decode_batches(RECORDED.read_bytes(), RECORDED.name))


@pytest.fixture
def image(batches: list[MetadataBatch]) -> MetadataImage:
    return loaded(batches)


def loaded(batches: list[MetadataBatch]) -> MetadataImage:
    loader = MetadataLoader()
    loader.on_batches(batches)
    return loader.image


def test_every_kind_that_kafka_writes_is_there(batches: list[MetadataBatch]) -> None:
    known = {cls.__name__ for cls in METADATA_RECORD_CLASSES.values()}
    assert {
        type(record).__name__ for batch in batches for record in batch.records
    } == known - NEVER_WRITTEN_BY_4_3


def test_the_image_holds_what_kafka_was_told(
    image: MetadataImage, batches: list[MetadataBatch]
) -> None:
    assert image.features["eligible.leader.replicas.version"] == 1, (
        "it was finalized in a metadata transaction"
    )
    assert image.open_transaction is None
    assert sorted(image.cluster.brokers) == [1, 2], "broker 3 was unregistered"
    assert list(image.cluster.controllers) == [1]
    assert list(image.topics.by_name) == ["moving", "orders"]
    orders, moving = (
        image.topics.by_name["orders"].partitions[0],
        image.topics.by_name["moving"].partitions[0],
    )
    assert (orders.isr, orders.eligible_leader_replicas) == ((), (1,)), "its only replica stopped"
    assert (moving.replicas, moving.adding_replicas) == ((1, 2), (2,))
    assert image.next_producer_id == 1000
    assert image.configs.of(ResourceType.CLIENT_METRICS, "subscription") == {"interval.ms": "60000"}
    assert image.configs.of(ResourceType.GROUP, "group") == {"consumer.session.timeout.ms": "50000"}
    assert image.configs.of(ResourceType.BROKER, "1") == {"log.cleaner.threads": "2"}
    (acl,) = image.access.acls.values()
    assert (acl.principal, acl.resource_name, acl.pattern_type) == ("User:alice", "orders", 4)
    assert list(image.access.scram_credentials) == [
        ScramUser(1, "bob"),
        ScramUser(2, "alice"),
        ScramUser(2, "bob"),
    ]
    written = [
        record
        for batch in batches
        for record in batch.records
        if isinstance(record, UserScramCredentialRecord)
    ]
    salts = {(record.mechanism, record.name): record.salt for record in written}
    assert image.access.scram_credentials[ScramUser(1, "bob")].salt.reveal() == salts[1, "bob"]
    (token,) = image.access.delegation_tokens.values()
    assert (token.owner, token.renewers) == ("User:admin", ("User:carol",))
    assert image.access.client_quotas == {
        (QuotaPart("client-id", "app"), QuotaPart("user", "alice")): {"producer_byte_rate": 2048.0},
        (QuotaPart("ip", "10.0.0.1"),): {"connection_creation_rate": 7.0},
        (QuotaPart("user", is_default=True),): {"request_percentage": 50.5},
    }


def test_our_snapshot_of_it_gives_the_image_back(image: MetadataImage) -> None:
    content = b"".join(
        encode_snapshot(
            snapshot_records(image), epoch=2, timestamp_ms=0, last_contained_timestamp_ms=0
        )
    )
    again = loaded(list(decode_batches(content, "our snapshot")))
    for part in ("cluster", "topics", "configs", "access", "next_producer_id"):
        assert getattr(again, part) == getattr(image, part), part
    assert {**again.features, "kraft.version": 1} == image.features, (
        "the KRaft version is a control record, which comes with the voters"
    )
