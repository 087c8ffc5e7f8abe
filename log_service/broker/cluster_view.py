"""The metadata for clients of one listener: brokers, topics, partitions, permitted operations.

Decides nothing about the cluster. Shared by Metadata, DescribeCluster, DescribeTopicPartitions and
FindCoordinator, which differ only in the shapes of their responses. Produce, Fetch and the APIs of
share sessions use it to name the leader beside an error (KIP-951).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from log_service.common.access import OPERATIONS_ON, Access, AclResource
from log_service.common.access import AclOperation as Acl
from log_service.common.errors import ErrorCode
from log_service.common.topic_names import INTERNAL_TOPICS
from log_service.common.types import NO_NODE, NodeId, TopicId
from log_service.metadata.image import BrokerRegistration, MetadataImage
from log_service.metadata.partition import PartitionRegistration

R = TypeVar("R")

CLUSTER_NAME = "kafka-cluster"
OPERATIONS_NOT_ASKED_FOR = -(2**31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


OPERATIONS_ON_TOPICS = OPERATIONS_ON[AclResource.TOPIC]
OPERATIONS_ON_GROUPS = OPERATIONS_ON[AclResource.GROUP]
OPERATIONS_ON_CLUSTER = OPERATIONS_ON[AclResource.CLUSTER]
"""The operations that a response lists if the request asks for permitted operations (KIP-430)."""
TOPIC_OPERATIONS = _bits(*OPERATIONS_ON_TOPICS)
GROUP_OPERATIONS = _bits(*OPERATIONS_ON_GROUPS)
CLUSTER_OPERATIONS = _bits(*OPERATIONS_ON_CLUSTER)
"""The operations of every client if there is no authorizer, as bits of Kafka's AclOperation."""


def with_group_operations(request: Any, response: R) -> R:
    """Add the permitted operations to each described group, if requested. Return the response.

    Works for the four APIs that describe groups.
    """
    if request.include_authorized_operations:
        for group in response.groups:  # type: ignore[attr-defined]  # of each of the four
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return response


def topic_operations(access: Access | None, name: str) -> int:
    """Return the permitted operations of a client on a topic, as bits."""
    return (
        TOPIC_OPERATIONS
        if access is None
        else access.bits(AclResource.TOPIC, name, OPERATIONS_ON_TOPICS)
    )


