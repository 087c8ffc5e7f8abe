"""What is told of a cluster some of whose brokers do not respond."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from log_service.client.admin.values import ConfigEntry, ConfigResource, FeatureDescription
from log_service.cluster_operations.reading import observers_among
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
