"""Configuration is shown and changed as Apache Kafka does it.

The tests have every key, default, type, source and synonym, and every refusal.

What differs on purpose stands in the lists of deviations here, each with its reason; everything
else has to be equal.
"""

from functools import partial

import pytest

from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.integration.differential import Duel

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
ALL_BROKERS = ""

PROPERTIES = {
    "broker.rack": "r1",
    "foo.bar": "1",
    "my.password": "hello",
    "listener.name.plaintext.max.connections": "77",
    "listener.name.plaintext.foo": "1",
    "log.retention.hours": "24",
    "log.roll.hours": "48",
    "log.segment.bytes": "2000000",
    "offsets.topic.replication.factor": "1",
    "ssl.truststore.password": "secret",
    "process.roles": "broker,controller",
}
"""The file of both nodes, beside what each needs to start."""

OTHER_VALUES_OF_BROKERS = {
    "controller.listener.names": "has a default here, so that a first file may be empty; Kafka's test node has it in the file",
    "controller.quorum.bootstrap.servers": "is set for Kafka's test node",
    "controller.quorum.voters": "is set for Kafka's test node",
    "group.initial.rebalance.delay.ms": "is set for both nodes, by other files",
    "listener.name.plaintext.max.connections": "its synonym is max.connections, see there",
    "listener.security.protocol.map": "knows CONTROLLER by default, so that a first file may be empty",
    "listeners": "names the ports of the test",
    "log.dir": "is a folder below the present one, not in the system's temporary files",
    "log.dirs": "names the folders of the test",
    "max.connections": "is bounded by default",
    "max.connections.per.ip": "is bounded by default",
    "num.io.threads": "are those of the disk alone",
    "offsets.topic.num.partitions": "is set for both nodes, by other files",
    "offsets.topic.replication.factor": "is set for Kafka's test node",
    "socket.receive.buffer.bytes": "is the system's by default, which is faster",
    "socket.send.buffer.bytes": "is the system's by default, which is faster",
    "transaction.state.log.min.isr": "is set for Kafka's test node",
    "transaction.state.log.num.partitions": "is set for Kafka's test node",
    "transaction.state.log.replication.factor": "is set for Kafka's test node",
}
"""Keys of a broker that have other values, and why; their types and modes are equal all the same.
"""
VALUES = ("value", "config_source", "synonyms", "documentation", "error_message")


def described(
    resource_type: int, name: str, keys: list[str] | None = None, *, with_synonyms: bool = True
) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=with_synonyms)


def change(name: str, operation: int, value: str | None) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


def altered(
    resource_type: int, name: str, *changes: AlterableConfig, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=list(changes)
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def names_of(response: DescribeConfigsResponse) -> set[str]:
    return {config.name for config in response.results[0].configs}


# What is shown


def test_every_key_of_a_topic(duel: Duel) -> None:
    duel.create_topic("keys")
    keys = names_of(duel.compare(described(TOPIC, "keys"), 4, ignore=VALUES))
    for version in range(1, 5):
        duel.compare(described(TOPIC, "keys", sorted(keys)), version)
    duel.compare(described(TOPIC, "keys", ["retention.ms", "no.such.key"], with_synonyms=False), 4)


def test_every_key_of_a_broker(duel: Duel) -> None:
    keys = names_of(duel.compare(described(BROKER, "1"), 4, ignore=VALUES))
    assert keys > OTHER_VALUES_OF_BROKERS.keys()
    duel.compare(described(BROKER, "1", sorted(keys - OTHER_VALUES_OF_BROKERS.keys())), 4)


def test_the_default_of_all_brokers(duel: Duel) -> None:
    duel.compare(described(BROKER, ALL_BROKERS, ["log.retention.ms", "num.partitions"]), 4)


def test_every_key_of_a_group_and_of_client_metrics(duel: Duel) -> None:
    duel.compare(described(GROUP, "anybody"), 4)
    duel.compare(described(METRICS, "anything"), 4)


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [
        (TOPIC, "nowhere"),
        (TOPIC, ""),
        (TOPIC, "bad/name"),
        (BROKER, "7"),
        (BROKER, "x"),
        (LOGGER, ""),
        (LOGGER, "7"),
        (LOGGER, "x"),
        (GROUP, ""),
        (METRICS, ""),
        (0, ""),
        (1, "a"),
        (3, "a"),
        (64, "a"),
    ],
)
def test_what_cannot_be_shown(duel: Duel, resource_type: int, name: str) -> None:
    duel.compare(described(resource_type, name), 4, ignore=("error_message",))


