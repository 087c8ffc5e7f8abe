"""The table says what Apache Kafka 4.3 says, its rows lead to classes that agree, and nothing is imported before it is asked for."""

import subprocess
import sys

import pytest

from log_service.common.errors import ProtocolError
from log_service.protocol.api_versions import (
    KNOWN,
    SERVED,
    ApiKey,
    ApiSpec,
    advertised,
    header_versions,
    is_flexible,
    request_class,
    response_class,
    spec_of,
)
from log_service.protocol.schema import version_span

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
    "DescribeAcls": (1, 3, 2),
    "CreateAcls": (1, 3, 2),
    "DeleteAcls": (1, 3, 2),
    "DescribeConfigs": (1, 4, 4),
    "CreatePartitions": (0, 3, 2),
    "DeleteGroups": (0, 2, 2),
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
}


def test_what_is_advertised_is_what_kafka_4_3_advertises() -> None:
    told = {spec.name: (spec.advertised_min_version, spec.max_version, spec.first_flexible_version) for spec in advertised()}
    assert told == {name: KAFKA_4_3[name] for name in told}
    assert told.keys() >= KAFKA_4_3.keys()


def test_produce_is_advertised_from_0_but_served_from_3() -> None:
    spec = SERVED[ApiKey.PRODUCE]
    assert spec.advertised_min_version == 0
    assert not spec.is_served(2)
    assert spec.is_served(3)


def test_our_own_apis_are_served_but_never_told() -> None:
    assert SERVED[ApiKey.TIDELOG_MAINTENANCE].is_served(0)
    assert ApiKey.TIDELOG_MAINTENANCE not in {spec.key for spec in advertised()}


@pytest.mark.parametrize("spec", KNOWN.values(), ids=lambda spec: spec.name)
def test_row_agrees_with_the_schemas_it_leads_to(spec: ApiSpec) -> None:
    for cls in (request_class(spec.key), response_class(spec.key)):
        assert version_span(cls.SCHEMA.valid) == (spec.min_version, spec.max_version)
        first_flexible = version_span(cls.SCHEMA.flexible)[0] if cls.SCHEMA.flexible else spec.max_version + 1
        assert first_flexible == spec.first_flexible_version
        assert cls.SCHEMA.key == spec.key
        assert cls.__name__.startswith(spec.name)


@pytest.mark.parametrize(
    ("key", "version", "expected"),
    [
        (ApiKey.METADATA, 8, (1, 0)),
        (ApiKey.METADATA, 9, (2, 1)),
        (ApiKey.API_VERSIONS, 2, (1, 0)),
        (ApiKey.API_VERSIONS, 3, (2, 0)),
        (ApiKey.DESCRIBE_CLUSTER, 0, (2, 1)),
    ],
)
def test_header_versions(key: ApiKey, version: int, expected: tuple[int, int]) -> None:
    assert header_versions(key, version) == expected
    assert is_flexible(key, version) == (expected[0] == 2)


def test_api_that_is_not_served_is_named() -> None:
    with pytest.raises(ProtocolError, match="4711"):
        spec_of(4711)
    with pytest.raises(ProtocolError):
        request_class(ApiKey.END_TXN)


def test_no_message_module_is_imported_before_its_class_is_asked_for() -> None:
    program = (
        "import sys, log_service.protocol.frames as f, log_service.protocol.api_versions as a\n"
        "loaded = lambda: {m for m in sys.modules if m.startswith('log_service.protocol.messages.')}\n"
        "assert loaded() == set(), loaded()\n"
        "a.request_class(3)\n"
        "assert loaded() == {'log_service.protocol.messages.metadata'}, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
