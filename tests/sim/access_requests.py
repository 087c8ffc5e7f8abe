"""Requests with which users of a simulated cluster try their rights.

Each says which rights it needs, and how its response is read.

Each function returns a ``Try``: the request, its version, and what is to be judged. Nothing is sent
here. The needs are those of Apache Kafka 4.3 (KIP-11, KIP-430).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode
from log_service.common.types import NO_TOPIC_ID
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from log_service.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from log_service.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.protocol.schema import Message
from log_service.records.builder import build_batch
from tests.sim.access_history import Bits, Part, Shown
from tests.sim.access_model import ALLOW, CLUSTER_NAME, LITERAL, Need, Step

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    AclResource.TOPIC,
    AclResource.GROUP,
    AclResource.CLUSTER,
    AclResource.TRANSACTIONAL_ID,
)
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER, NO_TRANSACTION = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
READ, WRITE, CREATE, ALTER, DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
)
_CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
ON_TOPICS = (READ, WRITE, CREATE, AclOperation.DELETE, ALTER, DESCRIBE, *_CONFIGS)
ON_GROUPS = (READ, AclOperation.DELETE, DESCRIBE, *_CONFIGS)
ON_CLUSTER = (
    CREATE,
    ALTER,
    DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
    *_CONFIGS,
)
NOT_ASKED_FOR = -(2**31)

PRODUCE_BY_NAME, PRODUCE_BY_ID, FETCH, COMMIT, METADATA, DESCRIBE_GROUPS, LIST_GROUPS = (
    12,
    13,
    17,
    8,
    10,
    5,
    4,
)
CREATE_TOPICS, CREATE_ACLS, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN, CREATE_TOKEN = (
    7,
    3,
    4,
    3,
    3,
    3,
)
FETCHED_BYTES = 2_000
TRANSACTION_TIMEOUT_MS = 5_000

Read = Callable[["Try", Any], None]
"""Takes from a response what it says of a try."""


@dataclass(slots=True, kw_only=True)
class Try:
    """A request with what is judged of its response. ``is_passed_on``: the active controller
    decides, not the node that is asked.
    """

    api: str
    request: Message
    version: int
    read: Read
    is_passed_on: bool = False
    parts: list[Part] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    bits: list[Bits] = field(default_factory=list)

    def tell(self, codes: Sequence[int]) -> None:
        """Note the code of each part."""
        for part, code in zip(self.parts, codes, strict=True):
            part.told = ErrorCode.of(code)


def _step(operation: AclOperation, resource: AclResource, name: str, refusal: ErrorCode) -> Step:
    return Step((Need(operation, resource, name),), refusal)


def on_topic(operation: AclOperation, name: str) -> Step:
    """Return the step that an operation on a topic takes."""
    return _step(operation, TOPIC, name, NO_TOPIC)


def in_group(operation: AclOperation, name: str) -> Step:
    """Return the step that an operation on a group takes."""
    return _step(operation, GROUP, name, NO_GROUP)


def in_transaction(name: str) -> Step:
    """Return the step that a write in a transaction takes."""
    return _step(WRITE, TRANSACTIONAL_ID, name, NO_TRANSACTION)


def create_token(lifetime_ms: int) -> Try:
    """A token of one's own, which takes no right."""
    return Try(
        api="CreateDelegationToken",
        request=CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=lifetime_ms
        ),
        version=CREATE_TOKEN,
        read=lambda told, response: None,
        is_passed_on=True,
    )


# Records


