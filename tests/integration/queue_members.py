"""Members of a queue (a share group, KIP-932) are other people's client libraries.

A book has the fate of each record.

A record's value says what a member makes of it: it rejects a ``bad-`` one, it releases a
``second-`` one that comes for the first time, and it accepts the rest. A member waits for what the
cluster says of its verdicts before it polls again. The clients tell that by partition, so the book
has a verdict as taken only where nothing of its partition was refused with it.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import confluent_kafka

from log_service.client import (
    BlockingAdmin,
    BlockingProducer,
    ConfigResource,
    KafkaError,
    NewTopic,
    OffsetSpec,
    TopicPartition,
)
from tests.chaos.load import Client
from tests.integration.clients_of_a_cluster import HERE, follow, franz_go
from tests.integration.confluent import read_records, settings
from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there

KINDS = ("good", "good", "bad", "good", "second", "good", "good")
"""What is written, in turn; no divisor of it is a count of partitions here, so that each partition
gets each kind.
"""
VERDICTS = {"good": "accept", "second": "accept", "bad": "reject"}
"""What becomes of each kind in the end."""
ACCEPT, RELEASE, REJECT = 1, 2, 3
_NUMBERS = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}
Place = tuple[int, int]


class Book:
    """The records that were written to a topic, and the fate of each."""

    def __init__(self) -> None:
        self.written: dict[Place, str] = {}
        self.counts: dict[Place, list[int]] = {}
        """The delivery counts with which each record came."""
        self.takers: Counter[str] = Counter()
        self.taken: dict[Place, Counter[str]] = {}
        """How often the cluster took each verdict."""
        self.unsure: dict[Place, Counter[str]] = {}
        self.late: list[Place] = []
        """Records that came after the cluster had taken for good that they are accepted or
        rejected.
        """
        self._guard = threading.Lock()

    def came(self, member: str, where: Place, count: int) -> None:
        with self._guard:
            self.counts.setdefault(where, []).append(count)
            self.takers[member] += 1
            if self.taken.get(where, Counter()).keys() & {"accept", "reject"}:
                self.late.append(where)

    def said(self, where: Place, verdict: str, *, is_taken: bool) -> None:
        with self._guard:
            (self.taken if is_taken else self.unsure).setdefault(where, Counter())[verdict] += 1

    def kind(self, where: Place) -> str:
        return self.written[where].split("-")[0]

    def of_kind(self, kind: str) -> set[Place]:
        return {where for where in self.written if self.kind(where) == kind}

    @property
    def is_done(self) -> bool:
        """Whether the last verdict of every record was said."""
        with self._guard:
            said = [
                {*self.taken.get(where, ()), *self.unsure.get(where, ())} for where in self.written
            ]
            return all(
                VERDICTS[self.kind(where)] in verdicts
                for where, verdicts in zip(self.written, said, strict=True)
            )

    def faults(self) -> list[str]:
        """Return what must not be, whatever happened to the cluster."""
        faults = [f"{where} never came" for where in self.written if where not in self.counts]
        for where in self.written:
            taken, last = self.taken.get(where, Counter()), VERDICTS[self.kind(where)]
            if taken["accept"] + taken["reject"] > 1:
                faults.append(
                    f"{where} ({self.kind(where)}) was ended more than once: {dict(taken)}"
                )
            if not taken[last] and not self.unsure.get(where, Counter())[last]:
                faults.append(f"{where} ({self.kind(where)}) was never ended")
            if taken["release"] and max(self.counts[where]) < 2:
                faults.append(f"{where} came again with no higher count: {self.counts[where]}")
        return faults


class Member(Client):
    """One member of a queue; the group has the name of the topic."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, book: Book, command: Sequence[str]
    ) -> None:
        super().__init__(name)
        self.bootstrap = bootstrap
        self.topic = topic
        self.book = book
        self.command = command


class ProgramMember(Member):
    """A program of its own, which tells what it got and what it was told, by lines."""

    def work(self) -> None:
        follow(self, [*self.command, "queue", self.bootstrap, self.topic, self.topic], self._hear)

    def _hear(self, kind: str, words: list[str]) -> None:
        where = int(words[0]), int(words[1])
        if kind == "R":
            self.book.came(self.name, where, int(words[2]))
        else:
            self.book.said(where, words[2], is_taken=kind == "K")


class ConfluentMember(Member):
    """confluent-kafka's share consumer, which acknowledges each record by itself."""

    def work(self) -> None:
        named = {"share_acknowledgement_mode": "explicit", "max_poll_records": 10}
        consumer: Any = vars(confluent_kafka)["ShareConsumer"](
            settings(self.bootstrap, group_id=self.topic, **named)
        )
        try:
            consumer.subscribe([self.topic])
            while not self.stopping.wait(0.02):
                self._decide(
                    consumer, [record for record in consumer.poll(0.2) if record.error() is None]
                )
        finally:
            consumer.close()

    def _decide(self, consumer: Any, records: list[Any]) -> None:
        verdicts = {}
        for record in records:
            where = record.partition(), record.offset()
            self.book.came(self.name, where, record.delivery_count())
            kind = record.value().decode().split("-")[0]
            verdicts[where] = (
                "release" if kind == "second" and record.delivery_count() == 1 else VERDICTS[kind]
            )
            consumer.acknowledge(record, _NUMBERS[verdicts[where]])
        told = {where.partition: error for where, error in consumer.commit_sync(30.0).items()}
        for where, verdict in verdicts.items():
            self.book.said(where, verdict, is_taken=told.get(where[0], "unknown") is None)


