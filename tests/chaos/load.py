"""Clients never stop, and keep all responses.

They are idempotent producers of two client libraries and a group that commits. Decides what is
sent: the value names its producer and counts up in each partition, so that a log alone shows
duplicates, gaps and order. Each client lives in a thread of its own; ``stop`` ends them and waits
for what is on its way.
"""

import threading
import time
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

import confluent_kafka

from log_service.client import BlockingAdmin, BlockingProducer
from log_service.common.errors import KafkaError
from tests.integration.confluent import consumer, serve_callbacks, settings

TOPIC = "loaded"
PARTITION_COUNT = 3
TOPICS: Mapping[str, int] = MappingProxyType({TOPIC: PARTITION_COUNT})
"""How many partitions each topic has."""
GROUP = "loaded-group"
QUICK = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 20}
STOP_SECONDS = 90.0
GIVE_UP_MS = 600_000
"""Long: a node that is killed every second is seldom there, and no record may be given up."""
Place = tuple[str, int, int]
"""Topic, partition and offset."""
Acknowledged = dict[Place, str]
"""The value at each place."""


class Client:
    """A thread works until it is stopped.

    ``failures`` are sentences about broken promises, ``notes`` about allowed events.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures: list[str] = []
        self.notes: list[str] = []
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
            self.note_endless()

    def note_endless(self) -> None:
        """Tell that the thread does not end."""
        self.failures.append(f"{self.name} does not end")

    def work(self) -> None:
        """Do the client's work. Return soon after ``stopping`` is set."""

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - told to whoever judges
            self.failures.append(f"{self.name} failed: {error!r}")


class Writer(Client):
    """A producer. ``acknowledged`` grows by what it was told; ``sent_count`` by what it tried, per
    topic and partition.

    ``told_at`` says of each acknowledged record when it was sent and when it was acknowledged, in
    seconds of the monotonic clock; a writer in another process does not tell when it sends.
    ``unplaced`` are values of a topic and partition that were acknowledged without their offset:
    librdkafka says so of a batch whose response it lost, once the broker has taken a later one.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        seed: int,
        topics: Mapping[str, int] = TOPICS,
        *,
        pause_seconds: float = 0.002,
        **more: Any,
    ) -> None:
        super().__init__(name)
        self.acknowledged: Acknowledged = {}
        self.unplaced: list[tuple[str, int, str]] = []
        self.told_at: list[tuple[float, float]] = []
        self.partitions = [
            (topic, partition) for topic, count in topics.items() for partition in range(count)
        ]
        self.sent_count = dict.fromkeys(self.partitions, 0)
        self._counts = dict.fromkeys(self.partitions, 0)
        self._sent_at: dict[tuple[str, int, str], float] = {}
        self.bootstrap = bootstrap
        self.pause_seconds = pause_seconds
        self.settings = more
        self.rng = Random(f"{name} {seed}")

    def next(self) -> tuple[str, int, str]:
        """The topic, partition and value of the next record."""
        topic, partition = self.rng.choice(self.partitions)
        self.sent_count[topic, partition] += 1
        value = f"{self.name}:{partition}:{self.sent_count[topic, partition]}:{'x' * self.rng.choice((0, 0, 30, 900))}"
        self._sent_at[topic, partition, value] = time.monotonic()
        return topic, partition, value

    def acknowledge(self, topic: str, partition: int, offset: int | None, value: str) -> None:
        """Take note of what it was told."""
        sent_at = self._sent_at.pop((topic, partition, value), None)
        if sent_at is not None:
            self.told_at.append((sent_at, time.monotonic()))
        if offset is None:
            self.unplaced.append((topic, partition, value))
        else:
            self.acknowledged[topic, partition, offset] = value
        self._counts[topic, partition] += 1

    def acknowledged_counts(self) -> dict[tuple[str, int], int]:
        """How many records were acknowledged so far, per topic and partition."""
        return dict(self._counts)


class ConfluentWriter(Writer):
    """librdkafka's idempotent producer."""

    def work(self) -> None:
        wanted = {
            "enable_idempotence": True,
            "linger_ms": 2,
            "message_timeout_ms": GIVE_UP_MS,
            **QUICK,
            **self.settings,
        }
        producer: Any = confluent_kafka.Producer(settings(self.bootstrap, **wanted))
        while not self.stopping.wait(self.pause_seconds):
            topic, partition, value = self.next()
            producer.produce(topic, value.encode(), partition=partition, on_delivery=self._note)
            producer.poll(0)
        left = producer.flush(60)
        if left:
            self.failures.append(f"{self.name}: {left} records were never answered")

    def _note(self, error: Any, record: Any) -> None:
        if error is None:
            self.acknowledge(
                record.topic(), record.partition(), record.offset(), record.value().decode()
            )
        else:
            self.failures.append(f"{self.name} was refused: {error}")


