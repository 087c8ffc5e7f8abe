"""Clients of five kinds write to a secured cluster without pause.

Each runs in a thread or process, and keeps the acknowledged records.

A writer sends values ``<name>:<number>``. ``acked`` are those that a broker has acknowledged; those
of a transaction once it is committed.
"""

import asyncio
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import aiokafka
import confluent_kafka
import kafka
import kafka.errors

from log_service.client import BlockingProducer, KafkaError
from tests.integration.kafka_node import java_command
from tests.integration.secure_nodes import SHOP, TOPIC, SecureNodes

PAUSE_SECONDS = 0.05
DELIVERY_SECONDS = 60
JAVA_RECORDS_PER_SECOND = 20
Write = Callable[["Writers", SecureNodes], None]


class Writers:
    """Run writers until ``stop``; ``errors`` are those that ended one."""

    def __init__(self, nodes: SecureNodes, *, has_java: bool) -> None:
        self.acked: dict[str, list[str]] = {}
        self.errors: list[str] = []
        self.is_over = threading.Event()
        writes: list[Write] = [
            of_librdkafka,
            of_kafka_python,
            of_aiokafka,
            of_ours,
            *([of_java] if has_java else []),
        ]
        self.acked = {write.__name__: [] for write in writes}
        self._threads = [
            threading.Thread(target=self._run, args=(write, nodes), daemon=True) for write in writes
        ]

    def _run(self, write: Write, nodes: SecureNodes) -> None:
        try:
            write(self, nodes)
        except Exception as error:  # noqa: BLE001 - the test says which client failed
            self.errors.append(f"{write.__name__}: {error!r}")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let each writer finish what it has begun."""
        self.is_over.set()
        for thread in self._threads:
            thread.join(2 * DELIVERY_SECONDS)
            assert not thread.is_alive(), "a writer does not end"

    def wait_for_progress(self, count: int = 3) -> None:
        """Wait until each writer has had so many more values acknowledged."""
        wanted = {name: len(values) + count for name, values in self.acked.items()}
        deadline = time.monotonic() + 2 * DELIVERY_SECONDS
        while any(len(self.acked[name]) < number for name, number in wanted.items()):
            assert not self.errors, self.errors
            behind = {name: len(values) for name, values in self.acked.items()}
            assert time.monotonic() < deadline, f"a writer stands still: {behind}"
            time.sleep(0.1)


def of_librdkafka(writers: Writers, nodes: SecureNodes) -> None:
    """Transactions of three records."""
    settings = {"transactional.id": f"{SHOP}-1", "transaction.timeout.ms": 60_000, "log_level": 0}
    producer = confluent_kafka.Producer({**nodes.librdkafka(SHOP), **settings})
    producer.init_transactions(DELIVERY_SECONDS)
    number = 0
    while not writers.is_over.is_set():
        values = [f"librdkafka:{number + step}" for step in range(3)]
        number += 3
        try:
            producer.begin_transaction()
            for value in values:
                producer.produce(TOPIC, value.encode(), key=value.encode())
            producer.commit_transaction(DELIVERY_SECONDS)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(DELIVERY_SECONDS)
            continue
        writers.acked["of_librdkafka"] += values
        time.sleep(PAUSE_SECONDS)


def of_kafka_python(writers: Writers, nodes: SecureNodes) -> None:
    """One record after the other."""
    settings = nodes.python(SHOP) | {"ssl_cafile": str(nodes.authority.truststore)}
    settings |= {
        "acks": "all",
        "enable_idempotence": False,
        "retries": 10_000,
        "delivery_timeout_ms": DELIVERY_SECONDS * 1_000,
    }
    producer = kafka.KafkaProducer(**settings)
    try:
        number = 0
        while not writers.is_over.is_set():
            value = f"kafka-python:{number}"
            with suppress(kafka.errors.KafkaTimeoutError):
                producer.send(TOPIC, value.encode(), key=value.encode()).get(DELIVERY_SECONDS)
                writers.acked["of_kafka_python"].append(value)
            number += 1
            time.sleep(PAUSE_SECONDS)
    finally:
        producer.close(10)


def of_aiokafka(writers: Writers, nodes: SecureNodes) -> None:
    """One record after the other."""

    async def main() -> None:
        context = ssl.create_default_context(cafile=str(nodes.authority.truststore))
        settings: Any = nodes.python(SHOP) | {"ssl_context": context}
        producer = aiokafka.AIOKafkaProducer(
            **settings, acks="all", request_timeout_ms=DELIVERY_SECONDS * 1_000
        )
        await producer.start()
        try:
            number = 0
            while not writers.is_over.is_set():
                value = f"aiokafka:{number}"
                await producer.send_and_wait(TOPIC, value.encode(), key=value.encode())
                writers.acked["of_aiokafka"].append(value)
                number += 1
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await producer.stop()

    asyncio.run(main())


def of_ours(writers: Writers, nodes: SecureNodes) -> None:
    """One record after the other."""
    with BlockingProducer(
        nodes.bootstrap, delivery_timeout_ms=DELIVERY_SECONDS * 1_000, **nodes.client(SHOP)
    ) as producer:
        number = 0
        while not writers.is_over.is_set():
            value = f"ours:{number}"
            with suppress(KafkaError):
                producer.send(TOPIC, value.encode(), key=value.encode()).wait()
                writers.acked["of_ours"].append(value)
            number += 1
            time.sleep(PAUSE_SECONDS)


def of_java(writers: Writers, nodes: SecureNodes) -> None:
    """Apache Kafka's own VerifiableProducer, which tells each acknowledgement as a line."""
    words = [
        "--bootstrap-server",
        nodes.bootstrap,
        "--topic",
        TOPIC,
        "--throughput",
        str(JAVA_RECORDS_PER_SECOND),
        "--acks",
        "-1",
    ]
    command = [
        *java_command(),
        "org.apache.kafka.tools.VerifiableProducer",
        *words,
        "--value-prefix",
        "7",
    ]
    command += ["--command-config", str(nodes.java_file(SHOP))]
    with (nodes.directory / "java-writer.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def end() -> None:
        writers.is_over.wait()
        process.terminate()

    threading.Thread(target=end, daemon=True).start()
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if (
                line.startswith("{")
                and (told := json.loads(line))["name"] == "producer_send_success"
            ):
                writers.acked["of_java"].append(told["value"])
    if process.wait(DELIVERY_SECONDS) and not writers.is_over.is_set():
        raise AssertionError((nodes.directory / "java-writer.log").read_text()[-2_000:])