def cluster_operations(access: Access | None) -> int:
    """Return the permitted operations of a client on the cluster, as bits.

    Returns 0 for a client that must not describe the cluster.
    """
    if access is None:
        return CLUSTER_OPERATIONS
    return (
        access.bits(AclResource.CLUSTER, CLUSTER_NAME, OPERATIONS_ON_CLUSTER)
        if access.may_cluster(Acl.DESCRIBE)
        else 0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """The address of a broker for clients of one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


NO_BROKER = BrokerAddress(node_id=NO_NODE, host="", port=-1, rack=None, is_fenced=True)


class LeaderHint(NamedTuple):
    """Leader and leader epoch of a partition, -1 and -1 if the partition is not known."""

    leader_id: int
    leader_epoch: int


NO_HINT = LeaderHint(-1, -1)
STALE_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors whose responses also name the leader.

The client asked another broker, or used an older epoch.
"""


def advertised_controller(image: MetadataImage, rng: Random) -> int:
    """Return a random unfenced broker as the controller for clients, or -1 if there is none.

    Brokers forward requests for the controller, so any broker will do (KIP-590). The choice is
    random to spread the requests.
    """
    brokers = [broker.node_id for broker in image.cluster.brokers.values() if not broker.is_fenced]
    if len(brokers) < 2:
        return brokers[0] if brokers else NO_NODE
    return brokers[rng.randrange(len(brokers))]


def is_internal(topic: str) -> bool:
    """Whether only brokers write to the topic."""
    return topic in INTERNAL_TOPICS


def broker_addresses(
    image: MetadataImage,
    listener_name: str,
    *,
    with_fenced: bool = False,
    also: Collection[NodeId] = (),
) -> list[BrokerAddress]:
    """Return the brokers that have this listener, by node id.

    Fenced brokers are included if they are in ``also``. With ``with_fenced`` all of them are
    included.
    """
    addresses = (
        address_of(broker, listener_name) for _, broker in sorted(image.cluster.brokers.items())
    )
    return [
        address
        for address in addresses
        if address is not NO_BROKER
        and (with_fenced or not address.is_fenced or address.node_id in also)
    ]


def reachable_brokers(
    image: MetadataImage, listener_name: str, also: Collection[NodeId] = ()
) -> list[BrokerAddress]:
    """Return the brokers of a listener that are not fenced, and those in ``also``.

    If all are fenced, return all, so that a client keeps an address to ask again.
    """
    is_any_there = any(listener_name in broker.endpoints for broker in image.cluster.unfenced())
    return broker_addresses(image, listener_name, with_fenced=not is_any_there, also=also)


def address_of(broker: BrokerRegistration, listener_name: str) -> BrokerAddress:
    """Return a broker's address for clients of a listener, or ``NO_BROKER`` if it has none."""
    endpoint = broker.endpoints.get(listener_name)
    if endpoint is None:
        return NO_BROKER
    return BrokerAddress(
        node_id=broker.node_id,
        host=endpoint.host,
        port=endpoint.port,
        rack=broker.rack,
        is_fenced=broker.is_fenced,
    )


def leader_address(
    image: MetadataImage, topic: str, partition: int, listener_name: str
) -> BrokerAddress:
    """Return the leader's address for clients of a listener, or ``NO_BROKER`` if there is none."""
    registration = image.topics.partition(topic, partition)
    broker = None if registration is None else image.cluster.brokers.get(registration.leader)
    if broker is None or broker.is_fenced:
        return NO_BROKER
    return address_of(broker, listener_name)


def leader_hint(image: MetadataImage, topic: str, topic_id: UUID, index: int) -> LeaderHint:
    """Return the leader and leader epoch of a partition by the image.

    The topic is given by its name, or by its id if the name is empty.
    """
    known = image.topics.by_name.get(topic) if topic else image.topics.by_id.get(TopicId(topic_id))
    partition = None if known is None else known.partitions.get(index)
    return NO_HINT if partition is None else LeaderHint(partition.leader, partition.leader_epoch)


def hinted_brokers(
    image: MetadataImage, listener_name: str, leader_ids: Iterable[int]
) -> list[BrokerAddress]:
    """Return the addresses of the leaders that a response names, each once.

    Those that clients of the listener cannot reach are left out.
    """
    brokers = image.cluster.brokers
    known = (brokers.get(NodeId(leader_id)) for leader_id in dict.fromkeys(leader_ids))
    addresses = (
        address_of(broker, listener_name)
        for broker in known
        if broker is not None and not broker.is_fenced
    )
    return [address for address in addresses if address is not NO_BROKER]


def partition_error(
    image: MetadataImage, partition: PartitionRegistration, listener_name: str
) -> ErrorCode:
    """Return an error code that tells whether clients of a listener can reach a partition's leader.

    It is NONE if they can, otherwise LEADER_NOT_AVAILABLE or LISTENER_NOT_FOUND.
    """
    broker = image.cluster.brokers.get(partition.leader)
    if broker is None or broker.is_fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE if listener_name in broker.endpoints else ErrorCode.LISTENER_NOT_FOUND


def reached_leader(
    image: MetadataImage, partition: PartitionRegistration, listener_name: str
) -> int:
    """Return the partition's leader, or -1 if clients of a listener cannot reach it."""
    return NO_NODE if partition_error(image, partition, listener_name) else partition.leader


def alive_replicas(image: MetadataImage, replicas: Iterable[int], listener_name: str) -> list[int]:
    """Return the replicas whose brokers clients of a listener can reach."""
    brokers = image.cluster.brokers
    known = ((node_id, brokers.get(NodeId(node_id))) for node_id in replicas)
    return [
        node_id
        for node_id, broker in known
        if broker is not None and _is_reached(broker, listener_name)
    ]


def offline_replicas(
    image: MetadataImage, partition: PartitionRegistration, listener_name: str
) -> list[int]:
    """Return the replicas that clients of a listener cannot read.

    Their broker is unreachable for these clients, or their log directory is offline.
    """
    offline = []
    for node_id in partition.replicas:
        broker, directory_id = image.cluster.brokers.get(node_id), partition.directory_of(node_id)
        assert directory_id is not None, "each replica is in a directory"
        if (
            broker is None
            or not _is_reached(broker, listener_name)
            or not broker.has_online(directory_id)
        ):
            offline.append(int(node_id))
    return offline


def _is_reached(broker: BrokerRegistration, listener_name: str) -> bool:
    return not broker.is_fenced and listener_name in broker.endpoints