def produce(topic: str, topic_id: UUID, value: str, timestamp_ms: int, *, is_by_id: bool) -> Try:
    """One record, in a request that is the same each time but for its records."""
    batch = build_batch([(timestamp_ms, None, value.encode())])
    named = {"topic_id": topic_id} if is_by_id else {"name": topic, "topic_id": NO_TOPIC_ID}
    wanted = TopicProduceData(
        partition_data=[PartitionProduceData(index=0, records=batch)], **named
    )
    return Try(
        api="Produce",
        request=ProduceRequest(acks=1, timeout_ms=5_000, topic_data=[wanted]),
        version=PRODUCE_BY_ID if is_by_id else PRODUCE_BY_NAME,
        parts=[Part(what=f"to {topic}", steps=(on_topic(WRITE, topic),), mark=value)],
        read=lambda told, response: told.tell(
            [response.responses[0].partition_responses[0].error_code]
        ),
    )


def fetch(topics: Sequence[tuple[str, UUID]], session_id: int, session_epoch: int) -> Try:
    """Return a fetch of a session, of all topics at first and of the remaining ones later.

    A topic of which nothing is told is not judged.
    """
    names = {topic_id: name for name, topic_id in topics}
    wanted = [
        FetchTopic(
            topic_id=topic_id, partitions=[FetchPartition(partition_max_bytes=FETCHED_BYTES)]
        )
        for topic_id in names
    ]

    def read(told: Try, response: Any) -> None:
        for topic in response.responses:
            name = names[topic.topic_id]
            for partition in topic.partitions:
                told.parts.append(
                    Part(
                        what=f"from {name}",
                        steps=(on_topic(READ, name),),
                        told=ErrorCode.of(partition.error_code),
                    )
                )

    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=len(wanted) * FETCHED_BYTES,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=wanted if session_epoch <= 0 else [],
    )
    return Try(api="Fetch", request=request, version=FETCH, read=read)


# Groups


def commit(group: str, topics: Sequence[str], mark: str) -> Try:
    """Positions without a member."""
    wanted = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[OffsetCommitRequestPartition(committed_metadata=f"{mark} {name}")],
        )
        for name in topics
    ]

    def read(told: Try, response: Any) -> None:
        codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
        told.tell([codes[name] for name in topics])

    return Try(
        api="OffsetCommit",
        request=OffsetCommitRequest(group_id=group, topics=wanted),
        version=COMMIT,
        parts=[
            Part(
                what=f"{group} in {name}",
                steps=(in_group(READ, group), on_topic(READ, name)),
                mark=f"{mark} {name}",
            )
            for name in topics
        ],
        read=read,
    )


def describe_groups(groups: Sequence[str]) -> Try:
    """Groups, with what may be done to them."""

    def read(told: Try, response: Any) -> None:
        found = {group.group_id: group for group in response.groups}
        told.tell([found[name].error_code for name in groups])
        told.bits += [
            Bits(
                resource=GROUP,
                name=name,
                operations=ON_GROUPS,
                told=found[name].authorized_operations,
            )
            for name in groups
            if not found[name].error_code
        ]

    return Try(
        api="DescribeGroups",
        request=DescribeGroupsRequest(groups=list(groups), include_authorized_operations=True),
        version=DESCRIBE_GROUPS,
        parts=[Part(what=name, steps=(in_group(DESCRIBE, name),)) for name in groups],
        read=read,
    )


def list_groups() -> Try:
    """All groups that are known where it is asked."""

    def read(told: Try, response: Any) -> None:
        told.shown.append(
            Shown(
                resource=GROUP,
                names=[group.group_id for group in response.groups],
                or_on_cluster=True,
            )
        )

    return Try(api="ListGroups", request=ListGroupsRequest(), version=LIST_GROUPS, read=read)


# What there is


