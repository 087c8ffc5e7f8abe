"""Settings of clients: Kafka's defaults, bounds that are told by name."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from log_service.common.errors import ConfigError
from log_service.config.client import AdminConfig, ConsumerConfig, ProducerConfig, parse_servers


def test_defaults_are_those_of_kafka() -> None:
    producer = ProducerConfig.of("a:1", {})
    assert (
        producer.acks,
        producer.enable_idempotence,
        producer.linger_ms,
        producer.batch_size,
    ) == ("all", True, 5, 16_384)
    assert (producer.metadata_max_idle_ms, producer.metadata_max_age_ms) == (300_000, 300_000)
    assert (producer.buffer_memory, producer.max_request_size, producer.delivery_timeout_ms) == (
        33_554_432,
        1_048_576,
        120_000,
    )
    consumer = ConsumerConfig.of("a:1", {})
    assert (consumer.auto_offset_reset, consumer.isolation_level, consumer.max_poll_records) == (
        "latest",
        "read_uncommitted",
        500,
    )
    assert (
        consumer.session_timeout_ms,
        consumer.heartbeat_interval_ms,
        consumer.max_poll_interval_ms,
    ) == (45_000, 3_000, 300_000)
    assert AdminConfig.of("a:1", {}).metadata_max_age_ms == 300_000


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("a:1", (("a", 1),)),
        ("a:1, b:2", (("a", 1), ("b", 2))),
        (["a:1", "b:2"], (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
        ((("a", 1),), (("a", 1),)),
        ([("::1", "1")], (("::1", 1),)),
    ],
)
def test_servers_are_read_in_every_shape(
    servers: Any, expected: tuple[tuple[str, int], ...]
) -> None:
    assert parse_servers(servers) == expected


@pytest.mark.parametrize(
    "servers",
    [
        "",
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:b",
        "[::1",
        "::1]:9092",
        [],
        None,
        5,
        [("a", 65536)],
        [("a",)],
        [("a", "b")],
    ],
)
def test_servers_that_are_no_servers_are_refused(servers: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        parse_servers(servers)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"linger": 1}, "did you mean linger_ms"),
        ({"linger_ms": -1}, "linger_ms must be a whole number"),
        ({"linger_ms": True}, "linger_ms must be a whole number"),
        ({"metadata_max_idle_ms": 4_999}, "metadata_max_idle_ms must be a whole number from 5000"),
        ({"batch_size": "16"}, "batch_size must be a whole number"),
        ({"acks": "2"}, "acks must be one of"),
        ({"acks": 1}, "enable_idempotence needs acks='all'"),
        ({"max_in_flight_requests_per_connection": 6}, "allows 5 requests in flight, not 6"),
        ({"compression": "brotli"}, "compression must be one of none, gzip, snappy, lz4, zstd"),
        ({"delivery_timeout_ms": 10}, "delivery_timeout_ms 10 is less than"),
        ({"enable_idempotence": "false"}, "enable_idempotence must be True or False, not 'false'"),
        ({"client_id": 5}, "client_id must be text, not 5"),
        ({"client_id": "x" * 40_000}, "client_id has more than 32767 bytes"),
        (
            {"compression": "zstd", "compression_level": 3.0},
            "compression_level must be a whole number or None, not 3.0",
        ),
    ],
)
def test_a_wrong_producer_setting_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ProducerConfig.of("a:1", settings)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"heartbeat_interval_ms": 45_000}, "heartbeat_interval_ms 45000 is not below"),
        ({"group_id": ""}, "group_id is empty"),
        ({"group_instance_id": "i"}, "needs a group_id"),
        ({"auto_offset_reset": "first"}, "auto_offset_reset must be one of earliest, latest, none"),
        ({"partition_assignment_strategy": ()}, "names no assignor"),
        (
            {"partition_assignment_strategy": 5},
            "partition_assignment_strategy must be a text or several, not 5",
        ),
        ({"enable_auto_commit": "false"}, "enable_auto_commit must be True or False, not 'false'"),
        ({"group_id": 5}, "group_id must be text or None, not 5"),
        ({"group_id": "g", "group_instance_id": ""}, "group_instance_id is empty"),
        ({"client_rack": None}, "client_rack must be text, not None"),
    ],
)
def test_a_wrong_consumer_setting_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ConsumerConfig.of("a:1", settings)


@pytest.mark.parametrize(
    "given", ["range,sticky", "range, sticky", ["range", "sticky"], ("range", "sticky")]
)
def test_assignors_are_listed_or_separated_by_commas(given: Any) -> None:
    assert ConsumerConfig.of(
        "a:1", {"partition_assignment_strategy": given}
    ).partition_assignment_strategy == ("range", "sticky")


@pytest.mark.parametrize(("acks", "required"), [("all", -1), (-1, -1), (1, 1), ("0", 0)])
def test_acks_may_be_text_or_number(acks: Any, required: int) -> None:
    assert (
        ProducerConfig.of("a:1", {"acks": acks, "enable_idempotence": False}).required_acks
        == required
    )


def test_a_config_is_frozen() -> None:
    config = AdminConfig.of("a:1", {})
    with pytest.raises(FrozenInstanceError):
        config.client_id = "other"  # type: ignore[misc]
