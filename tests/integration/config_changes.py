"""Requests change every configuration key in every way, and are validated and not made.

Some differences from Apache Kafka are on purpose.

    python -m tests.integration.config_changes          # some 67,000 requests to tidelog and to Apache Kafka; prints what differs

A ``Case`` is one key of one resource, one operation and one value. This module decides which cases
are worth asking, and knows which of Apache Kafka's responses are not followed (``meant``;
docs/compatibility.md gives the reasons). For every other case Apache Kafka is the judge:
``test_differential_config_changes`` compares a sample with its recorded responses in every run, the
command compares all cases with a running node in a minute (``TIDELOG_KAFKA_LIBS``, see
``kafka_node``).
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from log_service.common.errors import ConfigError
from log_service.config.definition import ConfigKey, ConfigType, Trait
from log_service.config.dynamic_keys import base_name
from log_service.config.resource_keys import CLIENT_METRICS_KEYS, GROUP_KEYS
from log_service.config.runtime_keys import QUOTA_KEYS
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.alter_configs import AlterableConfig as ReplacingConfig
from log_service.protocol.messages.alter_configs import AlterConfigsRequest
from log_service.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.helpers.broker_process import BrokerThread
from tests.integration import confluent
from tests.integration.kafka_node import KafkaNode
from tests.integration.wire import Wire

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT, REPLACE = range(5)
OPERATION_NAMES = ("SET", "DELETE", "APPEND", "SUBTRACT", "REPLACE")
"""REPLACE is AlterConfigs, which names the whole configuration of a resource; the others are
operations of IncrementalAlterConfigs.
"""

TOPIC_NAME = "t"
PREFIXES = ("", "listener.name.plaintext.", "listener.name.nope.")
VALUES = ("", "-2", "-1", "0", "1", " 1 ", "1.5", "true", "x", "a,a,")
"""Texts that are tried with every key, beside its default and the edges of its type."""

VALID = {
    ConfigType.BOOLEAN: ("true",),
    ConfigType.STRING: ("gzip",),
    ConfigType.INT: ("2147483647",),
    ConfigType.SHORT: ("32767",),
    ConfigType.LONG: ("9223372036854775807",),
    ConfigType.DOUBLE: ("0.25",),
    ConfigType.LIST: ("compact",),
    ConfigType.CLASS: ("java.lang.String",),
    ConfigType.PASSWORD: ("secret",),
}
"""One more text for each type."""

BATCH = 64
"""Requests that are under way at the same time on one connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One change of one key of one resource."""

    resource_type: int
    resource_name: str
    name: str
    operation: int
    value: str | None

    def __str__(self) -> str:
        return f"{self.resource_type}:{self.resource_name or '<default>'} {OPERATION_NAMES[self.operation]} {self.name}={self.value!r}"

    def request(self) -> AlterConfigsRequest | IncrementalAlterConfigsRequest:
        """The request that asks whether the change could be made."""
        kind, name = self.resource_type, self.resource_name
        if self.operation == REPLACE:
            replacing = [ReplacingConfig(name=self.name, value=self.value)]
            return AlterConfigsRequest(
                resources=[
                    ReplacedResource(resource_type=kind, resource_name=name, configs=replacing)
                ],
                validate_only=True,
            )
        changes = [
            AlterableConfig(name=self.name, config_operation=self.operation, value=self.value)
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)

    @property
    def version(self) -> int:
        """The version of the API that is asked."""
        return 2 if self.operation == REPLACE else 1


def cases() -> Iterator[Case]:
    """Yield every case, in an order that stays the same from run to run."""
    topics = {name: key for name, key in TOPIC_KEYS.items() if Trait.OWN not in key.traits}
    yield from _cases_of(TOPIC, (TOPIC_NAME,), topics, ("",))
    groups = {name: key for name, key in GROUP_KEYS.items() if not key.is_internal}
    yield from _cases_of(GROUP, ("g",), groups, ("",))
    yield from _cases_of(CLIENT_METRICS, ("m",), CLIENT_METRICS_KEYS, ("",))
    brokers = {
        name: key for name, key in SERVER_KEYS.items() if Trait.OWN not in key.traits
    } | QUOTA_KEYS
    yield from _cases_of(BROKER, ("1", ""), brokers, PREFIXES)


def _cases_of(
    kind: int, names: Sequence[str], keys: Mapping[str, ConfigKey], prefixes: Sequence[str]
) -> Iterator[Case]:
    for key in sorted(keys.values(), key=lambda each: each.name):
        for name in names:
            for prefix in prefixes:
                yield from (
                    Case(
                        resource_type=kind,
                        resource_name=name,
                        name=prefix + key.name,
                        operation=operation,
                        value=value,
                    )
                    for operation, value in _changes(key)
                )


def _changes(key: ConfigKey) -> Iterator[tuple[int, str | None]]:
    values = dict.fromkeys(
        (*VALUES, *VALID[key.type], *([] if key.default is None else [key.default]))
    )
    yield from ((SET, value) for value in values)
    yield from ((REPLACE, value) for value in values)
    yield DELETE, None
    yield from (
        (operation, value)
        for operation in (APPEND, SUBTRACT)
        for value in ("", "a", key.default or "compact")
    )


# What differs on purpose


def meant(case: Case) -> str | None:
    """Return why a case is not judged by Apache Kafka; None where it is."""
    key = SERVER_KEYS.get(base_name(case.name)) if case.resource_type == BROKER else None
    if key is None:
        return None
    reason = None
    if key.name in {"process.roles", "controller.listener.names"} and case.operation in {
        APPEND,
        SUBTRACT,
    }:
        reason = "Apache Kafka fails with an unexpected error: these keys have no default that it could append to"
    elif case.name == "listeners" and case.operation == SUBTRACT:
        reason = (
            "what is subtracted from is the file's value here, and Apache Kafka's default there"
        )
    elif key.name == "config.providers":
        reason = "values from elsewhere cannot be fetched here, so that none may be promised"
    elif key.type is ConfigType.CLASS and case.value == "java.lang.String":
        reason = "Java classes cannot run here"
    elif key.name in (
        BOUNDS_OF_OUR_OWN
        if case.name == key.name
        else BOUNDS_WITH_A_PREFIX
        if case.resource_name
        else ()
    ):
        reason = _complaint(key, case.value or "")
    return reason


BOUNDS_OF_OUR_OWN = frozenset({"log.cleaner.io.buffer.load.factor", "log.flush.interval.ms"})
"""Keys that take what makes no sense in Apache Kafka: it accepts the change and fails when it
applies it.
"""

BOUNDS_WITH_A_PREFIX = BOUNDS_OF_OUR_OWN | {
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "default.replication.factor",
    "group.initial.rebalance.delay.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "max.connections.per.ip.overrides",
    "offset.metadata.max.bytes",
    "offsets.topic.compression.codec",
    "replica.high.watermark.checkpoint.interval.ms",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}
"""Keys whose bounds Apache Kafka does not look at where a listener's prefix stands before them,
which has no meaning for them.
"""


def _complaint(key: ConfigKey, text: str) -> str | None:
    """Say that a value is none of a key here."""
    try:
        key.parse(text)
    except ConfigError as fault:
        return str(fault)
    return None


# Asking


def sample() -> Iterator[Case]:
    """Yield one case of each key of each resource that Apache Kafka judges.

    They are hundreds out of tens of thousands, always the same.
    """
    chosen: dict[tuple[int, str, str], Case] = {}
    for case in cases():
        of = (case.resource_type, case.resource_name, base_name(case.name))
        if meant(case) is None and (
            of not in chosen or crc32(str(case).encode()) < crc32(str(chosen[of]).encode())
        ):
            chosen[of] = case
    yield from chosen.values()


def ask(wire: Wire, asked: Sequence[Case]) -> list[int]:
    """Return the error code of each case's response."""
    codes = []
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        for case in batch:
            wire.send(case.request(), case.version)
        for case in batch:
            response = wire.receive(
                ApiKey.ALTER_CONFIGS
                if case.operation == REPLACE
                else ApiKey.INCREMENTAL_ALTER_CONFIGS,
                case.version,
            )
            codes.append(response.responses[0].error_code)
    return codes


def main() -> int:
    """Ask both about every case; print what differs and is not meant to."""
    asked = [case for case in cases() if meant(case) is None]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        with BrokerThread(path / "tidelog") as broker:
            ours = _ask_all(broker.bootstrap, asked)
        with KafkaNode(path / "kafka") as node:
            theirs = _ask_all(node.bootstrap, asked)
    different = [told for told in zip(asked, ours, theirs, strict=True) if told[1] != told[2]]
    for case, our_code, their_code in different:
        print(f"{case}: tidelog {our_code}, Apache Kafka {their_code}")
    print(f"{len(asked)} requests, {len(different)} of them told apart")
    return 1 if different else 0


def _ask_all(bootstrap: str, asked: Sequence[Case]) -> list[int]:
    confluent.create_topic(bootstrap, TOPIC_NAME)
    with Wire(bootstrap) as wire:
        return ask(wire, asked)


if __name__ == "__main__":
    sys.exit(main())
