"""Clients of several libraries copy records from topic to topic exactly once.

A reader holds the copies against the source.

Each copier is a member of a group of its own. It sends what it reads and its positions in one
transaction. A copier that meets an error, or is cut off, is given up; the next one of the same
``transactional.id`` goes on. ``CopyWatch`` reads the copies as they are committed: what it has seen
says how far each copier is, and in the end each partition of a copy is its source, record by
record.
"""

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiokafka
import aiokafka.errors

from log_service.client import (
    BlockingConsumer,
    BlockingProducer,
    KafkaError,
    TopicPartition,
    TransactionAbortable,
)
from tests.chaos.load import STOP_SECONDS, Client

POLL_SECONDS = 0.3
TIMEOUT_MS = 15_000
"""The longest transaction: what a copier leaves open when it is cut off holds readers back so long.
"""
Place = tuple[str, int]
"""A topic and a partition."""


class Copier(Client):
    """Copies each place of ``places`` to a partition of ``target``. ``ended`` says why each client
    was given up.
    """

    errors: tuple[type[Exception], ...] = ()

    def __init__(self, name: str, bootstrap: str, places: Mapping[Place, int], target: str) -> None:
        super().__init__(name)
        self.bootstrap = bootstrap
        self.places = places
        self.target = target
        self.ended: list[str] = []

    @property
    def topics(self) -> list[str]:
        """Return the topics that it subscribes to."""
        return sorted({topic for topic, _ in self.places})

    def work(self) -> None:
        while not self.stopping.is_set():
            try:
                self.copy()
            except self.errors as error:
                self.ended.append(repr(error))
                self.stopping.wait(0.2)

    def copy(self) -> None:
        """Copy until it is stopped, or an error ends this client."""


class OurCopier(Copier):
    """Our own client, in a classic group."""

    errors = (KafkaError,)

    def copy(self) -> None:
        wanted = {
            "group_id": self.name,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        with (
            BlockingProducer(
                self.bootstrap, transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS
            ) as producer,
            BlockingConsumer(self.bootstrap, **wanted) as consumer,
        ):
            producer.init_transactions()
            consumer.subscribe(self.topics)
            while not self.stopping.is_set():
                records = consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000))
                if not records:
                    continue
                try:
                    with producer.transaction():
                        for record in records:
                            partition = self.places[record.topic, record.partition]
                            producer.send(
                                self.target,
                                _content(record.value),
                                key=_content(record.key),
                                partition=partition,
                            )
                        producer.send_offsets_to_transaction(
                            consumer.consumed(), consumer.group_metadata()
                        )
                except TransactionAbortable:
                    consumer.seek_to_committed()


class AiokafkaCopier(Copier):
    """aiokafka, in a classic group."""

    errors = (aiokafka.errors.KafkaError,)

    def copy(self) -> None:
        asyncio.run(self._copy_all())

    async def _copy_all(self) -> None:
        producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.name,
            transaction_timeout_ms=TIMEOUT_MS,
        )
        consumer: Any = aiokafka.AIOKafkaConsumer(
            *self.topics,
            bootstrap_servers=self.bootstrap,
            group_id=self.name,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        try:
            await producer.start()
            await consumer.start()
            while not self.stopping.is_set():
                polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000))
                if polled:
                    await self._copy(polled, producer)
        finally:
            await consumer.stop()
            await producer.stop()

    async def _copy(self, polled: Mapping[Any, Sequence[Any]], producer: Any) -> None:
        async with producer.transaction():
            for where, records in polled.items():
                for record in records:
                    await producer.send(
                        self.target, record.value, record.key, partition=self.places[tuple(where)]
                    )
            await producer.send_offsets_to_transaction(
                {where: records[-1].offset + 1 for where, records in polled.items()}, self.name
            )


class ProgramCopier(Copier):
    """A program that copies while its standard input is open; ``command`` is how it is run. A cut
    ends it at once.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        places: Mapping[Place, int],
        target: str,
        command: Sequence[str],
    ) -> None:
        super().__init__(name, bootstrap, places, target)
        self._command = command
        self._running: subprocess.Popen[str] | None = None

    def work(self) -> None:
        while not self.stopping.is_set():
            with subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as self._running:
                assert self._running.stdout is not None
                for line in self._running.stdout:
                    self._hear(line.rstrip("\n"))
            self.ended.append(f"ended with {self._running.returncode}")

    def _hear(self, line: str) -> None:
        kind, _, words = line.partition(" ")
        if kind == "E":
            self.failures.append(f"{self.name} failed: {words}")
        elif kind in {"B", "L"}:
            self.ended.append(words)

    def cut(self) -> None:
        """Kill the program; another one takes its place."""
        assert self._running is not None
        self._running.kill()

    def stop(self) -> None:
        """End the program in order."""
        self.stopping.set()
        if self._running is not None and self._running.stdin is not None:
            self._running.stdin.close()
            try:
                self._running.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.failures.append(f"{self.name} does not end")
                self._running.kill()
        super().stop()


class CopyWatch(Client):
    """Reads the committed records of topics from their beginning.

    ``seen`` has the key and value of each, by place.
    """

    def __init__(self, bootstrap: str, partition_counts: Mapping[str, int]) -> None:
        super().__init__("the watch")
        self.bootstrap = bootstrap
        self.seen: dict[Place, list[tuple[bytes | None, bytes | None]]] = {
            (topic, partition): []
            for topic, count in partition_counts.items()
            for partition in range(count)
        }

    def work(self) -> None:
        with BlockingConsumer(
            self.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(*place) for place in self.seen])
            while not self.stopping.is_set():
                for record in consumer.poll(timeout_ms=300):
                    self.seen[record.topic, record.partition].append(
                        (_content(record.key), _content(record.value))
                    )

    def count(self, topic: str) -> int:
        """How many records of a topic were committed."""
        return sum(len(records) for (name, _), records in self.seen.items() if name == topic)

    def wait_until(
        self, is_so: Callable[[], bool], copiers: Sequence[Copier], seconds: float, what: str
    ) -> None:
        """Wait for the copies to get so far."""
        deadline = time.monotonic() + seconds
        while not is_so():
            failures = [failure for client in (self, *copiers) for failure in client.failures]
            assert not failures, failures
            counts = {topic: self.count(topic) for topic, _ in self.seen}
            assert time.monotonic() < deadline, (
                f"{what}: {counts}, { ({each.name: each.ended for each in copiers}) }"
            )
            time.sleep(0.1)


def _content(held: Any) -> bytes | None:
    return None if held is None else bytes(held)
