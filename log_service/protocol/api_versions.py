"""The table of the APIs that this software can encode: keys, version ranges and message classes.

It decides which versions are supported and which are advertised. ``broker.registry`` decides which
APIs a node serves. Ranges are Apache Kafka 4.3's (stable versions only). Produce is advertised from
version 0 although versions 0-2 are refused, because released librdkafka versions read a higher
minimum as "no Produce at all" (KAFKA-18659). A message module is imported only when its classes are
needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from log_service.common.errors import ProtocolError


class ApiKey(IntEnum):
    """The key of every API of Kafka 4.4's protocol, also of those that this software lacks.

    APIs of tidelog's own begin at 32000.
    """

    # The hash of int is faster. An enum hashes its name in Python, and every request looks an API
    # key up several times.
    __hash__ = int.__hash__

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94
    TIDELOG_MAINTENANCE = 32000
    TIDELOG_SHARE_RECORDS = 32001


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSpec:
    """The supported versions of one API. Both ends of a range are inclusive.

    ``advertised_min_version`` is the minimum in ApiVersions responses. It is None for an API of
    tidelog's own that ApiVersions never lists.
    """

    key: ApiKey
    name: str
    module: str
    min_version: int
    max_version: int
    first_flexible_version: int
    advertised_min_version: int | None

    @property
    def request_path(self) -> str:
        """The import path of the request's class, as ``module:class``."""
        return f"log_service.protocol.messages.{self.module}:{self.name}Request"

    @property
    def response_path(self) -> str:
        """The import path of the response's class, as ``module:class``."""
        return f"log_service.protocol.messages.{self.module}:{self.name}Response"


def _specs(*specs: ApiSpec) -> Mapping[int, ApiSpec]:
    return MappingProxyType({spec.key: spec for spec in specs})


def _spec(
    key: ApiKey, name: str, first: int, last: int, flexible: int, **overrides: int | None
) -> ApiSpec:
    module = key.name.lower().removeprefix("tidelog_")
    advertised = overrides.get("advertised", first)
    return ApiSpec(
        key=key,
        name=name,
        module=module,
        min_version=first,
        max_version=last,
        first_flexible_version=flexible,
        advertised_min_version=advertised,
    )


KNOWN = _specs(
    _spec(ApiKey.PRODUCE, "Produce", 3, 13, 9, advertised=0),
    _spec(ApiKey.FETCH, "Fetch", 4, 18, 12),
    _spec(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6),
    _spec(ApiKey.METADATA, "Metadata", 0, 13, 9),
    _spec(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
    _spec(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
    _spec(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    _spec(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
    _spec(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    _spec(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    _spec(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    _spec(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
    _spec(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    _spec(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, 2),
    _spec(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    _spec(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5),
    _spec(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
    _spec(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    _spec(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2),
    _spec(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
    _spec(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    _spec(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    _spec(ApiKey.END_TXN, "EndTxn", 0, 5, 3),
    _spec(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
    _spec(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3),
    _spec(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
    _spec(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2),
    _spec(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2),
    _spec(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
    _spec(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    _spec(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, 2),
    _spec(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
    _spec(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    _spec(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    _spec(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 1, 3, 2),
    _spec(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 1, 2, 2),
    _spec(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 1, 2, 2),
    _spec(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 1, 3, 2),
    _spec(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    _spec(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    _spec(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    _spec(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0),
    _spec(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    _spec(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, 1),
    _spec(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    _spec(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    _spec(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    _spec(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    _spec(ApiKey.VOTE, "Vote", 0, 2, 0),
    _spec(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", 0, 1, 1),
    _spec(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", 0, 1, 1),
    _spec(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0),
    _spec(ApiKey.ALTER_PARTITION, "AlterPartition", 2, 3, 0),
    _spec(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0),
    _spec(ApiKey.ENVELOPE, "Envelope", 0, 0, 0),
    _spec(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", 0, 1, 0),
    _spec(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
    _spec(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    _spec(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", 0, 4, 0),
    _spec(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 0, 2, 0),
    _spec(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, 0),
    _spec(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    _spec(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
    _spec(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0),
    _spec(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
    _spec(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    _spec(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", 0, 0, 0),
    _spec(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0, 0),
    _spec(ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0),
    _spec(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", 0, 0, 0),
    _spec(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
    _spec(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
    _spec(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 0),
    _spec(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 0),
    _spec(ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, 0),
    _spec(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, 0),
    _spec(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", 0, 1, 0),
    _spec(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, 0),
    _spec(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", 0, 0, 0),
    _spec(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, 0),
    _spec(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, 0),
    _spec(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, 0),
    _spec(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, 0),
    _spec(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", 0, 1, 0),
    _spec(ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", 0, 0, 0),
    _spec(ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", 0, 0, 0),
    _spec(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, 0),
    _spec(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, 0),
    _spec(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, 0),
    _spec(ApiKey.TIDELOG_MAINTENANCE, "Maintenance", 0, 1, 0, advertised=None),
    _spec(ApiKey.TIDELOG_SHARE_RECORDS, "ShareRecords", 0, 0, 0, advertised=None),
)
"""The supported versions of each API, in the order of keys. Ranges: KIP-896 baselines at the
left, 4.3's newest stable versions at the right. What a node serves is in ``broker.registry``; some
of these messages pass only between the nodes of a cluster.
"""


def spec_of(key: int) -> ApiSpec:
    """Return the entry of an API in the table.

    Raises:
        ProtocolError: no API with this key is known here.
    """
    try:
        return KNOWN[key]
    except KeyError:
        message = f"API key {key} is not known here"
        raise ProtocolError(message) from None


def is_flexible(key: int, version: int) -> bool:
    """Whether a version of an API has compact lengths and tagged fields (KIP-482).

    Raises:
        ProtocolError: no API with this key is known here.
    """
    return version >= spec_of(key).first_flexible_version


def header_versions(key: int, version: int) -> tuple[int, int]:
    """Return the versions of (request header, response header).

    An ApiVersions response always has header 0 (KIP-511).
    """
    flexible = is_flexible(key, version)
    return (2 if flexible else 1), (1 if flexible and key != ApiKey.API_VERSIONS else 0)


@cache
def request_class(key: int) -> type[Any]:
    """Import and return the class of an API's request.

    Raises:
        ProtocolError: no API with this key is known here.
    """
    return _load(spec_of(key).request_path)


@cache
def response_class(key: int) -> type[Any]:
    """Import and return the class of an API's response.

    Raises:
        ProtocolError: no API with this key is known here.
    """
    return _load(spec_of(key).response_path)


def _load(path: str) -> type[Any]:
    module, _, name = path.partition(":")
    loaded: type[Any] = getattr(import_module(module), name)
    return loaded
