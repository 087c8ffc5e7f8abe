"""Clients of five kinds read a topic of a secured cluster from its beginning.

Each is a member of a consumer group of its own.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiokafka
import confluent_kafka
import kafka

from log_service.client import BlockingConsumer
from tests.integration.kafka_node import java
from tests.integration.secure_nodes import BILLING, GROUP, TOPIC, SecureNodes

READ_SECONDS = 60.0
POLL_SECONDS = 0.5
Read = Callable[[SecureNodes, set[str]], set[str]]


def by_librdkafka(nodes: SecureNodes, wanted: set[str]) -> set[str]:
    """Return the values that were read until all that are wanted were, or time is over."""
    found: set[str] = set()
    settings = {
        "group.id": f"{GROUP}-librdkafka",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    consumer = confluent_kafka.Consumer({**nodes.librdkafka(BILLING), **settings})
    consumer.subscribe([TOPIC])
    ends = time.monotonic() + READ_SECONDS
    while wanted - found and time.monotonic() < ends:
        for record in consumer.consume(500, POLL_SECONDS):
            assert record.error() is None, record.error()
            found.add((record.value() or b"").decode())
    consumer.close()
    return found


def by_kafka_python(nodes: SecureNodes, wanted: set[str]) -> set[str]:
    """As ``by_librdkafka``."""
    found: set[str] = set()
    settings = nodes.python(BILLING) | {
        "ssl_cafile": str(nodes.authority.truststore),
        "isolation_level": "read_committed",
    }
    consumer = kafka.KafkaConsumer(
        TOPIC, group_id=f"{GROUP}-kafka-python", auto_offset_reset="earliest", **settings
    )
    ends = time.monotonic() + READ_SECONDS
    try:
        while wanted - found and time.monotonic() < ends:
            for records in consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000)).values():
                found |= {record.value.decode() for record in records}
    finally:
        consumer.close()
    return found


def by_aiokafka(nodes: SecureNodes, wanted: set[str]) -> set[str]:
    """As ``by_librdkafka``."""
    found: set[str] = set()

    async def main() -> None:
        context = ssl.create_default_context(cafile=str(nodes.authority.truststore))
        settings: Any = nodes.python(BILLING) | {
            "ssl_context": context,
            "isolation_level": "read_committed",
        }
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, group_id=f"{GROUP}-aiokafka", auto_offset_reset="earliest", **settings
        )
        await consumer.start()
        ends = time.monotonic() + READ_SECONDS
        try:
            while wanted - found and time.monotonic() < ends:
                for records in (
                    await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000))
                ).values():
                    found.update((record.value or b"").decode() for record in records)
        finally:
            await consumer.stop()

    asyncio.run(main())
    return found


def by_ours(nodes: SecureNodes, wanted: set[str]) -> set[str]:
    """As ``by_librdkafka``."""
    found: set[str] = set()
    settings: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        **nodes.client(BILLING),
    }
    with BlockingConsumer(nodes.bootstrap, group_id=f"{GROUP}-ours", **settings) as consumer:
        consumer.subscribe([TOPIC])
        ends = time.monotonic() + READ_SECONDS
        while wanted - found and time.monotonic() < ends:
            found |= {
                bytes(record.value or b"").decode()
                for record in consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000))
            }
    return found


def by_java(nodes: SecureNodes, wanted: set[str]) -> set[str]:
    """Return what Apache Kafka's console consumer reads."""
    words = [
        "--bootstrap-server",
        nodes.bootstrap,
        "--topic",
        TOPIC,
        "--group",
        f"{GROUP}-java",
        "--from-beginning",
    ]
    words += [
        "--isolation-level",
        "read_committed",
        "--timeout-ms",
        "8000",
        "--command-config",
        str(nodes.java_file(BILLING)),
    ]
    return set(
        java("org.apache.kafka.tools.consumer.ConsoleConsumer", *words, cwd=nodes.directory).split()
    )


READS: Mapping[str, Read] = {
    "librdkafka": by_librdkafka,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "ours": by_ours,
    "java": by_java,
}
