"""tidelog and Apache Kafka accept the same changes of configuration, key by key.

A sample of ``config_changes`` runs here, one case of each key; ``python -m
tests.integration.config_changes`` asks about all of them. What bounds each other, and what differs
on purpose, has cases of its own.
"""

from typing import NamedTuple

import pytest

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.integration.config_changes import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    TOPIC_NAME,
    Case,
    ask,
    meant,
    sample,
)
from tests.integration.differential import Duel

pytestmark = pytest.mark.timeout(120)

PROPERTIES: dict[str, str] = {}
SAMPLE = list(sample())


@pytest.mark.parametrize("kind", [TOPIC, GROUP, CLIENT_METRICS, BROKER])
@pytest.mark.parametrize("initials", ["a-f", "g-k", "l-q", "r-z"])
def test_one_change_of_every_key(duel: Duel, kind: int, initials: str) -> None:
    first, _, last = initials.partition("-")
    asked = [
        case
        for case in SAMPLE
        if case.resource_type == kind
        and first <= case.name.removeprefix("listener.name.")[0] <= last
    ]
    _create_topic(duel)
    duel.compare_told(
        lambda cluster: {
            str(case): code for case, code in zip(asked, ask(cluster.wire, asked), strict=True)
        }
    )


NAMED = {
    "retention_bytes": Case(
        resource_type=TOPIC,
        resource_name=TOPIC_NAME,
        name="retention.bytes",
        operation=SET,
        value="-2",
    ),
    "standbys": Case(
        resource_type=GROUP,
        resource_name="g",
        name="streams.num.standby.replicas",
        operation=SET,
        value="-1",
    ),
    "interval": Case(
        resource_type=CLIENT_METRICS,
        resource_name="m",
        name="interval.ms",
        operation=SET,
        value="x",
    ),
    "listener_default": Case(
        resource_type=BROKER,
        resource_name="",
        name="listener.name.plaintext.ssl.protocol",
        operation=SET,
        value="TLS",
    ),
    "listener_bad": Case(
        resource_type=BROKER,
        resource_name="1",
        name="listener.name.plaintext.max.connections",
        operation=SET,
        value="0",
    ),
    "listener_append": Case(
        resource_type=BROKER,
        resource_name="1",
        name="listener.name.plaintext.advertised.listeners",
        operation=APPEND,
        value="a",
    ),
    "elsewhere": Case(
        resource_type=BROKER,
        resource_name="1",
        name="listener.name.nope.num.partitions",
        operation=SET,
        value="x",
    ),
    "store": Case(
        resource_type=BROKER,
        resource_name="1",
        name="ssl.keystore.type",
        operation=SET,
        value="JKS",
    ),
    "relogin": Case(
        resource_type=BROKER,
        resource_name="1",
        name="sasl.kerberos.min.time.before.relogin",
        operation=SET,
        value="1",
    ),
    "reporter": Case(
        resource_type=BROKER,
        resource_name="1",
        name="metric.reporters",
        operation=SET,
        value="org.apache.kafka.common.metrics.JmxReporter",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_changes_that_were_judged_otherwise(duel: Duel, name: str) -> None:
    _create_topic(duel)
    duel.compare(NAMED[name].request(), NAMED[name].version)


TOGETHER = {
    "local_ms_unlimited": {"log.local.retention.ms": "-1"},
    "local_ms_below": {"log.retention.ms": "1000", "log.local.retention.ms": "999"},
    "local_ms_above": {"log.retention.ms": "1000", "log.local.retention.ms": "1001"},
    "local_ms_of_all": {"log.retention.ms": "-1", "log.local.retention.ms": "-1"},
    "local_bytes_unlimited": {"log.retention.bytes": "1000", "log.local.retention.bytes": "-1"},
    "local_bytes_above": {"log.retention.bytes": "1000", "log.local.retention.bytes": "1001"},
    "local_bytes_of_all": {"log.local.retention.bytes": "1001"},
    "no_hosts": {"max.connections.per.ip": "0"},
    "some_hosts": {
        "max.connections.per.ip": "0",
        "max.connections.per.ip.overrides": "127.0.0.1:500",
    },
    "cleaner_memory": {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097153"},
    "little_cleaner_memory": {
        "log.cleaner.threads": "2",
        "log.cleaner.dedupe.buffer.size": "2097152",
    },
    "interval": {"group.consumer.assignment.interval.ms": "15000"},
    "long_interval": {"group.consumer.assignment.interval.ms": "15001"},
    "reloaded": {"num.network.threads": "6"},
    "few_readers": {"remote.log.reader.threads": "4"},
    "half_the_readers": {"remote.log.reader.threads": "5"},
}


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("broker", ["1", ""])
def test_keys_that_bound_each_other(duel: Duel, broker: str, name: str) -> None:
    changes = [
        AlterableConfig(name=key, config_operation=SET, value=value)
        for key, value in TOGETHER[name].items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=broker, configs=changes)
    duel.compare(IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1)


class OnPurpose(NamedTuple):
    """A change of this broker that the two judge differently."""

    name: str
    operation: int
    value: str
    code: ErrorCode
    kafkas_code: ErrorCode


ON_PURPOSE = (
    OnPurpose(
        "process.roles", APPEND, "a", ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR
    ),
    OnPurpose(
        "controller.listener.names",
        SUBTRACT,
        "a",
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
    OnPurpose("listeners", SUBTRACT, "a", ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
    OnPurpose("config.providers", SET, "vault", ErrorCode.INVALID_REQUEST, ErrorCode.NONE),
    OnPurpose(
        "ssl.engine.factory.class",
        SET,
        "java.lang.String",
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
    OnPurpose("log.flush.interval.ms", SET, "-1", ErrorCode.INVALID_REQUEST, ErrorCode.NONE),
    OnPurpose(
        "log.cleaner.io.buffer.load.factor", SET, "-1", ErrorCode.INVALID_REQUEST, ErrorCode.NONE
    ),
    OnPurpose(
        "listener.name.plaintext.broker.session.timeout.ms",
        SET,
        "-1",
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ),
)


@pytest.mark.parametrize("change", ON_PURPOSE, ids=lambda change: change.name)
def test_changes_that_are_judged_otherwise_on_purpose(duel: Duel, change: OnPurpose) -> None:
    case = Case(
        resource_type=BROKER,
        resource_name="1",
        name=change.name,
        operation=change.operation,
        value=change.value,
    )
    assert meant(case) is not None
    assert ask(duel.clusters.tidelog.wire, [case]) == [change.code]
    if duel.clusters.kafka is not None:
        assert ask(duel.clusters.kafka.wire, [case]) == [change.kafkas_code]


def _create_topic(duel: Duel) -> None:
    if TOPIC_NAME not in duel.clusters.tidelog.topic_ids:
        duel.create_topic(TOPIC_NAME)
