"""What is told of brokers, and of a cluster some of whose brokers do not respond."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from log_service.client.admin.values import BrokerDescription, ConfigEntry, ConfigResource, FeatureDescription, LogDirDescription
from log_service.cluster_operations.reading import observers_among, read_layout
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import OBSERVERS
from log_service.config.dynamic_keys import OBSERVER


def test_a_broker_that_dies_before_it_is_asked_is_told_and_hides_no_other() -> None:
    observers, silent = observers_among(cast("Any", Admin(dead=2)), [1, 2, 3])
    assert observers == {3}
    assert list(silent) == [2]
    assert "broker 2 is not in the cluster's metadata" in silent[2]


class Admin:
    """An admin of a cluster of observers and others. One broker ended after it was told to be active."""

    def __init__(self, *, dead: int) -> None:
        self.dead = dead

    def describe_features(self) -> FeatureDescription:
        return FeatureDescription(supported={}, finalized={OBSERVERS: 1}, finalized_epoch=1)

    def describe_configs(
        self, resources: Sequence[ConfigResource], *, timeout_ms: int | None = None
    ) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
        assert timeout_ms is not None, "a broker that hangs holds up all others"
        if ConfigResource.broker(self.dead) in resources:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {self.dead} is not in the cluster's metadata")
        return {resource: {OBSERVER: entry(is_observer=resource.name == "3")} for resource in resources}


def entry(*, is_observer: bool) -> ConfigEntry:
    return ConfigEntry(
        name=OBSERVER,
        value=str(is_observer).lower(),
        source="STATIC_BROKER_CONFIG",
        is_read_only=True,
        is_sensitive=False,
        documentation=None,
        synonyms=(),
    )


class CordonedAdmin:
    """An admin of an empty cluster of brokers 1 and 2; one directory of 1 and all of 2 take no new partitions."""

    def describe_brokers(self) -> list[BrokerDescription]:
        return [BrokerDescription(node_id=each, host="h", port=1, rack=None, is_fenced=False) for each in (1, 2)]

    def describe_log_dirs(self, broker_ids: Sequence[int], *, timeout_ms: int) -> Mapping[int, Mapping[str, LogDirDescription]]:
        assert timeout_ms > 0
        return {each: {path: directory(path, is_cordoned=each == 2 or path == "/a") for path in ("/a", "/b")} for each in broker_ids}

    def list_topics(self, *, is_internal_included: bool) -> list[Any]:
        assert is_internal_included
        return []

    def describe_features(self) -> FeatureDescription:
        return FeatureDescription(supported={}, finalized={}, finalized_epoch=1)

    def list_partition_reassignments(self) -> Mapping[Any, Any]:
        return {}


def directory(path: str, *, is_cordoned: bool) -> LogDirDescription:
    return LogDirDescription(path=path, error=ErrorCode.NONE, total_bytes=1, usable_bytes=1, is_cordoned=is_cordoned, replicas={})


def test_a_broker_all_of_whose_directories_are_cordoned_receives_nothing() -> None:
    found = read_layout(cast("Any", CordonedAdmin()))
    assert [[each.is_cordoned for each in broker.log_dirs] for broker in found.brokers] == [[True, False], [True, True]]
    assert (found.active, found.cordoned, found.receiving) == ((1, 2), (2,), (1,))