class OurWriter(Writer):
    """Our own producer, for threads."""

    def work(self) -> None:
        wanted = {
            "linger_ms": 2,
            "delivery_timeout_ms": GIVE_UP_MS,
            "retry_backoff_ms": 20,
            **self.settings,
        }
        with BlockingProducer(self.bootstrap, **wanted) as producer:
            while not self.stopping.wait(self.pause_seconds):
                topic, partition, value = self.next()
                producer.send(
                    topic, value=value.encode(), partition=partition, on_delivery=self._noted(value)
                )
            producer.flush(timeout_ms=60_000)

    def _noted(self, value: str) -> Callable[[Any, KafkaError | None], None]:
        def note(metadata: Any, error: KafkaError | None) -> None:
            if error is None:
                self.acknowledge(metadata.topic, metadata.partition, metadata.offset, value)
            else:
                self.failures.append(f"{self.name} was refused: {error}")

        return note


class Reader(Client):
    """A member of a group that commits what it read. ``got`` is all of it, ``committed`` what was
    acknowledged, by (topic, partition).

    Within one assignment offsets must follow each other: a gap there is a record that nobody would
    ever see. A member commits only what it read in the assignment it has: a coordinator takes
    positions in partitions of other members, too, and a group would go back.

    One commit is on its way at a time, and reading goes on meanwhile: a commit that librdkafka 2.16
    could not send it tries again for ever, and its caller waits as long.
    """

    membership: Mapping[str, Any] = MappingProxyType(
        {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500}
    )

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topics: Mapping[str, int] = TOPICS,
        *,
        group: str = GROUP,
        **more: Any,
    ) -> None:
        super().__init__(name)
        self.bootstrap = bootstrap
        self.topics = topics
        self.group = group
        self.settings = more
        self.got: Acknowledged = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.next_offsets: dict[tuple[str, int], int] = {}
        self._asked: dict[tuple[str, int], int] = {}
        """What the last commit was asked to cover."""
        self._is_committing = False
        self._is_closing = False

    def work(self) -> None:
        wanted = {"client_id": self.name, **self.membership, **QUICK, **self.settings}
        source = consumer(self.bootstrap, self.group, on_commit=self._note_commit, **wanted)
        source.subscribe(
            list(self.topics), on_assign=self.forget_positions, on_revoke=self.forget_positions
        )
        try:
            while not self.stopping.is_set():
                records = [record for record in source.consume(200, 0.2) if record.error() is None]
                for record in records:
                    self.take_one(
                        record.topic(), record.partition(), record.offset(), record.value().decode()
                    )
                self._commit(source)
        finally:
            serve_callbacks(source)
            self._is_closing = True
            source.close()

    def note_endless(self) -> None:
        """Tell that the thread does not end. Behind a member that has left, a close waits for
        nothing of the cluster's.
        """
        if self._is_closing and not self._is_member():
            self.notes.append(
                f"{self.name} has left the group, and its close does not end: librdkafka's own (librdkafka#4041)"
            )
        else:
            super().note_endless()

    def _is_member(self) -> bool:
        with BlockingAdmin(self.bootstrap) as admin:
            return any(
                member.client_id == self.name
                for member in admin.describe_groups([self.group])[self.group].members
            )

    def forget_positions(self, _source: Any, _partitions: list[Any]) -> None:
        """Begin anew: an assignment of the eager protocol replaces the whole of the last one."""
        self.next_offsets.clear()

    def take_one(self, topic: str, partition: int, offset: int, value: str) -> None:
        """Note one record."""
        where = (topic, partition)
        if offset != self.next_offsets.get(where, offset):
            self.failures.append(
                f"{self.name} got {offset} of {where} where {self.next_offsets[where]} was due"
            )
        if self.got.setdefault((*where, offset), value) != value:
            self.failures.append(
                f"{self.name} got another record at {offset} of {where} than before"
            )
        self.next_offsets[where] = offset + 1

    def note_commits(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Take note of positions that were acknowledged as committed."""
        for where, offset in positions.items():
            self.committed[where] = max(self.committed.get(where, 0), offset)

    def _commit(self, source: Any) -> None:
        if not self._is_committing and self.next_offsets and self.next_offsets != self._asked:
            self._asked = dict(self.next_offsets)
            wanted = [
                confluent_kafka.TopicPartition(*where, offset)
                for where, offset in self._asked.items()
            ]
            source.commit(offsets=wanted, asynchronous=True)
            self._is_committing = True

    def _note_commit(self, error: Any, done: list[Any]) -> None:
        self._is_committing = False
        if error is not None:  # the node died, or the group moved on: nothing was promised
            self._asked.clear()
        else:
            self.note_commits(
                {(each.topic, each.partition): each.offset for each in done if each.error is None}
            )


class ConsumerProtocolReader(Reader):
    """A member of librdkafka's is in a group of the consumer protocol (KIP-848).

    The broker says how often it has to be heard.
    """

    membership: Mapping[str, Any] = MappingProxyType({"group_protocol": "consumer"})


def wait_for_readers(log: Acknowledged, readers: list[Reader], seconds: float) -> None:
    """Wait until every record of a log has come to some reader, or the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and set(log) - {
        place for reader in readers for place in list(reader.got)
    }:
        time.sleep(0.1)
