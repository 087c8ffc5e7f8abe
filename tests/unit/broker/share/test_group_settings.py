"""A share group's configuration has the broker's keys, the group's own, and bounds (KIP-932)."""

import pytest

from log_service.broker.share.group_settings import OffsetReset, ShareGroupSettings, reset_of
from log_service.common.errors import ConfigError, KafkaError
from log_service.config.resource_keys import DEAD_LETTER_TOPIC, validate_group_configs
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig
from log_service.metadata.image import ResourceType
from log_service.protocol.stored.metadata_records import ConfigRecord
from log_service.replication.partition_state import Isolation
from tests.unit.broker.context import PROPERTIES
from tests.unit.metadata.records import image_of

BROKER = {
    "group.share.delivery.count.limit": "6",
    "group.share.min.delivery.count.limit": "3",
    "group.share.max.delivery.count.limit": "8",
    "group.share.record.lock.duration.ms": "20000",
    "group.share.min.record.lock.duration.ms": "10000",
    "group.share.max.record.lock.duration.ms": "40000",
    "group.share.partition.max.record.locks": "1000",
    "group.share.min.partition.max.record.locks": "500",
    "group.share.max.partition.max.record.locks": "3000",
    "group.share.max.share.sessions": "7",
    "group.share.max.size": "5",
}


def node_config(**changed: str) -> NodeConfig:
    config, _ = parse_server_properties({**PROPERTIES, **BROKER, **changed})
    return config


def settings_of(**own: str) -> ShareGroupSettings:
    records = [
        ConfigRecord(
            resource_type=ResourceType.GROUP,
            resource_name="g",
            name=name.replace("_", "."),
            value=value,
        )
        for name, value in own.items()
    ]
    image = image_of(*records)
    return ShareGroupSettings(node_config().share_fetch, lambda: image)


def test_the_brokers_keys_are_the_defaults_and_the_bounds_of_groups() -> None:
    records = settings_of().of("g").records
    assert (
        records.delivery_count_limit,
        records.record_lock_duration_ms,
        records.max_record_locks,
    ) == (6, 20_000, 1_000)
    few = settings_of(
        share_delivery_count_limit="1",
        share_record_lock_duration_ms="1",
        share_partition_max_record_locks="1",
    )
    least = few.of("g").records
    assert (least.delivery_count_limit, least.record_lock_duration_ms, least.max_record_locks) == (
        3,
        10_000,
        500,
    )
    many = settings_of(
        share_delivery_count_limit="99",
        share_record_lock_duration_ms="99999",
        share_partition_max_record_locks="9999",
    )
    most = many.of("g").records
    assert (most.delivery_count_limit, most.record_lock_duration_ms, most.max_record_locks) == (
        8,
        40_000,
        3_000,
    )
    assert node_config().share_fetch.max_session_count == 7


def test_a_group_has_settings_of_its_own() -> None:
    own = {
        "share_delivery_count_limit": "4",
        "share_isolation_level": "READ_COMMITTED",
        "share_auto_offset_reset": "earliest",
        "share_renew_acknowledge_enable": "FALSE",
        DEAD_LETTER_TOPIC: "dead",
    }
    found = settings_of(**own).of("g")
    assert found.records.delivery_count_limit == 4
    assert (found.records.is_renew_enabled, found.records.has_dead_letters) == (False, True)
    assert (found.isolation, found.reset, found.dead_letter_topic) == (
        Isolation.READ_COMMITTED,
        OffsetReset.EARLIEST,
        "dead",
    )
    other = settings_of(**own).of("h")
    assert (other.isolation, other.reset, other.dead_letter_topic) == (
        Isolation.READ_UNCOMMITTED,
        OffsetReset.LATEST,
        "",
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("latest", (OffsetReset.LATEST, 0)),
        ("Earliest", (OffsetReset.EARLIEST, 0)),
        ("by_duration:P1DT2H", (OffsetReset.BY_DURATION, 26 * 3_600_000)),
        ("by_duration:PT1M0.5S", (OffsetReset.BY_DURATION, 60_500)),
    ],
)
def test_where_a_group_begins(text: str, found: tuple[OffsetReset, int]) -> None:
    assert reset_of(text) == found


def test_defaults_outside_their_bounds_are_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"group\.share\.delivery\.count\.limit is 3, which is not between 4 and 8",
    ):
        node_config(
            **{"group.share.delivery.count.limit": "3", "group.share.min.delivery.count.limit": "4"}
        )


def test_a_broker_has_sessions_for_all_members_of_a_group() -> None:
    with pytest.raises(
        ConfigError, match=r"max\.share\.sessions is 7, below group\.share\.max\.size, which is 8"
    ):
        node_config(**{"group.share.max.size": "8"})


@pytest.mark.parametrize("name", ["a b", "__consumer_offsets", "."])
def test_dead_letters_need_a_topic_that_can_be(name: str) -> None:
    with pytest.raises(KafkaError, match="it must be the name of a topic"):
        validate_group_configs({DEAD_LETTER_TOPIC: name}, {})
