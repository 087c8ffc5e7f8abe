"""The registry says of each API what Apache Kafka 4.3 says, and nothing that a row needs is left
out.
"""

import pytest

from log_service.broker.quotas import MAX_MEMBER_PUT_OFF_MS
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Api, QuotaKind, Side
from log_service.common.access import AclOperation, AclResource
from log_service.protocol.api_versions import ApiKey
from tools.api_table import PAGE, with_table

KAFKA_4_3 = {
    "Produce": (0, 13, 9),
    "Fetch": (4, 18, 12),
    "ListOffsets": (1, 11, 6),
    "Metadata": (0, 13, 9),
    "OffsetCommit": (2, 10, 8),
    "OffsetFetch": (1, 10, 6),
    "FindCoordinator": (0, 6, 3),
    "JoinGroup": (0, 9, 6),
    "Heartbeat": (0, 4, 4),
    "LeaveGroup": (0, 5, 4),
    "SyncGroup": (0, 5, 4),
    "DescribeGroups": (0, 6, 5),
    "ListGroups": (0, 5, 3),
    "ApiVersions": (0, 4, 3),
    "CreateTopics": (2, 7, 5),
    "DeleteTopics": (1, 6, 4),
    "DeleteRecords": (0, 2, 2),
    "InitProducerId": (0, 5, 2),
    "OffsetForLeaderEpoch": (2, 4, 4),
    "DescribeClientQuotas": (0, 1, 1),
    "AlterClientQuotas": (0, 1, 1),
    "WriteTxnMarkers": (1, 2, 1),
    "ShareFetch": (1, 2, 0),
    "ShareAcknowledge": (1, 2, 0),
    "ShareGroupHeartbeat": (1, 1, 0),
    "ShareGroupDescribe": (1, 1, 0),
    "StreamsGroupHeartbeat": (0, 0, 0),
    "StreamsGroupDescribe": (0, 0, 0),
    "DescribeShareGroupOffsets": (0, 1, 0),
    "AlterShareGroupOffsets": (0, 0, 0),
    "DeleteShareGroupOffsets": (0, 0, 0),
    "InitializeShareGroupState": (0, 0, 0),
    "ReadShareGroupState": (0, 0, 0),
    "WriteShareGroupState": (0, 1, 0),
    "DeleteShareGroupState": (0, 0, 0),
    "ReadShareGroupStateSummary": (0, 1, 0),
    "TxnOffsetCommit": (0, 5, 3),
    "DescribeAcls": (1, 3, 2),
    "CreateAcls": (1, 3, 2),
    "DeleteAcls": (1, 3, 2),
    "DescribeConfigs": (1, 4, 4),
    "CreatePartitions": (0, 3, 2),
    "DeleteGroups": (0, 2, 2),
    "ConsumerGroupHeartbeat": (0, 1, 0),
    "ConsumerGroupDescribe": (0, 1, 0),
    "IncrementalAlterConfigs": (0, 1, 1),
    "DescribeCluster": (0, 2, 0),
    "DescribeTopicPartitions": (0, 0, 0),
    "AlterConfigs": (0, 2, 2),
    "AlterReplicaLogDirs": (1, 2, 2),
    "DescribeLogDirs": (1, 5, 2),
    "ElectLeaders": (0, 2, 2),
    "AlterPartitionReassignments": (0, 1, 0),
    "ListPartitionReassignments": (0, 0, 0),
    "DescribeQuorum": (0, 2, 0),
    "UpdateFeatures": (0, 2, 0),
    "DescribeProducers": (0, 0, 0),
    "UnregisterBroker": (0, 0, 0),
    "ListConfigResources": (0, 1, 0),
    "AddRaftVoter": (0, 1, 0),
    "RemoveRaftVoter": (0, 0, 0),
    "OffsetDelete": (0, 0, 1),
    "AddPartitionsToTxn": (0, 5, 3),
    "AddOffsetsToTxn": (0, 4, 3),
    "EndTxn": (0, 5, 3),
    "DescribeTransactions": (0, 0, 0),
    "ListTransactions": (0, 2, 0),
    "GetTelemetrySubscriptions": (0, 0, 0),
    "PushTelemetry": (0, 0, 0),
    "AllocateProducerIds": (0, 0, 0),
    "AlterPartition": (2, 3, 0),
    "AssignReplicasToDirs": (0, 0, 0),
    "BrokerHeartbeat": (0, 2, 0),
    "BrokerRegistration": (0, 4, 0),
    "ControllerRegistration": (0, 0, 0),
    "Vote": (0, 2, 0),
    "BeginQuorumEpoch": (0, 1, 1),
    "EndQuorumEpoch": (0, 1, 1),
    "FetchSnapshot": (0, 1, 0),
    "UpdateRaftVoter": (0, 0, 0),
    "Envelope": (0, 0, 0),
    "CreateDelegationToken": (1, 3, 2),
    "RenewDelegationToken": (1, 2, 2),
    "ExpireDelegationToken": (1, 2, 2),
    "DescribeDelegationToken": (1, 3, 2),
    "SaslHandshake": (0, 1, 2),
    "SaslAuthenticate": (0, 2, 2),
    "DescribeUserScramCredentials": (0, 0, 0),
    "AlterUserScramCredentials": (0, 0, 0),
}
"""Lowest advertised version, highest version, first flexible version."""