def test_one_strange_type_fails_the_whole_request(duel: Duel) -> None:
    duel.create_topic("beside")
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name="beside", configuration_keys=None)
        for kind in (TOPIC, 3)
    ]
    duel.compare(DescribeConfigsRequest(resources=resources), 4, ignore=("error_message",))


# What is refused

TOPIC_CHANGES = {
    "set": change("retention.ms", SET, "5000"),
    "blanks": change("retention.ms", SET, " 5 "),
    "delete_unset": change("flush.ms", DELETE, None),
    "delete_unknown": change("nope", DELETE, None),
    "unknown": change("nope", SET, "1"),
    "bad_value": change("retention.ms", SET, "abc"),
    "out_of_range": change("retention.ms", SET, "-2"),
    "null": change("retention.ms", SET, None),
    "empty": change("retention.ms", SET, ""),
    "empty_list": change("cleanup.policy", SET, ""),
    "repeated_item": change("cleanup.policy", SET, "delete,delete"),
    "append_to_a_number": change("retention.ms", APPEND, "1"),
    "append_to_nothing": change("nope", APPEND, "1"),
    "append_null": change("cleanup.policy", APPEND, None),
    "append_bad": change("cleanup.policy", APPEND, "xyz"),
    "subtract_absent": change("cleanup.policy", SUBTRACT, "compact"),
    "remote": change("remote.storage.enable", SET, "true"),
    "throttled": change("leader.replication.throttled.replicas", SET, "*"),
    "throttled_bad": change("leader.replication.throttled.replicas", SET, "a"),
    "small_segment": change("segment.bytes", SET, "1000"),
    "boolean": change("preallocate", SET, "TRUE"),
    "bad_boolean": change("preallocate", SET, "yes"),
    "double": change("min.cleanable.dirty.ratio", SET, "1e-1"),
    "no_replica": change("min.insync.replicas", SET, "0"),
    "many_replicas": change("min.insync.replicas", SET, "5"),
    "gzip": change("compression.gzip.level", SET, "0"),
    "broker_key": change("num.partitions", SET, "3"),
}


@pytest.mark.parametrize("case", TOPIC_CHANGES)
def test_changes_of_a_topic(duel: Duel, case: str) -> None:
    duel.create_topic(f"changed-{case}".replace("_", "-"))
    for validate_only in (True, False):
        duel.compare(
            altered(
                TOPIC,
                f"changed-{case}".replace("_", "-"),
                TOPIC_CHANGES[case],
                validate_only=validate_only,
            ),
            1,
        )


def test_lists_are_appended_to_and_subtracted_from(duel: Duel) -> None:
    duel.create_topic("lists")
    for operation, value in (
        (SET, "delete,delete"),
        (APPEND, "compact"),
        (APPEND, "compact"),
        (SUBTRACT, "compact"),
        (SUBTRACT, "delete"),
    ):
        duel.compare(altered(TOPIC, "lists", change("cleanup.policy", operation, value)), 1)
    duel.until(
        described(TOPIC, "lists", ["cleanup.policy"]),
        4,
        lambda answer: answer.results[0].configs[0].value == "delete",
    )
    duel.compare(described(TOPIC, "lists", ["cleanup.policy"]), 4)


