"""Different clients share partitions in one group, whichever leads.

They are ours, librdkafka's, kafka-python's, aiokafka's and Java's.
"""

import asyncio
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import aiokafka
import kafka
import pytest

from log_service.client import BlockingConsumer
from tests.integration.confluent import WAIT_SECONDS, produce, take, wait_until
from tests.integration.confluent import consumer as confluent_consumer
from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there
from tests.integration.librdkafka_member import Member as Librdkafka

NewTopic = Callable[..., str]
PARTITIONS = 12
SESSION_MS = 10_000
JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class Participant(Protocol):
    """A running member of a group."""

    @property
    def assigned(self) -> set[int]:
        """The partitions that it reads now."""

    def stop(self) -> None:
        """Leave."""


class Threaded:
    """A member that polls in a thread of its own until it is stopped."""

    def __init__(self) -> None:
        self.assigned: set[int] = set()
        self.is_running = True
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Poll, and keep ``assigned`` true."""

    def stop(self) -> None:
        self.is_running = False
        self._thread.join(WAIT_SECONDS)
        self.assigned = set()


class Tidelog(Threaded):
    """Our own client."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        self._open: Callable[[], Any] = lambda: BlockingConsumer(
            bootstrap,
            group_id=group,
            partition_assignment_strategy=(assignor,),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_offset_reset="earliest",
        )
        self._topic = topic
        super().__init__()

    def run(self) -> None:
        with self._open() as consumer:
            consumer.subscribe([self._topic])
            while self.is_running:
                consumer.poll(timeout_ms=100)
                self.assigned = {each.partition for each in consumer.assignment}


class KafkaPython(Threaded):
    """kafka-python."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        named = {
            "range": kafka.coordinator.assignors.range.RangePartitionAssignor,
            "roundrobin": kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor,
            "sticky": kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor,
        }
        untyped: Any = kafka
        self._open: Callable[[], Any] = lambda: untyped.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            partition_assignment_strategy=[named[assignor]],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            auto_offset_reset="earliest",
        )
        super().__init__()

    def run(self) -> None:
        consumer = self._open()
        try:
            while self.is_running:
                consumer.poll(timeout_ms=1_000)
                self.assigned = {each.partition for each in consumer.assignment()}
        finally:
            consumer.close()


class Aiokafka(Threaded):
    """aiokafka, in an event loop of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        assert assignor in {"range", "roundrobin"}
        self._settings = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 300,
        }
        self._topic, self._assignor = topic, assignor
        super().__init__()

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        chosen = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[
            self._assignor
        ]
        untyped: Any = aiokafka
        consumer = untyped.AIOKafkaConsumer(
            self._topic, partition_assignment_strategy=(chosen,), **self._settings
        )
        await consumer.start()
        try:
            while self.is_running:
                await consumer.getmany(timeout_ms=100)
                self.assigned = {each.partition for each in consumer.assignment()}
        finally:
            await consumer.stop()