ANSWERED_TO_ALL = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
"""What needs no permission."""

BETWEEN_NODES = {
    "AllocateProducerIds",
    "AlterPartition",
    "AssignReplicasToDirs",
    "BeginQuorumEpoch",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "ControllerRegistration",
    "EndQuorumEpoch",
    "FetchSnapshot",
    "UpdateRaftVoter",
    "Vote",
    "Envelope",
}
"""What nodes alone say, and to the controller alone."""

CONTROLLER_APIS = BETWEEN_NODES | {
    "AddRaftVoter",
    "AlterClientQuotas",
    "AlterConfigs",
    "AlterPartitionReassignments",
    "AlterUserScramCredentials",
    "ApiVersions",
    "CreateAcls",
    "CreateDelegationToken",
    "CreatePartitions",
    "CreateTopics",
    "DeleteAcls",
    "DeleteTopics",
    "DescribeAcls",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeQuorum",
    "ElectLeaders",
    "ExpireDelegationToken",
    "Fetch",
    "IncrementalAlterConfigs",
    "ListPartitionReassignments",
    "RemoveRaftVoter",
    "RenewDelegationToken",
    "SaslAuthenticate",
    "SaslHandshake",
    "UnregisterBroker",
    "UpdateFeatures",
}


def test_what_is_advertised_is_what_kafka_4_3_advertises() -> None:
    specs = [api.spec for api in REGISTRY.values() if api.spec.advertised_min_version is not None]
    told = {
        spec.name: (spec.advertised_min_version, spec.max_version, spec.first_flexible_version)
        for spec in specs
    }
    assert told == KAFKA_4_3


def test_produce_is_advertised_from_0_but_answered_from_3() -> None:
    spec = REGISTRY[ApiKey.PRODUCE].spec
    assert spec.advertised_min_version == 0
    assert spec.min_version == 3


def test_our_own_apis_are_answered_but_never_told() -> None:
    ours = [key for key, api in REGISTRY.items() if api.spec.advertised_min_version is None]
    assert ours == [ApiKey.TIDELOG_MAINTENANCE, ApiKey.TIDELOG_SHARE_RECORDS]


@pytest.mark.parametrize("api", REGISTRY.values(), ids=lambda api: api.key.name)
def test_every_row_says_what_its_requests_ask_permission_for(api: Api) -> None:
    assert bool(api.permissions) == (api.key not in ANSWERED_TO_ALL)
    assert len(set(api.permissions)) == len(api.permissions)
    for permission in api.permissions:
        assert isinstance(permission.operation, AclOperation)
        assert isinstance(permission.resource, AclResource)
    assert (Side.BROKER in api.sides) != (api.spec.name in BETWEEN_NODES)


def test_the_controller_takes_what_an_admin_client_asks_a_controller() -> None:
    assert {
        api.spec.name for api in REGISTRY.values() if Side.CONTROLLER in api.sides
    } == CONTROLLER_APIS


def test_what_counts_against_which_quota() -> None:
    others = {
        api.spec.name: api.quota
        for api in REGISTRY.values()
        if api.quota not in (QuotaKind.REQUEST, QuotaKind.NONE)
    }
    between_nodes = {api.key for api in REGISTRY.values() if api.sides == {Side.CONTROLLER}}
    assert {
        api.key for api in REGISTRY.values() if api.quota is QuotaKind.NONE
    } == between_nodes | {ApiKey.WRITE_TXN_MARKERS}
    assert others == {
        "Produce": QuotaKind.PRODUCE,
        "Fetch": QuotaKind.FETCH,
        "ShareFetch": QuotaKind.FETCH,
        "CreateTopics": QuotaKind.CONTROLLER_MUTATION,
        "DeleteTopics": QuotaKind.CONTROLLER_MUTATION,
        "CreatePartitions": QuotaKind.CONTROLLER_MUTATION,
    }


def test_how_long_requests_wait_for_others_of_their_quota() -> None:
    never = {
        api.spec.name
        for api in REGISTRY.values()
        if not api.max_put_off_ms and api.quota is not QuotaKind.NONE
    }
    assert never == {"ApiVersions", "Fetch", "SaslAuthenticate", "SaslHandshake", "ShareFetch"}
    assert not any(api.max_put_off_ms for api in REGISTRY.values() if api.quota is QuotaKind.NONE)
    assert {
        api.spec.name for api in REGISTRY.values() if api.max_put_off_ms == MAX_MEMBER_PUT_OFF_MS
    } == {
        "ConsumerGroupHeartbeat",
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
        "ShareGroupHeartbeat",
        "StreamsGroupHeartbeat",
        "SyncGroup",
    }


def test_the_documented_table_is_the_registry() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text()), (
        "write it again: python -m tools.api_table"
    )