@pytest.mark.parametrize(
    "value",
    [
        "",
        ",",
        "compact,",
        ",compact",
        "compact,,delete",
        " compact",
        "delete, delete",
        "0:1,",
        ",*",
        "0:1,,1:1",
    ],
)
def test_parts_of_lists(duel: Duel, value: str) -> None:
    """An appended text is split and not trimmed.

    Empty parts count but at its end.
    """
    if "parts" not in duel.clusters.tidelog.topic_ids:
        duel.create_topic("parts")
    for operation in (SET, APPEND, SUBTRACT):
        for key in ("cleanup.policy", "leader.replication.throttled.replicas"):
            duel.compare(
                altered(TOPIC, "parts", change(key, operation, value), validate_only=True), 1
            )
        for broker in ("1", ALL_BROKERS):
            duel.compare(
                altered(
                    BROKER,
                    broker,
                    change("log.cleanup.policy", operation, value),
                    validate_only=True,
                ),
                1,
            )


@pytest.mark.parametrize("resource_type", [TOPIC, METRICS, GROUP, BROKER, 3])
@pytest.mark.parametrize("name", ["missing", "", "not a name"])
def test_what_is_looked_at_first(duel: Duel, resource_type: int, name: str) -> None:
    """Operations before names, these before values, and values before whether there is such a
    topic.
    """
    for changed in (
        change("retention.ms", APPEND, "1"),
        change("retention.ms", SET, "soon"),
        change("retention.ms", SET, None),
        change("cleanup.policy", APPEND, "burn"),
        change("nope", SET, "1"),
    ):
        if (resource_type, name) != (BROKER, ALL_BROKERS):
            duel.compare(altered(resource_type, name, changed), 1)


def test_a_list_does_not_grow_for_ever(duel: Duel) -> None:
    duel.create_topic("grown")
    for first in (1000, 4000):
        pairs = ",".join(f"{partition}:1" for partition in range(first, first + 3000))
        duel.compare(
            altered(
                TOPIC, "grown", change("follower.replication.throttled.replicas", APPEND, pairs)
            ),
            1,
        )


def test_values_are_shown_as_they_are_read(duel: Duel) -> None:
    duel.create_topic("shown")
    changes = [
        change("preallocate", SET, "TRUE"),
        change("min.cleanable.dirty.ratio", SET, "1e-1"),
        change("retention.ms", SET, " 5 "),
    ]
    duel.compare(altered(TOPIC, "shown", *changes), 1)
    asked = described(TOPIC, "shown", ["preallocate", "min.cleanable.dirty.ratio", "retention.ms"])
    duel.until(
        asked,
        4,
        lambda answer: {config.config_source for config in answer.results[0].configs} == {1},
    )
    duel.compare(asked, 4)


def test_a_topic_may_not_be_changed_against_itself(duel: Duel) -> None:
    duel.create_topic("self")
    duel.compare(
        altered(TOPIC, "self", change("retention.ms", SET, "1"), change("retention.ms", SET, "2")),
        1,
    )
    duel.compare(
        altered(
            TOPIC,
            "self",
            change("min.compaction.lag.ms", SET, "100"),
            change("max.compaction.lag.ms", SET, "10"),
        ),
        1,
    )
    duel.compare(altered(TOPIC, "self"), 1)
    one = altered(TOPIC, "self", change("retention.ms", SET, "1")).resources
    duel.compare(IncrementalAlterConfigsRequest(resources=one * 2), 1)
    duel.compare(IncrementalAlterConfigsRequest(resources=[]), 1)


NOT_CHANGEABLE = [
    (TOPIC, "nowhere"),
    (TOPIC, ""),
    (TOPIC, "a/b"),
    (BROKER, "7"),
    (BROKER, "x"),
    (GROUP, ""),
    (METRICS, ""),
    (LOGGER, ""),
    (LOGGER, "7"),
    (0, "x"),
    (3, "x"),
    (64, "x"),
]


@pytest.mark.parametrize(("resource_type", "name"), NOT_CHANGEABLE)
def test_what_cannot_be_changed(duel: Duel, resource_type: int, name: str) -> None:
    duel.compare(altered(resource_type, name, change("retention.ms", SET, "1")), 1)


