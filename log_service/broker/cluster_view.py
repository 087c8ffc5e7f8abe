"""What clients are told of the image: brokers by listener, topics, partitions, and what they may do with them.

Decides nothing about the cluster: it reads one image and says how it looks from one listener. Shared by Metadata, DescribeCluster,
DescribeTopicPartitions and FindCoordinator, which differ only in the shapes of their responses.
"""

from dataclasses import dataclass

from log_service.common.errors import ErrorCode
from log_service.common.types import GROUP_METADATA_TOPIC, NO_NODE, NodeId
from log_service.metadata.image import BrokerRegistration, MetadataImage
from log_service.metadata.partition import PartitionRegistration

INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, "__transaction_state", "__share_group_state"})

OPERATIONS_NOT_ASKED_FOR = -(2**31)

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = range(3, 13)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
GROUP_OPERATIONS = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS = _bits(_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE)
"""What every client may do, as bits of Kafka's AclOperation (KIP-430): there is no authorizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """A broker as clients of one listener reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


NO_BROKER = BrokerAddress(node_id=NO_NODE, host="", port=-1, rack=None, is_fenced=True)


def told_controller(image: MetadataImage, node_id: int) -> int:
    """Return whom clients are told to ask as the controller: this broker, or none (-1) while it is not a member."""
    broker = image.cluster.brokers.get(NodeId(node_id))
    return NO_NODE if broker is None or broker.is_fenced else node_id


def is_internal(topic: str) -> bool:
    """Whether only brokers write to the topic."""
    return topic in INTERNAL_TOPICS


def broker_addresses(image: MetadataImage, listener_name: str, *, with_fenced: bool = False) -> list[BrokerAddress]:
    """Return the brokers that have that listener, by node id."""
    addresses = (address_of(broker, listener_name) for _, broker in sorted(image.cluster.brokers.items()))
    return [address for address in addresses if address is not NO_BROKER and (with_fenced or not address.is_fenced)]


def address_of(broker: BrokerRegistration, listener_name: str) -> BrokerAddress:
    """Return where clients of a listener reach a broker; ``NO_BROKER`` where it has no such listener."""
    endpoint = broker.endpoints.get(listener_name)
    if endpoint is None:
        return NO_BROKER
    return BrokerAddress(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.is_fenced)


def leader_address(image: MetadataImage, topic: str, partition: int, listener_name: str) -> BrokerAddress:
    """Return the leader of a partition as clients of a listener reach it; ``NO_BROKER`` where there is none."""
    registration = image.topics.partition(topic, partition)
    broker = None if registration is None else image.cluster.brokers.get(registration.leader)
    if broker is None or broker.is_fenced:
        return NO_BROKER
    return address_of(broker, listener_name)


def partition_error(image: MetadataImage, partition: PartitionRegistration, listener_name: str) -> ErrorCode:
    """Say whether clients of a listener can reach the partition's leader."""
    broker = image.cluster.brokers.get(partition.leader)
    if broker is None or broker.is_fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE if listener_name in broker.endpoints else ErrorCode.LISTENER_NOT_FOUND


def offline_replicas(image: MetadataImage, partition: PartitionRegistration) -> list[int]:
    """Return the replicas whose brokers are not there."""
    brokers = image.cluster.brokers
    return [node_id for node_id in partition.replicas if node_id not in brokers or brokers[node_id].is_fenced]
