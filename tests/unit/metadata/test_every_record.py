"""Every record of Kafka's metadata log has its place: in a delta, in the image, in a snapshot."""

import copy
from typing import Any
from uuid import UUID

import pytest

from log_service.common.errors import StorageError
from log_service.common.secrets import SecretBytes
from log_service.common.types import LeaderEpoch
from log_service.metadata.access import AclEntry, DelegationToken, QuotaPart, ScramUser
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.errors import MetadataError
from log_service.metadata.image import EMPTY_IMAGE, AccessImage, MetadataImage, ResourceType
from log_service.metadata.loader import MetadataLoader
from log_service.metadata.snapshot import snapshot_records
from log_service.protocol.stored.metadata_records import (
    METADATA_RECORD_CLASSES,
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
)
from log_service.protocol.stored.serde import encode_metadata_record
from log_service.raft.batches import MetadataBatch, decode_batches
from log_service.records.builder import build_batch
from log_service.security.sasl.credentials import ScramCredential
from tests.unit.metadata.records import (
    ACCESS,
    END_OF_ACCESS,
    acl,
    broker,
    credential,
    delta_of,
    image_of,
    quota,
    token,
    topic,
    topic_id,
)

CONTROLLER = RegisterControllerRecord(
    controller_id=3,
    incarnation_id=UUID(int=77),
    end_points=[ControllerEndpoint(name="CONTROLLER", host="here", port=9093)],
    features=[
        ControllerFeature(
            name="metadata.version", min_supported_version=7, max_supported_version=30
        )
    ],
)
ELIGIBLE = PartitionChangeRecord(
    topic_id=topic_id(1), partition_id=0, eligible_leader_replicas=[2], last_known_elr=[3]
)


def config(kind: int, name: str, value: str | None = "1") -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name="some.key", value=value)


def again(image: MetadataImage) -> MetadataImage:
    return delta_of(*snapshot_records(image)).build(offset=image.offset, epoch=image.epoch)


def test_every_kind_of_record_does_something_or_is_named_as_doing_nothing() -> None:
    assert set(MetadataDelta.HANDLERS) == set(METADATA_RECORD_CLASSES.values())


@pytest.mark.parametrize(
    "records",
    [
        ACCESS,
        [
            acl(2),
            acl(1),
            credential("bob", 2),
            credential("bob", 1),
            token("b"),
            token("a"),
            quota(1.5, user=None),
            quota(2, ip="::1"),
        ],
        [CONTROLLER, broker(2), broker(1)],
        [*topic("orders", 1, 2, replicas=(1, 2, 3)), ELIGIBLE],
        [
            config(ResourceType.CLIENT_METRICS, "m"),
            config(ResourceType.GROUP, "g"),
            config(ResourceType.BROKER, ""),
        ],
        [
            FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
            ProducerIdsRecord(next_producer_id=1000),
        ],
    ],
)
def test_a_snapshot_gives_the_image_back(records: list[MetadataRecord]) -> None:
    image = image_of(*records)
    assert again(image) == image
    assert image != EMPTY_IMAGE