OWN_BROKER_CHANGES = {
    "read_only": change("num.partitions", SET, "3"),
    "read_only_unit": change("log.retention.minutes", SET, "1"),
    "internal": change("log.initial.task.delay.ms", SET, "1"),
    "advertised": change("advertised.listeners", SET, "PLAINTEXT://127.0.0.1:1"),
    "unknown": change("foo.baz", SET, "3"),
    "unknown_delete": change("foo.baz", DELETE, None),
    "bad_number": change("max.connections", SET, "abc"),
    "out_of_range": change("max.connections", SET, "-1"),
    "null": change("max.connections", SET, None),
    "of_a_listener": change("listener.name.plaintext.max.connection.creation.rate", SET, "50000"),
    "of_no_listener": change("listener.name.nope.max.connections", SET, "50"),
    "bad_hosts": change("max.connections.per.ip.overrides", SET, "xx"),
    "bad_hosts_count": change("max.connections.per.ip.overrides", SET, "127.0.0.1:x"),
    "hosts": change("max.connections.per.ip.overrides", SET, "127.0.0.1:500"),
    "many_threads": change("num.io.threads", SET, "100"),
    "few_threads": change("num.io.threads", SET, "1"),
    "bare_password": change("ssl.key.password", SET, "secret"),
    "no_listeners": change("listeners", SET, "xxx"),
    "reporters": change("metric.reporters", SET, "org.x.Y"),
    "strange_directory": change("cordoned.log.dirs", SET, "/nope"),
    "quota": change("leader.replication.throttled.rate", SET, "1000"),
    "bad_quota": change("leader.replication.throttled.rate", SET, "-1"),
    "small_segment": change("log.segment.bytes", SET, "1000"),
    "timestamp": change("log.message.timestamp.type", SET, "x"),
    "consumer_groups": change("group.consumer.assignment.interval.ms", SET, "100"),
}


@pytest.mark.parametrize("case", OWN_BROKER_CHANGES)
def test_changes_of_a_broker(duel: Duel, case: str) -> None:
    for name in ("1", ALL_BROKERS):
        if not (name == "1" and case == "of_a_listener"):
            # Kafka fails once such a key is set; here it acts.
            duel.compare(altered(BROKER, name, OWN_BROKER_CHANGES[case], validate_only=True), 1)


def test_a_broker_wins_over_all_brokers_and_these_over_the_file(duel: Duel) -> None:
    duel.create_topic("layers")
    # Kafka 4.3.1 forgets log.retention.hours of the file here.
    names = [
        "log.retention.ms",
        "log.segment.bytes",
        "log.cleanup.policy",
    ]
    for broker, value in ((ALL_BROKERS, "70000"), ("1", "60000")):
        duel.compare(
            altered(
                BROKER,
                broker,
                change("log.retention.ms", SET, value),
                change("log.segment.bytes", SET, "3000000"),
            ),
            1,
        )
    duel.compare(altered(BROKER, ALL_BROKERS, change("log.cleanup.policy", APPEND, "compact")), 1)
    asked = described(BROKER, "1", names)
    duel.until(
        asked,
        4,
        lambda answer: "delete,compact" in {config.value for config in answer.results[0].configs},
    )
    duel.compare(asked, 4)
    duel.compare(described(BROKER, ALL_BROKERS, names), 4)
    duel.compare(described(TOPIC, "layers", ["retention.ms", "segment.bytes", "cleanup.policy"]), 4)
    for broker in ("1", ALL_BROKERS):
        duel.compare(altered(BROKER, broker, *(change(name, DELETE, None) for name in names)), 1)