def _java(_folder: Path) -> Sequence[str]:
    skip_unless_kafka_is_there()
    return [*java_command(), str(HERE / "QueueMember.java")]


def _nothing(_folder: Path) -> Sequence[str]:
    return []


MEMBERS: dict[str, tuple[type[Member], Callable[[Path], Sequence[str]]]] = {
    "confluent-kafka": (ConfluentMember, _nothing),
    "franz-go": (ProgramMember, franz_go),
    "java": (ProgramMember, _java),
}
"""Each library's member, and how its program is got, or why it is not there (it skips)."""


class Queue:
    """A topic, its group and the members in it.

    Each wave of records is written once the group has been seen to go on.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partition_count: int,
        replication_factor: int,
        configs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Create the topic. ``configs`` are of its group."""
        self.bootstrap = bootstrap
        self.topic = topic
        self.letters = f"{topic}-letters"
        self.book = Book()
        self.partition_count = partition_count
        self._written = 0
        group = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": self.letters,
            **configs,
        }
        with BlockingAdmin(bootstrap) as admin:
            for name, count in ((topic, partition_count), (self.letters, 1)):
                admin.create_topics(
                    [
                        NewTopic(
                            name=name, partition_count=count, replication_factor=replication_factor
                        )
                    ]
                )
            admin.alter_configs({ConfigResource.group(topic): group})

    def write(self, count: int) -> None:
        """Write so many records, and know where each is."""
        with BlockingProducer(self.bootstrap, batch_size=200) as producer:
            sent = {}
            for number in range(self._written, self._written + count):
                value = f"{KINDS[number % len(KINDS)]}-{number}"
                sent[value] = producer.send(
                    self.topic, value.encode(), partition=number % self.partition_count
                )
            for value, delivery in sent.items():
                told = delivery.wait()
                self.book.written[told.partition, told.offset] = value
        self._written += count

    @contextmanager
    def members(self, library: str, folder: Path, count: int = 2) -> Iterator[list[Member]]:
        """Let so many members of a library work, or skip the test; in the end none of them may have
        failed.
        """
        kind, prepare = MEMBERS[library]
        command = prepare(folder)
        members = [
            kind(f"{library} {number}", self.bootstrap, self.topic, self.book, command)
            for number in range(count)
        ]
        for member in members:
            member.start()
        try:
            yield members
        finally:
            for member in members:
                member.stop()
        assert [failure for member in members for failure in member.failures] == []

    def write_until_shared(self, members: Sequence[Member], seconds: float) -> None:
        """Write until each of the members has got records."""
        deadline = time.monotonic() + seconds
        while any(not self.book.takers[member.name] for member in members):
            assert time.monotonic() < deadline, (
                f"only these got records of {self.topic}: {dict(self.book.takers)}"
            )
            self.write(len(KINDS) * self.partition_count)
            self.wait_until_done(seconds)

    def wait_until_done(self, seconds: float) -> None:
        """Wait until the members have ended all that was written."""
        _wait(lambda: self.book.is_done, seconds, lambda: f"{self.topic}: {self.book.faults()[:5]}")

    def wait_until_refused(self, seconds: float) -> None:
        """Wait until the cluster has refused a verdict."""
        _wait(lambda: bool(self.book.unsure), seconds, lambda: f"{self.topic}: nothing was refused")

    def wait_until_empty(self, seconds: float) -> None:
        """Wait until the cluster says that nothing is left of the queue."""
        lags: list[int | None] = []

        def is_empty() -> bool:
            with suppress(KafkaError), BlockingAdmin(self.bootstrap) as admin:
                lags[:] = [each.lag for each in admin.list_share_group_offsets(self.topic).values()]
            return lags == [0] * self.partition_count

        _wait(is_empty, seconds, lambda: f"{self.topic} has a lag of {lags}")

    def letters_of(self) -> Counter[Place]:
        """Return which records the dead letter topic has copies of."""
        count = self._end_of_letters()
        letters = (
            [
                dict(record.headers() or [])
                for record in read_records(self.bootstrap, self.letters, count)
            ]
            if count
            else []
        )
        return Counter(
            (int(each["__dlq.errors.partition"]), int(each["__dlq.errors.offset"]))
            for each in letters
        )

    def _end_of_letters(self) -> int:
        with BlockingAdmin(self.bootstrap) as admin:
            return sum(
                each.offset
                for each in admin.list_offsets(
                    {TopicPartition(self.letters, 0): OffsetSpec.latest()}
                ).values()
            )


def _wait(is_so: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what()}"
        time.sleep(0.1)
