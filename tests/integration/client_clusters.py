"""Starts the clusters that the client is tested against.

One is tidelog, and the other is Apache Kafka if the environment says where its libraries are.

The tests are the same for both, and so is their outcome. A ``ClusterPool`` starts each of them
once, for all modules whose tests take any cluster; a test that needs properties of its own starts a
cluster of its own.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio

from log_service.client import BlockingAdmin, Consumer, ConsumerRecord
from log_service.common.errors import KafkaError
from tests.helpers.broker_process import BrokerThread
from tests.integration.kafka_node import KafkaNode, skip_unless_kafka_is_there

TIDELOG, APACHE_KAFKA = "tidelog", "apache kafka"
CLUSTERS = (TIDELOG, APACHE_KAFKA)
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
PROPERTIES = {"num.partitions": "4", "group.min.session.timeout.ms": "1000"}
SHARED_PROPERTIES: Mapping[str, str] = {
    "log.retention.ms": "-1",
    "log.initial.task.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2097152",
}
"""Of the clusters of a pool: records of long ago stay, and compaction does not keep a test waiting.
"""


@contextmanager
def tidelog(directory: Path, more: Mapping[str, str] = NO_PROPERTIES) -> Iterator[str]:
    """Run our broker, with ``more`` server properties; yields its bootstrap servers."""
    with BrokerThread(directory, properties={**PROPERTIES, **_placed(more, directory)}) as broker:
        yield broker.bootstrap


@contextmanager
def apache_kafka(
    directory: Path,
    more: Mapping[str, str] = NO_PROPERTIES,
    features: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """Run one node of Apache Kafka, with ``more`` server properties; yields its bootstrap servers."""
    with KafkaNode(directory, properties=_placed(more, directory), features=features) as node:
        yield node.bootstrap


@contextmanager
def cluster(
    name: str,
    directory: Path,
    more: Mapping[str, str] = NO_PROPERTIES,
    features: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """Run the one of ``CLUSTERS`` that is named, or skip; yields its bootstrap servers.
    ``features`` are levels of Apache Kafka's.
    """
    if name == APACHE_KAFKA:
        skip_unless_kafka_is_there()
        with apache_kafka(directory, more, features) as servers:
            yield servers
    else:
        with tidelog(directory, more) as servers:
            yield servers


class ClusterPool:
    """The clusters that modules share. Each is started when a module first asks for it, and ends
    with the pool.

    A module may change topics and groups. It changes nothing else: not the cluster's configuration,
    features or directories.
    """

    def __init__(self, stack: ExitStack, make_directory: Callable[[str], Path]) -> None:
        self._stack = stack
        self._make_directory = make_directory
        self._servers: dict[str, str] = {}

    def servers(self, name: str) -> str:
        """Return the bootstrap servers of the one of ``CLUSTERS`` that is named, or skip."""
        if name not in self._servers:
            directory = self._make_directory("shared")
            self._servers[name] = self._stack.enter_context(
                cluster(name, directory, SHARED_PROPERTIES)
            )
        return self._servers[name]

    def emptied(self, name: str) -> str:
        """The same, once the topics of earlier modules are deleted: all names are free."""
        servers = self.servers(name)
        with BlockingAdmin(servers) as admin:
            while left := [topic.name for topic in admin.list_topics()]:
                with suppress(KafkaError):  # one that a test has just deleted
                    admin.delete_topics(left)
        return servers


def _placed(properties: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return properties with ``{directory}`` filled in."""
    return {
        name: value.replace("{directory}", str(directory)) for name, value in properties.items()
    }


def run(main: Callable[..., Awaitable[Any]], *args: object) -> Any:
    """Run an asynchronous test, for a minute at most."""

    async def limited() -> Any:
        with trio.fail_after(60):
            return await main(*args)

    return trio.run(limited)


async def read_all(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until ``count`` records have come."""
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += await consumer.poll()
    return records