def test_a_name_that_nobody_knows_is_kept_and_hidden(duel: Duel) -> None:
    duel.compare(
        altered(
            BROKER,
            ALL_BROKERS,
            change("foo.baz", SET, "3"),
            change("follower.replication.throttled.rate", SET, "9"),
        ),
        1,
    )
    asked = described(BROKER, ALL_BROKERS, ["foo.baz", "follower.replication.throttled.rate"])
    duel.until(asked, 4, lambda answer: len(answer.results[0].configs) == 2)
    duel.compare(asked, 4)
    duel.compare(
        described(
            BROKER, "1", ["foo.baz", "foo.bar", "my.password", "listener.name.plaintext.foo"]
        ),
        4,
    )
    duel.compare(
        altered(
            BROKER,
            ALL_BROKERS,
            change("foo.baz", DELETE, None),
            change("follower.replication.throttled.rate", DELETE, None),
        ),
        1,
    )


def test_min_insync_replicas_is_a_value_of_the_cluster(duel: Duel) -> None:
    """While the cluster keeps eligible leader replicas, all controllers have to choose them by one
    value.
    """
    duel.compare(described(BROKER, "1", ["min.insync.replicas"]), 4)
    duel.compare(described(BROKER, ALL_BROKERS, ["min.insync.replicas"]), 4)
    for resource, each in (
        ("1", change("min.insync.replicas", SET, "1")),
        ("1", change("min.insync.replicas", DELETE, None)),
        (ALL_BROKERS, change("min.insync.replicas", SET, "2")),
        (ALL_BROKERS, change("min.insync.replicas", DELETE, None)),
    ):
        duel.compare(altered(BROKER, resource, each, validate_only=True), 1)


# Loggers, groups, client metrics

LEVELS = {
    "set": change("root", SET, "ERROR"),
    "bad_level": change("root", SET, "LOUD"),
    "delete_root": change("root", DELETE, None),
    "append": change("root", APPEND, "X"),
    "unknown": change("no.such.logger", SET, "DEBUG"),
    "null": change("root", SET, None),
}


@pytest.mark.parametrize("case", LEVELS)
def test_levels_of_loggers(duel: Duel, case: str) -> None:
    duel.compare(altered(LOGGER, "1", LEVELS[case], validate_only=True), 1)


OTHER_CHANGES = {
    "group": (GROUP, change("consumer.session.timeout.ms", SET, "50000")),
    "group_below": (GROUP, change("consumer.session.timeout.ms", SET, "1")),
    "group_above": (GROUP, change("share.delivery.count.limit", SET, "11")),
    "group_standby": (GROUP, change("streams.num.standby.replicas", SET, "3")),
    "group_unknown": (GROUP, change("xx", SET, "1")),
    "group_bad": (GROUP, change("consumer.session.timeout.ms", SET, "x")),
    "group_reset": (GROUP, change("share.auto.offset.reset", SET, "by_duration:PT1H")),
    "group_bad_reset": (GROUP, change("share.auto.offset.reset", SET, "sometimes")),
    "group_delete": (GROUP, change("consumer.session.timeout.ms", DELETE, None)),
    "metrics": (METRICS, change("interval.ms", SET, "5000")),
    "metrics_short": (METRICS, change("interval.ms", SET, "1")),
    "metrics_unknown": (METRICS, change("xx", SET, "1")),
    "metrics_match": (METRICS, change("match", SET, "client_id=a")),
    "metrics_bad_match": (METRICS, change("match", SET, "zz")),
    "metrics_list": (METRICS, change("metrics", SET, "a,b")),
}


@pytest.mark.parametrize("case", OTHER_CHANGES)
def test_changes_of_groups_and_client_metrics(duel: Duel, case: str) -> None:
    resource_type, changed = OTHER_CHANGES[case]
    name = case.replace("_", "-")
    answer = duel.compare(altered(resource_type, name, changed), 1)
    if answer.responses[0].error_code == 0 and changed.config_operation == SET:
        duel.until(described(resource_type, name), 4, partial(_is_set, changed.name))
    duel.compare(described(resource_type, name), 4)


def _is_set(name: str, answer: DescribeConfigsResponse) -> bool:
    """Return whether a group or client metrics resource has a value of its own.

    A change may be on its way in Kafka.
    """
    return any(
        config.name == name and config.config_source in {7, 8}
        for config in answer.results[0].configs
    )