def metadata(known: Sequence[str], wanted: Sequence[str] | None) -> Try:
    """All topics, or those of some names. ``known`` exist all the time."""

    def read(told: Try, response: Any) -> None:
        if not response.brokers:
            return  # the node does not know the ACLs yet, and shows nothing at all
        found = {topic.name: topic for topic in response.topics}
        if wanted is None:
            told.shown.append(Shown(resource=TOPIC, names=sorted(found), known=known))
        else:
            told.tell([found[name].error_code for name in wanted])
        told.bits += [
            Bits(
                resource=TOPIC,
                name=name,
                operations=ON_TOPICS,
                told=topic.topic_authorized_operations,
            )
            for name, topic in sorted(found.items())
            if name in known and not topic.error_code
        ]
        told.bits.append(
            Bits(
                resource=CLUSTER,
                name=CLUSTER_NAME,
                operations=ON_CLUSTER,
                told=response.cluster_authorized_operations,
                is_hidden_without_describe=True,
            )
        )

    return Try(
        api="Metadata",
        request=MetadataRequest(
            topics=None if wanted is None else [MetadataRequestTopic(name=name) for name in wanted],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        version=METADATA,
        parts=[Part(what=name, steps=(on_topic(DESCRIBE, name),)) for name in wanted or ()],
        read=read,
    )


# What the controller decides


def create_topic(name: str) -> Try:
    """One topic. It takes a right on it, or on the cluster."""
    needs = (Need(CREATE, CLUSTER, CLUSTER_NAME), Need(CREATE, TOPIC, name))
    return Try(
        api="CreateTopics",
        request=CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)],
            timeout_ms=4_000,
        ),
        version=CREATE_TOPICS,
        parts=[Part(what=name, steps=(Step(needs, NO_TOPIC),), mark=name)],
        read=lambda told, response: told.tell([response.topics[0].error_code]),
        is_passed_on=True,
    )


def create_acl(principal: str, mark: str) -> Try:
    """A right for oneself, on a resource whose name is the mark."""
    acl = AclCreation(
        resource_type=TOPIC,
        resource_name=mark,
        resource_pattern_type=LITERAL,
        principal=principal,
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    return Try(
        api="CreateAcls",
        request=CreateAclsRequest(creations=[acl]),
        version=CREATE_ACLS,
        parts=[
            Part(
                what=f"for {mark}",
                steps=(_step(ALTER, CLUSTER, CLUSTER_NAME, NO_CLUSTER),),
                mark=mark,
            )
        ],
        read=lambda told, response: told.tell([response.results[0].error_code]),
        is_passed_on=True,
    )


# Transactions


def init_producer_id(transactional_id: str) -> Try:
    """The producer id of a transactional id."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
    )
    return Try(
        api="InitProducerId",
        request=request,
        version=INIT_PRODUCER_ID,
        parts=[Part(what=transactional_id, steps=(in_transaction(transactional_id),))],
        read=lambda told, response: told.tell([response.error_code]),
    )


def add_partitions(
    transactional_id: str, producer_id: int, producer_epoch: int, topics: Sequence[str]
) -> Try:
    """Partitions of several topics, all or none: one topic that is denied keeps the others out."""

    def steps_of(name: str) -> tuple[Step, ...]:
        others = [
            on_topic(WRITE, other)._replace(refusal=ErrorCode.OPERATION_NOT_ATTEMPTED)
            for other in topics
            if other != name
        ]
        return (in_transaction(transactional_id), on_topic(WRITE, name), *others)

    def read(told: Try, response: Any) -> None:
        codes = {
            topic.name: topic.results_by_partition[0].partition_error_code
            for topic in response.results_by_topic_v3_and_below
        }
        told.tell([codes[name] for name in topics])

    return Try(
        api="AddPartitionsToTxn",
        request=AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in topics
            ],
        ),
        version=ADD_PARTITIONS,
        parts=[Part(what=f"{name} in {transactional_id}", steps=steps_of(name)) for name in topics],
        read=read,
    )


def end_transaction(transactional_id: str, producer_id: int, producer_epoch: int) -> Try:
    """The abort of a transaction."""
    return Try(
        api="EndTxn",
        request=EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=False,
        ),
        version=END_TXN,
        parts=[Part(what=transactional_id, steps=(in_transaction(transactional_id),))],
        read=lambda told, response: told.tell([response.error_code]),
    )