class Java:
    """Java's consumer, in Kafka's own test tool, which tells what happens as JSON."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        self.assigned: set[int] = set()
        command = [
            *java_command("-Xmx128m"),
            "org.apache.kafka.tools.VerifiableConsumer",
            "--bootstrap-server",
            bootstrap,
        ]
        command += ["--topic", topic, "--group-id", group]
        command += ["--session-timeout", str(SESSION_MS)]
        command += [
            "--assignment-strategy",
            f"org.apache.kafka.clients.consumer.{JAVA_ASSIGNORS[assignor]}",
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            partitions = {
                each["partition"]
                for each in event.get("partitions", [])
                if isinstance(each, dict) and "partition" in each
            }
            if event.get("name") == "partitions_assigned":
                self.assigned |= partitions
            elif event.get("name") == "partitions_revoked":
                self.assigned -= partitions

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(WAIT_SECONDS)
        self._thread.join(WAIT_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self.assigned = set()


def librdkafka(bootstrap: str, group: str, topic: str, assignor: str) -> Librdkafka:
    """confluent-kafka."""
    return Librdkafka(bootstrap, group, [topic], partition_assignment_strategy=assignor)


Client = Callable[[str, str, str, str], Any]


@contextmanager
def together(
    clients: Sequence[Client], bootstrap: str, group: str, topic: str, assignor: str
) -> Iterator[list[Participant]]:
    """Start members one after the other: the first one leads."""
    with ExitStack() as stack:
        members: list[Participant] = []
        for client in clients:
            member = client(bootstrap, group, topic, assignor)
            stack.callback(member.stop)
            members.append(member)
            wait_until(
                lambda: is_shared(members), f"{len(members)} members share {PARTITIONS} partitions"
            )
        yield members


def is_shared(members: Sequence[Participant]) -> bool:
    """Whether every partition has one owner and nobody has much more than others."""
    owned = [set(member.assigned) for member in members]
    sizes = [len(each) for each in owned]
    return (
        sum(sizes) == PARTITIONS
        and len(set().union(*owned)) == PARTITIONS
        and max(sizes) - min(sizes) <= 1
    )


@pytest.mark.parametrize(
    "clients",
    [
        pytest.param([Tidelog, librdkafka, KafkaPython, Aiokafka], id="tidelog-leads"),
        pytest.param([Aiokafka, Tidelog, librdkafka], id="aiokafka-leads"),
        pytest.param([librdkafka, KafkaPython, Tidelog], id="librdkafka-leads"),
    ],
)
@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_clients_share_a_group(
    bootstrap: str, new_topic: NewTopic, name: str, clients: list[Client], assignor: str
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    with together(clients, bootstrap, name, topic, assignor) as members:
        members[0].stop()
        wait_until(lambda: is_shared(members[1:]), "those that are left have taken over")


@pytest.mark.parametrize(
    "clients",
    [[Tidelog, librdkafka, Tidelog], [librdkafka, Tidelog, Tidelog]],
    ids=["tidelog-leads", "librdkafka-leads"],
)
def test_cooperative_members_of_two_clients_share_a_group(
    bootstrap: str, new_topic: NewTopic, name: str, clients: list[Client]
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    with together(clients, bootstrap, name, topic, "cooperative-sticky") as members:
        members[0].stop()
        wait_until(lambda: is_shared(members[1:]), "those that are left have taken over")


@pytest.mark.parametrize(
    "clients",
    [[Tidelog, KafkaPython], [KafkaPython, Tidelog]],
    ids=["tidelog-leads", "kafka-python-leads"],
)
def test_sticky_members_of_two_clients_share_a_group(
    bootstrap: str, new_topic: NewTopic, name: str, clients: list[Client]
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    with together(clients, bootstrap, name, topic, "sticky") as members:
        kept = set(members[1].assigned)
        members[0].stop()
        wait_until(lambda: is_shared(members[1:]), "the one that is left has everything")
        assert kept <= members[1].assigned


@pytest.mark.parametrize(
    ("assignor", "clients"),
    [
        pytest.param("range", [Java, Tidelog, librdkafka, KafkaPython], id="range-java-leads"),
        pytest.param("range", [Tidelog, Java], id="range-tidelog-leads"),
        pytest.param("sticky", [Java, Tidelog], id="sticky-java-leads"),
        pytest.param("sticky", [Tidelog, Java], id="sticky-tidelog-leads"),
        pytest.param(
            "cooperative-sticky", [Java, Tidelog, librdkafka], id="cooperative-java-leads"
        ),
        pytest.param(
            "cooperative-sticky", [Tidelog, Java, librdkafka], id="cooperative-tidelog-leads"
        ),
    ],
)
def test_java_shares_a_group(
    bootstrap: str, new_topic: NewTopic, name: str, assignor: str, clients: list[Client]
) -> None:
    skip_unless_kafka_is_there()
    topic = new_topic(partitions=PARTITIONS)
    with together(clients, bootstrap, name, topic, assignor) as members:
        members[0].stop()
        wait_until(lambda: is_shared(members[1:]), "those that are left have taken over")


def test_one_client_goes_on_where_another_committed(bootstrap: str, topic: str, name: str) -> None:
    produce(bootstrap, topic, [b"%d" % number for number in range(6)])
    reader = confluent_consumer(bootstrap, name)
    reader.subscribe([topic])
    assert [record.value() for record in take(reader, 2)] == [b"0", b"1"]
    reader.commit(asynchronous=False)
    reader.close()
    with BlockingConsumer(bootstrap, group_id=name, auto_offset_reset="none") as ours:
        ours.subscribe([topic])
        values: list[bytes | None] = []
        while len(values) < 4:
            values += [record.value for record in ours.poll(timeout_ms=1_000)]
    assert values == [b"2", b"3", b"4", b"5"]