def test_no_uuids_are_compared_while_acls_come_to_many_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ids of ACLs are random, and a UUID is compared and hashed in Python.

    Most of the cost of a thousand new ACLs was that.
    """
    base = image_of(*(acl(number * 7) for number in range(1, 20_001)))

    def refuse(self: UUID, *_: object) -> Any:
        raise AssertionError(f"{self} is compared or hashed")

    for name in ("__lt__", "__eq__", "__hash__"):
        monkeypatch.setattr(UUID, name, refuse)
    image = image_of(*(acl(number * 7 + 1) for number in range(1, 1_001)), base=base)
    assert len(image.access.acls) == 21_000


def test_what_is_about_access_comes_and_goes() -> None:
    image = image_of(*ACCESS)
    user = ScramUser(1, "alice")
    assert image.access.acls[1] == AclEntry(
        acl_id=UUID(int=1),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    assert image.access.scram_credentials == {
        user: ScramCredential(
            salt=SecretBytes(b"salt of it"),
            stored_key=SecretBytes(b"stored key"),
            server_key=SecretBytes(b"server key"),
            iterations=8192,
        )
    }
    assert image.access.delegation_tokens == {
        "token 1": DelegationToken(
            token_id="token 1",
            owner="User:alice",
            requester="User:bob",
            renewers=("User:carol", "User:dave"),
            issue_timestamp_ms=1000,
            max_timestamp_ms=9000,
            expiration_timestamp_ms=2000,
        )
    }
    assert (
        image_of(token(expiration=3000), base=image)
        .access.delegation_tokens["token 1"]
        .expiration_timestamp_ms
        == 3000
    )
    assert image_of(*END_OF_ACCESS, base=image).access == AccessImage()


def test_a_quota_belongs_to_all_parts_of_its_entity_in_any_order() -> None:
    image = image_of(
        quota(1.0, user="alice", client_id=None),
        quota(2.0, client_id=None, user="alice"),
        quota(3.0, "consumer_byte_rate", user="alice", client_id=None),
        quota(4.0, user=None),
        quota(5.0, user=""),
    )
    alice = (QuotaPart("client-id", is_default=True), QuotaPart("user", "alice"))
    assert image.access.client_quotas == {
        alice: {"consumer_byte_rate": 3.0, "producer_byte_rate": 2.0},
        (QuotaPart("user", is_default=True),): {"producer_byte_rate": 4.0},
        (QuotaPart("user", ""),): {"producer_byte_rate": 5.0},
    }
    after = image_of(quota(None, client_id=None, user="alice"), base=image)
    assert after.access.client_quotas[alice] == {"consumer_byte_rate": 3.0}


def test_no_secret_is_shown() -> None:
    for shown in (
        repr(image_of(*ACCESS).access),
        str(SecretBytes(b"stored key")),
        repr(credential()),
    ):
        assert "stored key" not in shown
        assert "server key" not in shown
        assert "salt of it" not in shown
    assert SecretBytes(b"a") == SecretBytes(b"a") != SecretBytes(b"b")
    assert copy.deepcopy(SecretBytes(b"a")).reveal() == b"a"


def test_eligible_leaders_are_forgotten_in_one_topic_or_in_all() -> None:
    planes = [
        PartitionChangeRecord(
            topic_id=topic_id(2), partition_id=1, eligible_leader_replicas=[2], last_known_elr=[]
        ),
        PartitionChangeRecord(
            topic_id=topic_id(2), partition_id=2, eligible_leader_replicas=[], last_known_elr=[2]
        ),
    ]
    before = image_of(*topic("orders", 1), *topic("planes", 2, 3), ELIGIBLE, *planes)
    orders = before.topics.by_name["orders"].partitions[0]
    assert (orders.eligible_leader_replicas, orders.last_known_elr) == ((2,), (3,))
    delta = delta_of(ClearElrRecord(topic_name="orders"), base=before)
    after = delta.build(offset=9, epoch=1)
    cleared = after.topics.by_name["orders"].partitions[0]
    assert (cleared.eligible_leader_replicas, cleared.last_known_elr) == ((), ())
    assert (cleared.partition_epoch, cleared.leader_epoch) == (
        orders.partition_epoch + 1,
        orders.leader_epoch,
    )
    assert list(delta.changed_topics) == [topic_id(1)]
    everywhere = delta_of(ClearElrRecord(), *topic("new", 3), base=before)
    everywhere.build(offset=9, epoch=1)
    changed = {
        topic_id: sorted(changed.changed_partitions)
        for topic_id, changed in everywhere.changed_topics.items()
    }
    assert changed == {topic_id(1): [0], topic_id(2): [1, 2], topic_id(3): [0]}
    assert (
        delta_of(ClearElrRecord(), base=after).build(offset=10, epoch=1).topics.by_name["orders"]
        is after.topics.by_name["orders"]
    )


def test_a_metadata_transaction_is_whole_or_nothing_wherever_the_log_is_cut() -> None:
    records = [BeginTransactionRecord(name="bulk"), *topic("orders", 1), *ACCESS]
    ended, aborted = EndTransactionRecord(), AbortTransactionRecord(reason="failed")
    for cut in range(len(records) + 1):
        image = image_of(*records[cut:], base=image_of(*records[:cut]))
        assert image.topics.by_name == {}
        assert image.access == AccessImage()
        assert image.open_transaction is not None
        assert (image.open_transaction.name, len(image.open_transaction.records)) == (
            "bulk",
            len(records) - 1,
        )
        whole = image_of(ended, base=image)
        assert (whole.topics, whole.access, whole.open_transaction) == (
            image_of(*records[1:]).topics,
            image_of(*ACCESS).access,
            None,
        )
        nothing = image_of(aborted, *topic("planes", 2), base=image)
        assert list(nothing.topics.by_name) == ["planes"]
        assert nothing.access == AccessImage()


def test_a_snapshot_is_never_made_inside_a_metadata_transaction() -> None:
    with pytest.raises(AssertionError, match="would lose"):
        snapshot_records(image_of(BeginTransactionRecord()))


def test_a_snapshot_has_kafkas_order() -> None:
    levels = [
        FeatureLevelRecord(name=name, feature_level=1)
        for name in ("group.version", "metadata.version", "kraft.version")
    ]
    image = image_of(
        *ACCESS,
        ProducerIdsRecord(next_producer_id=1000),
        config(2, "orders"),
        *topic("orders", 1),
        CONTROLLER,
        broker(),
        *levels,
    )
    records = list(snapshot_records(image))
    assert [type(record).__name__ for record in records] == [
        "FeatureLevelRecord",
        "FeatureLevelRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "TopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
        "DelegationTokenRecord",
    ]
    assert isinstance(records[0], FeatureLevelRecord)
    assert records[0].name == "metadata.version"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x01\x1d\x00\x00", "metadata record 29 is not known"),
        (b"\x01\x03\x09\x00", r"PartitionRecord v9 is not spoken here; versions are 0-2"),
        (b"\x02\x03\x02\x00", "frame version 2 is not 1"),
        (b"", "0 bytes end inside"),
    ],
)
def test_a_record_of_an_unknown_kind_or_version_stops_the_start(value: bytes, text: str) -> None:
    known = encode_metadata_record(NoOpRecord(), 0)
    content = build_batch([(0, None, known), (0, None, known), (0, None, value)], base_offset=40)
    with pytest.raises(
        StorageError,
        match=f"the log: offset 42: .*{text}.*; restore it, or start it with the version that wrote it",
    ):
        list(decode_batches(content, "the log"))


def test_records_that_contradict_each_other_are_named_with_their_offset() -> None:
    batch = MetadataBatch(
        base_offset=40,
        last_offset=41,
        epoch=LeaderEpoch(1),
        timestamp_ms=0,
        size_bytes=100,
        records=(NoOpRecord(), ClearElrRecord(topic_name="orders")),
    )
    with pytest.raises(
        MetadataError,
        match=r"metadata log, offset 41, ClearElrRecord: .*topic orders.*; restore the directory",
    ):
        MetadataLoader().on_batches([batch])
