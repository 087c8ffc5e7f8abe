"""A cluster is described although some of its brokers do not respond."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from log_service.client.admin.values import (
    BrokerDescription,
    ConfigEntry,
    ConfigResource,
    FeatureDescription,
    LogDirDescription,
    ReplicaDescription,
)
from log_service.cluster_operations.findings import state_findings
from log_service.cluster_operations.reading import (
    CORDONED,
    observers_among,
    read_layout,
    read_state,
)
from log_service.cluster_plans.health import Severity
from log_service.cluster_plans.layout import why_cordoned
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import OBSERVERS
from log_service.common.types import TopicPartition
from log_service.config.runtime_keys import OBSERVER
from log_service.http.console.pages.cluster.view import cluster_page

OWN, CLUSTER, FILE = (
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
)


def test_a_broker_that_dies_before_it_is_asked_is_told_and_hides_no_other() -> None:
    observers, silent = trio.run(observers_among, cast("Any", Admin(dead=2)), [1, 2, 3])
    assert observers == {3}
    assert list(silent) == [2]
    assert "broker 2 is not in the cluster's metadata" in silent[2]


class Admin:
    """An admin of a cluster of observers and others. One broker ended after it was told to be
    active.
    """

    def __init__(self, *, dead: int) -> None:
        self.dead = dead

    async def describe_features(self) -> FeatureDescription:
        return FeatureDescription(supported={}, finalized={OBSERVERS: 1}, finalized_epoch=1)

    async def describe_configs(
        self, resources: Sequence[ConfigResource], *, timeout_ms: int | None = None
    ) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
        assert timeout_ms is not None, "a broker that hangs holds up all others"
        if ConfigResource.broker(self.dead) in resources:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"broker {self.dead} is not in the cluster's metadata",
            )
        return {
            resource: {OBSERVER: entry(is_observer=resource.name == "3")} for resource in resources
        }


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
    """An admin of an empty cluster of brokers 1 and 2.

    One directory of broker 1 and all of broker 2 take no new partitions.

    The brokers tell that ``synonyms`` set it, or not whether anything does.
    """

    def __init__(self, *synonyms: tuple[str, str], is_told: bool = True) -> None:
        self.synonyms = tuple((CORDONED, value, source) for source, value in synonyms)
        self.is_told = is_told

    async def describe_configs(
        self, resources: Sequence[ConfigResource], *, timeout_ms: int | None = None
    ) -> Mapping[ConfigResource, Mapping[str, ConfigEntry]]:
        assert timeout_ms is not None, "a broker that hangs holds up all others"
        assert resources == [ConfigResource.broker(2)]
        if not self.is_told:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        _, value, source = self.synonyms[0]
        return {
            resources[0]: {
                CORDONED: ConfigEntry(
                    name=CORDONED,
                    value=value,
                    source=source,
                    is_read_only=False,
                    is_sensitive=False,
                    documentation=None,
                    synonyms=self.synonyms,
                )
            }
        }

    async def describe_brokers(self) -> list[BrokerDescription]:
        return [
            BrokerDescription(node_id=each, host="h", port=1, rack=None, is_fenced=False)
            for each in (1, 2)
        ]

    async def describe_log_dirs(
        self, broker_ids: Sequence[int], *, timeout_ms: int
    ) -> Mapping[int, Mapping[str, LogDirDescription]]:
        assert timeout_ms > 0
        return {
            each: {
                path: directory(path, is_cordoned=each == 2 or path == "/a")
                for path in ("/a", "/b")
            }
            for each in broker_ids
        }

    async def list_topics(self, *, is_internal_included: bool) -> list[Any]:
        assert is_internal_included
        return []

    async def describe_features(self) -> FeatureDescription:
        return FeatureDescription(supported={}, finalized={}, finalized_epoch=1)

    async def list_partition_reassignments(self) -> Mapping[Any, Any]:
        return {}


def directory(path: str, *, is_cordoned: bool) -> LogDirDescription:
    return LogDirDescription(
        path=path,
        error=ErrorCode.NONE,
        total_bytes=1,
        usable_bytes=1,
        is_cordoned=is_cordoned,
        replicas={},
    )


def test_a_broker_all_of_whose_directories_are_cordoned_receives_nothing() -> None:
    found = trio.run(read_layout, cast("Any", CordonedAdmin((OWN, "*"))))
    assert [[each.is_cordoned for each in broker.log_dirs] for broker in found.brokers] == [
        [True, False],
        [True, True],
    ]
    assert (found.active, found.cordoned, found.receiving) == ((1, 2), (2,), (1,))


def test_a_log_directory_serves_its_replicas_and_not_the_copies_on_their_way() -> None:
    class CopyingAdmin(CordonedAdmin):
        async def describe_log_dirs(
            self, broker_ids: Sequence[int], *, timeout_ms: int
        ) -> Mapping[int, Mapping[str, LogDirDescription]]:
            replicas = {
                TopicPartition("t", number): ReplicaDescription(
                    size_bytes=5, offset_lag=0, is_future=number == 1
                )
                for number in (0, 1)
            }
            return {
                each: {"/a": replace(directory("/a", is_cordoned=False), replicas=replicas)}
                for each in broker_ids
            }

    (found,) = trio.run(read_layout, cast("Any", CopyingAdmin())).broker(1).log_dirs
    assert (found.served, found.used_bytes) == (frozenset({TopicPartition("t", 0)}), 10)


@pytest.mark.parametrize(
    ("synonyms", "advice"),
    [
        (
            [(OWN, "*")],
            "(cordoned.log.dirs), until: tidelog configs unset cordoned.log.dirs --broker 2",
        ),
        (
            [(OWN, "*"), (FILE, "")],
            "(cordoned.log.dirs), until: tidelog configs unset cordoned.log.dirs --broker 2",
        ),
        (
            [(FILE, "/a,/b")],
            "(cordoned.log.dirs in its properties file), until: tidelog configs set cordoned.log.dirs= --broker 2",
        ),
        (
            [(CLUSTER, "*")],
            "(cordoned.log.dirs in the cluster's default), until: tidelog configs set cordoned.log.dirs= --broker 2",
        ),
        (
            [(OWN, "*"), (CLUSTER, "/a"), (FILE, "/a")],
            "(cordoned.log.dirs in the cluster's default and in its properties file), until: "
            "tidelog configs set cordoned.log.dirs= --broker 2",
        ),
    ],
)
def test_what_ends_a_cordon_fits_where_it_is_set(
    synonyms: list[tuple[str, str]], advice: str
) -> None:
    """The advice to end a cordon fits the place where it is set.

    It said to unset the broker's own setting also if the broker has none, and if the file would
    hold again then.
    """
    found = trio.run(read_layout, cast("Any", CordonedAdmin(*synonyms)))
    assert why_cordoned(found.broker(2)) == f"it is cordoned {advice}"


def test_a_cordoned_broker_that_does_not_tell_where_that_is_set_is_told_all_the_same() -> None:
    found = trio.run(read_layout, cast("Any", CordonedAdmin(is_told=False)))
    assert (found.cordoned, found.broker(2).cordon_below) == ((2,), "")


def test_a_login_without_the_right_to_describe_the_cluster_causes_no_alarm() -> None:
    """It was told that the quorum has no leader, and that each broker is down."""

    class RefusingAdmin(CordonedAdmin):
        async def describe_cluster(self) -> Any:
            return SimpleNamespace(cluster_id="id")

        async def describe_log_dirs(
            self, broker_ids: Sequence[int], *, timeout_ms: int
        ) -> Mapping[int, Mapping[str, LogDirDescription]]:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        async def describe_metadata_quorum(self, *, timeout_ms: int | None) -> Any:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    state = trio.run(read_state, cast("Any", RefusingAdmin()))
    (finding,) = state_findings(state)
    assert (finding.check, finding.severity) == ("rights", Severity.NOTICE)
    assert "DESCRIBE on the cluster" in finding.text
    assert [state.state_of(each) for each in state.layout.brokers] == ["serves", "serves"]
    page = cluster_page(state, [finding])
    assert (page.controller, page.state) == ("unknown", "All works")
