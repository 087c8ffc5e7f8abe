"""Clients that never stop: idempotent producers of two client libraries and a group that commits, and all that they were told.

Decides what is sent: the value names its producer and counts up in each partition, so that a log alone shows duplicates, gaps and order.
Each client lives in a thread of its own; ``stop`` ends them and waits for what is on its way.
"""

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import confluent_kafka

from log_service.client import BlockingProducer
from log_service.common.errors import KafkaError
from tests.integration.confluent import consumer, settings

TOPIC = "loaded"
PARTITION_COUNT = 3
GROUP = "loaded-group"
QUICK = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 20}
STOP_SECONDS = 90.0
GIVE_UP_MS = 600_000
"""Long: a node that is killed every second is seldom there, and no record may be given up."""
Acknowledged = dict[tuple[int, int], str]
"""(partition, offset) -> value."""


class Client:
    """A thread that works until it is stopped; ``failures`` are sentences about what must not be."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures: list[str] = []
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self.stopping.set()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            self.failures.append(f"{self.name} does not end")

    def work(self) -> None:
        """What it does; returns soon after ``stopping`` is set."""

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - told to whoever judges
            self.failures.append(f"{self.name} failed: {error!r}")


class Writer(Client):
    """A producer. ``acknowledged`` grows by what it was told; ``sent_count`` per partition by what it tried."""

    def __init__(self, name: str, bootstrap: str, seed: int) -> None:
        super().__init__(name)
        self.acknowledged: Acknowledged = {}
        self.sent_count = [0] * PARTITION_COUNT
        self.bootstrap = bootstrap
        self.rng = Random(f"{name} {seed}")

    def next(self) -> tuple[int, str]:
        """The partition and value of the next record."""
        partition = self.rng.randrange(PARTITION_COUNT)
        self.sent_count[partition] += 1
        return partition, f"{self.name}:{partition}:{self.sent_count[partition]}:{'x' * self.rng.choice((0, 0, 30, 900))}"


class ConfluentWriter(Writer):
    """librdkafka's idempotent producer."""

    def work(self) -> None:
        producer: Any = confluent_kafka.Producer(
            settings(self.bootstrap, enable_idempotence=True, linger_ms=2, message_timeout_ms=GIVE_UP_MS, **QUICK)
        )
        while not self.stopping.wait(0.002):
            partition, value = self.next()
            producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=self._note)
            producer.poll(0)
        left = producer.flush(60)
        if left:
            self.failures.append(f"{self.name}: {left} records were never answered")

    def _note(self, error: Any, record: Any) -> None:
        if error is None:
            self.acknowledged[record.partition(), record.offset()] = record.value().decode()
        else:
            self.failures.append(f"{self.name} was refused: {error}")


class OurWriter(Writer):
    """Our own producer, for threads."""

    def work(self) -> None:
        with BlockingProducer(self.bootstrap, linger_ms=2, delivery_timeout_ms=GIVE_UP_MS, retry_backoff_ms=20) as producer:
            while not self.stopping.wait(0.002):
                partition, value = self.next()
                producer.send(TOPIC, value=value.encode(), partition=partition, on_delivery=self._noted(value))
            producer.flush(timeout_ms=60_000)

    def _noted(self, value: str) -> Callable[[Any, KafkaError | None], None]:
        def note(metadata: Any, error: KafkaError | None) -> None:
            if error is None:
                self.acknowledged[metadata.partition, metadata.offset] = value
            else:
                self.failures.append(f"{self.name} was refused: {error}")

        return note


class Reader(Client):
    """A member of a group that commits what it read. ``got`` is all of it, ``committed`` what was acknowledged, per partition.

    Within one assignment offsets must follow each other: a gap there is a record that nobody would ever see. A member commits only what
    it read in the assignment it has: a coordinator takes positions in partitions of other members, too, and a group would go back.
    """

    def __init__(self, name: str, bootstrap: str) -> None:
        super().__init__(name)
        self.bootstrap = bootstrap
        self.got: Acknowledged = {}
        self.committed: dict[int, int] = {}
        self.next_offsets: dict[int, int] = {}

    def work(self) -> None:
        source = consumer(self.bootstrap, GROUP, session_timeout_ms=10_000, heartbeat_interval_ms=500, **QUICK)
        source.subscribe([TOPIC], on_assign=self.forget_positions, on_revoke=self.forget_positions)
        try:
            while not self.stopping.is_set():
                records = [record for record in source.consume(200, 0.2) if record.error() is None]
                for record in records:
                    self.take(record)
                if records:
                    self._commit(source)
        finally:
            source.close()

    def forget_positions(self, _source: Any, _partitions: list[Any]) -> None:
        """Begin anew: an assignment of the eager protocol replaces the whole of the last one."""
        self.next_offsets.clear()

    def take(self, record: Any) -> None:
        """Note one record."""
        partition, offset, value = record.partition(), record.offset(), record.value().decode()
        if offset != self.next_offsets.get(partition, offset):
            self.failures.append(f"{self.name} got {offset} of partition {partition} where {self.next_offsets[partition]} was due")
        if self.got.setdefault((partition, offset), value) != value:
            self.failures.append(f"{self.name} got another record at {offset} of partition {partition} than before")
        self.next_offsets[partition] = offset + 1

    def _commit(self, source: Any) -> None:
        wanted = [confluent_kafka.TopicPartition(TOPIC, partition, offset) for partition, offset in self.next_offsets.items()]
        try:
            done = source.commit(offsets=wanted, asynchronous=False)
        except confluent_kafka.KafkaException:
            return  # the node died, or the group moved on: nothing was promised
        for each in done:
            if each.error is None:
                self.committed[each.partition] = max(self.committed.get(each.partition, 0), each.offset)
