"""Topic configuration: validity, the view it makes, and how it is described."""

from dataclasses import replace

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.definition import ConfigSource, ConfigType
from log_service.config.describe import (
    ConfigRow,
    describe_all_brokers,
    describe_broker,
    describe_new_topic,
    describe_topic,
)
from log_service.config.resolve import Layers, dynamic_log_defaults, log_defaults
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic import log_config, validate_topic_configs
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.config.views import LogConfig


def topic_row(name: str, layers: Layers) -> ConfigRow:
    (row,) = describe_topic(layers, [name])
    return row


def test_a_topic_without_configuration_is_the_brokers_default() -> None:
    defaults = LogConfig(retention_ms=5)
    assert log_config(defaults, {}) is defaults


def test_a_topics_own_values_stand_over_the_defaults() -> None:
    config = log_config(
        LogConfig(retention_ms=5),
        {"retention.ms": "7", "cleanup.policy": "compact", "segment.bytes": "2000000"},
    )
    assert (config.retention_ms, config.is_compacted, config.is_deleted, config.segment_bytes) == (
        7,
        True,
        False,
        2_000_000,
    )


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    config = log_config(LogConfig(), {"cleanup.policy": ""})
    assert (config.is_compacted, config.is_deleted) == (False, False)


def test_values_of_another_version_do_not_keep_a_log_from_opening() -> None:
    assert log_config(LogConfig(), {"some.future.key": "1", "retention.ms": "soon"}) == LogConfig()


def test_the_views_defaults_are_the_keys_defaults() -> None:
    assert log_defaults({}) == LogConfig()


def test_dynamic_defaults_win_over_the_file_and_a_brokers_own_over_all_brokers() -> None:
    static = {"log.retention.hours": "1"}
    of_file = log_defaults(static)
    assert of_file.retention_ms == 3_600_000
    for cluster, broker, expected in (
        ({}, {}, 3_600_000),
        ({"log.retention.ms": "20"}, {}, 20),
        ({"log.retention.ms": "20"}, {"log.retention.ms": "30"}, 30),
        ({"log.retention.ms": "soon"}, {}, 3_600_000),
    ):
        assert (
            dynamic_log_defaults(
                of_file, Layers(static=static, cluster=cluster, broker=broker)
            ).retention_ms
            == expected
        )


def test_dynamic_defaults_change_nothing_but_what_they_name() -> None:
    of_file = replace(log_defaults({}), segment_bytes=77, is_compacted=True)
    assert dynamic_log_defaults(of_file, Layers(cluster={"min.insync.replicas": "2"})) == replace(
        of_file, min_insync_replicas=2
    )
    assert dynamic_log_defaults(
        of_file, Layers(broker={"log.cleanup.policy": "delete"})
    ) == replace(of_file, is_compacted=False)


@pytest.mark.parametrize(
    ("configs", "named"),
    [
        ({"nope": "1"}, "nope is not a topic configuration"),
        ({"retention.mss": "1"}, "did you mean retention.ms?"),
        ({"retention.ms": "-7"}, "at least -1"),
        ({"retention.ms": "abc"}, "whole number"),
        ({"retention.ms": None}, "has no value"),
        ({"cleanup.policy": "shrink"}, "shrink"),
        ({"compression.type": "none"}, "uncompressed"),
        ({"segment.bytes": "14"}, "at least 1048576"),
        ({"remote.storage.enable": "true"}, "no remote storage"),
        ({"leader.replication.throttled.replicas": "a"}, "partition:broker"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "above max.compaction.lag.ms",
        ),
    ],
)
def test_a_value_that_a_topic_cannot_have_is_invalid_config(
    configs: dict[str, str | None], named: str
) -> None:
    with pytest.raises(KafkaError) as raised:
        validate_topic_configs(configs)
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert named in str(raised.value)


@pytest.mark.parametrize("name", sorted(TOPIC_KEYS))
def test_every_default_may_be_set_by_a_topic(name: str) -> None:
    validate_topic_configs({name: TOPIC_KEYS[name].default})


def test_every_topic_key_is_described_with_a_value_and_a_type() -> None:
    rows = describe_topic(Layers())
    assert [row.name for row in rows] == sorted(
        name for name, key in TOPIC_KEYS.items() if not key.is_internal
    )
    assert all(
        row.value is not None and row.source is ConfigSource.DEFAULT and row.documentation
        for row in rows
    )
    assert {row.name: row.type for row in rows}["cleanup.policy"] is ConfigType.LIST


def test_a_topics_row_lists_all_that_would_set_it_in_order() -> None:
    layers = Layers(
        topic={"retention.ms": "1"},
        broker={"log.retention.ms": "2"},
        cluster={"log.retention.ms": "3"},
        static={"log.retention.hours": "4"},
    )
    row = topic_row("retention.ms", layers)
    assert (row.value, row.source) == ("1", ConfigSource.DYNAMIC_TOPIC)
    assert [(synonym.name, synonym.value, int(synonym.source)) for synonym in row.synonyms] == [
        ("retention.ms", "1", 1),
        ("log.retention.ms", "2", 2),
        ("log.retention.ms", "3", 3),
        ("log.retention.hours", "4", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_a_value_from_a_coarser_unit_is_shown_in_the_topics_own() -> None:
    row = topic_row("retention.ms", Layers(static={"log.retention.hours": "4"}))
    assert (row.value, row.source, row.synonyms) == ("14400000", ConfigSource.DEFAULT, ())


def test_a_new_topic_is_told_the_true_source_of_a_coarser_unit() -> None:
    rows = {
        row.name: row for row in describe_new_topic(Layers(static={"log.retention.hours": "4"}))
    }
    assert rows.keys() == {name for name, key in TOPIC_KEYS.items() if not key.is_internal}
    assert (rows["retention.ms"].value, rows["retention.ms"].source) == (
        "14400000",
        ConfigSource.STATIC_BROKER,
    )


def test_booleans_and_lists_are_shown_as_kafka_writes_them() -> None:
    assert topic_row("preallocate", Layers()).value == "false"
    assert (
        topic_row("cleanup.policy", Layers(static={"log.cleanup.policy": "compact, delete"})).value
        == "compact,delete"
    )


def test_every_server_key_is_described() -> None:
    rows = {row.name: row for row in describe_broker(Layers(static={"node.id": "3"}))}
    assert rows.keys() == {name for name, key in SERVER_KEYS.items() if not key.is_internal}
    assert (rows["node.id"].value, rows["node.id"].source, rows["node.id"].is_read_only) == (
        "3",
        ConfigSource.STATIC_BROKER,
        True,
    )
    assert (rows["log.retention.ms"].value, rows["log.retention.ms"].is_read_only) == (None, False)


def test_a_brokers_dynamic_value_wins_over_its_file() -> None:
    layers = Layers(broker={"log.retention.ms": "1"}, static={"log.retention.ms": "2"})
    (row,) = describe_broker(layers, ["log.retention.ms"])
    assert (row.value, row.source) == ("1", ConfigSource.DYNAMIC_BROKER)
    assert [(synonym.name, synonym.value) for synonym in row.synonyms] == [
        ("log.retention.ms", "1"),
        ("log.retention.ms", "2"),
        ("log.retention.hours", "168"),
    ]


def test_all_brokers_are_described_by_what_was_set_for_them() -> None:
    assert describe_all_brokers(Layers(static={"node.id": "1"})) == []
    (row,) = describe_all_brokers(
        Layers(cluster={"log.retention.ms": "5"}, static={"node.id": "1"})
    )
    assert (row.name, row.value, row.source) == (
        "log.retention.ms",
        "5",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    )
