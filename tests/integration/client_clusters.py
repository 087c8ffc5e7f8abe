"""The clusters that the client is tested against: tidelog, and Apache Kafka where the environment says where its libraries are.

The tests are the same for both, and so is their outcome.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio

from log_service.client import Consumer, ConsumerRecord
from tests.helpers.broker_process import BrokerThread
from tests.integration.kafka_node import KafkaNode, skip_unless_kafka_is_there

APACHE_KAFKA = "apache kafka"
CLUSTERS = ("tidelog", APACHE_KAFKA)
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
PROPERTIES = {"num.partitions": "4", "group.min.session.timeout.ms": "1000"}


@contextmanager
def tidelog(directory: Path, more: Mapping[str, str] = NO_PROPERTIES) -> Iterator[str]:
    """Run our broker, with ``more`` server properties; yields its bootstrap servers."""
    with BrokerThread(directory, properties={**PROPERTIES, **_placed(more, directory)}) as broker:
        yield broker.bootstrap


@contextmanager
def apache_kafka(directory: Path, more: Mapping[str, str] = NO_PROPERTIES) -> Iterator[str]:
    """Run one node of Apache Kafka, with ``more`` server properties; yields its bootstrap servers."""
    with KafkaNode(directory, properties=_placed(more, directory)) as node:
        yield node.bootstrap


@contextmanager
def cluster(name: str, directory: Path, more: Mapping[str, str] = NO_PROPERTIES) -> Iterator[str]:
    """Run the one of ``CLUSTERS`` that is named, or skip; yields its bootstrap servers."""
    if name == APACHE_KAFKA:
        skip_unless_kafka_is_there()
        with apache_kafka(directory, more) as servers:
            yield servers
    else:
        with tidelog(directory, more) as servers:
            yield servers


def _placed(properties: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return properties with ``{directory}`` filled in."""
    return {name: value.replace("{directory}", str(directory)) for name, value in properties.items()}


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
