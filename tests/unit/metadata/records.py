"""Records and images for stories about metadata."""

from collections.abc import Sequence
from uuid import UUID

from log_service.common.types import NodeId, TopicId
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, MetadataImage
from log_service.protocol.stored.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

DIRECTORY = UUID(int=500)


NODE_1 = NodeId(1)


def topic_id(number: int) -> TopicId:
    return TopicId(UUID(int=1000 + number))


def broker(node_id: int = 1, *, epoch: int = 10, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        broker_epoch=epoch,
        incarnation_id=UUID(int=epoch),
        end_points=[BrokerEndpoint(name="PLAINTEXT", host=f"host{node_id}", port=9092)],
        features=[
            BrokerFeature(
                name="metadata.version", min_supported_version=30, max_supported_version=30
            )
        ],
        rack=None,
        fenced=fenced,
        log_dirs=[DIRECTORY],
    )


def topic(
    name: str, number: int, partition_count: int = 1, replicas: Sequence[int] = (1,)
) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id(number)),
        *(partition(number, index, replicas) for index in range(partition_count)),
    ]


def partition(number: int, index: int, replicas: Sequence[int] = (1,)) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id(number),
        partition_id=index,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY] * len(replicas),
    )


def acl(number: int = 1) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=number),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )


def credential(user: str = "alice", mechanism: int = 1) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=b"salt of it",
        stored_key=b"stored key",
        server_key=b"server key",
        iterations=8192,
    )


def token(token_id: str = "token 1", expiration: int = 2000) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:bob",
        renewers=["User:carol", "User:dave"],
        issue_timestamp=1000,
        max_timestamp=9000,
        expiration_timestamp=expiration,
        token_id=token_id,
    )


def quota(
    value: float | None, key: str = "producer_byte_rate", **entity: str | None
) -> ClientQuotaRecord:
    """Return the record of a quota.

    ``entity`` has a name for each type, None for the default, and a value of None removes the
    quota.
    """
    parts = [
        EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in entity.items()
    ]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


ACCESS: list[MetadataRecord] = [
    acl(),
    credential(),
    token(),
    quota(1024.0, user="alice", client_id=None),
]
"""One record of each kind that is about access, and what takes them away again."""

END_OF_ACCESS: list[MetadataRecord] = [
    RemoveAccessControlEntryRecord(id=UUID(int=1)),
    RemoveUserScramCredentialRecord(name="alice", mechanism=1),
    RemoveDelegationTokenRecord(token_id="token 1"),
    quota(None, user="alice", client_id=None),
]


def delta_of(*records: MetadataRecord, base: MetadataImage = EMPTY_IMAGE) -> MetadataDelta:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta


def image_of(*records: MetadataRecord, base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    return delta_of(*records, base=base).build(offset=base.offset + len(records), epoch=1)
