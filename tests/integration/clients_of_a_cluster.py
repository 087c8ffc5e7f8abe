"""Other people's clients keep a book here.

Each has an idempotent writer and a reader in a group, with their default timers.

A ``Cast`` makes both for a topic. Go and Java are programs of their own, which tell what the
cluster told them by lines (franz_go/main.go says which). A client that cannot be had here makes its
test skip, with the reason.
"""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest

from tests.chaos.load import STOP_SECONDS, Client, ConfluentWriter, OurWriter, Reader, Writer
from tests.helpers.whole import of_a_run
from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there

HERE = Path(__file__).parent
PAUSE_SECONDS = of_a_run(0.1, whole=0.03)
"""Six clients write to three nodes beside everything else on two cores."""
BUILD_SECONDS = 300.0


class _Forgetting:
    """Makes a reader forget its positions when its partitions change."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._reader.forget_positions(None, revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._reader.forget_positions(None, assigned)


class KafkaPythonWriter(Writer):
    """kafka-python's idempotent producer."""

    def work(self) -> None:
        producer: Any = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, **self.settings
        )
        while not self.stopping.wait(self.pause_seconds):
            topic, partition, value = self.next()
            future = producer.send(topic, value.encode(), partition=partition)
            future.add_callback(partial(self._note, value))
            future.add_errback(partial(self._refuse, value))
        producer.flush(60)
        producer.close(10)

    def _note(self, value: str, told: Any) -> None:
        self.acknowledge(told.topic, told.partition, told.offset, value)

    def _refuse(self, value: str, error: Exception) -> None:
        self.failures.append(f"{self.name} was refused {value[:30]}: {error!r}")


class KafkaPythonReader(Reader):
    """A member of kafka-python's."""

    def work(self) -> None:
        source: Any = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self.settings,
        )
        source.subscribe(list(self.topics), listener=_KafkaPythonListener(self))
        try:
            while not self.stopping.is_set():
                records = [
                    record for polled in source.poll(timeout_ms=1_000).values() for record in polled
                ]
                for record in records:
                    self.take_one(
                        record.topic, record.partition, record.offset, record.value.decode()
                    )
                if records:
                    self._commit_all(source)
        finally:
            source.close(autocommit=False)

    def _commit_all(self, source: Any) -> None:
        positions = dict(self.next_offsets)
        with suppress(kafka.errors.KafkaError):
            source.commit(
                {
                    kafka.TopicPartition(*where): kafka.OffsetAndMetadata(offset, "", -1)
                    for where, offset in positions.items()
                }
            )
            self.note_commits(positions)


class _KafkaPythonListener(_Forgetting, kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # untyped
    """A listener of kafka-python for a rebalance."""


class AiokafkaWriter(Writer):
    """aiokafka's idempotent producer."""

    def work(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, **self.settings
        )
        await producer.start()
        try:
            while not self.stopping.is_set():
                topic, partition, value = self.next()
                with suppress(aiokafka.errors.KafkaTimeoutError):
                    # A hung node's buffer had no room for 40 s: the record was not taken.
                    future = await producer.send(topic, value.encode(), partition=partition)
                    future.add_done_callback(partial(self._note, value))
                await asyncio.sleep(self.pause_seconds)
        finally:
            await producer.stop()

    def _note(self, value: str, future: Any) -> None:
        error = future.exception()
        if error is not None:
            self.failures.append(f"{self.name} was refused {value[:30]}: {error!r}")
        else:
            told = future.result()
            self.acknowledge(told.topic, told.partition, told.offset, value)


class AiokafkaReader(Reader):
    """A member of aiokafka's."""

    def work(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        source: Any = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self.settings,
        )
        source.subscribe(list(self.topics), listener=_AiokafkaListener(self))
        await source.start()
        try:
            while not self.stopping.is_set():
                polled = await source.getmany(timeout_ms=200)
                for record in (record for records in polled.values() for record in records):
                    self.take_one(
                        record.topic, record.partition, record.offset, record.value.decode()
                    )
                if polled:
                    await self._commit_all(source)
        finally:
            await source.stop()

    async def _commit_all(self, source: Any) -> None:
        positions = dict(self.next_offsets)
        with suppress(aiokafka.errors.KafkaError):
            await source.commit(
                {aiokafka.TopicPartition(*where): offset for where, offset in positions.items()}
            )
            self.note_commits(positions)


class _AiokafkaListener(_Forgetting, aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # untyped
    """A listener of aiokafka for a rebalance."""


# Programs


def follow(client: Client, command: Sequence[str], take: Callable[[str, list[str]], None]) -> None:
    """Run a program until the client is stopped, and hand over each of its lines.

    A final complaint is a failure.
    """
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert running.stdin is not None
    assert running.stdout is not None
    stop = _Stopper(client, running)
    stop.start()
    with running.stdout:
        for line in running.stdout:
            kind, *words = line.rstrip("\n").split(" ")
            if kind == "E":
                client.failures.append(f"{client.name} failed: {' '.join(words)}")
            else:
                take(kind, words)
    code = running.wait(STOP_SECONDS)
    stop.stop()
    if code or not client.stopping.is_set():
        client.failures.append(f"{client.name} ended with {code}")


class _Stopper(Client):
    """Ends the input of a program once its client is stopped."""

    def __init__(self, client: Client, running: "subprocess.Popen[str]") -> None:
        super().__init__(f"stopper of {client.name}")
        self._client = client
        self._running = running

    def work(self) -> None:
        while not (self._client.stopping.wait(0.1) or self.stopping.is_set()):
            pass
        assert self._running.stdin is not None
        self._running.stdin.close()


class ProgramWriter(Writer):
    """A program that writes to one topic; ``command`` is how it is run."""

    command: Sequence[str] = ()

    def work(self) -> None:
        (topic,) = {topic for topic, _ in self.partitions}
        arguments = [
            "write",
            self.bootstrap,
            topic,
            str(len(self.partitions)),
            str(int(1_000 * self.pause_seconds)),
        ]
        follow(self, [*self.command, *arguments], self._hear)

    def _hear(self, kind: str, words: list[str]) -> None:
        if kind == "S":
            self.sent_count[words[0], int(words[1])] += 1
        elif kind == "A":
            topic, partition, offset, value = words
            self.acknowledge(topic, int(partition), int(offset), value)


class ProgramReader(Reader):
    """A program that reads one topic in a group."""

    command: Sequence[str] = ()

    def work(self) -> None:
        (topic,) = self.topics
        follow(self, [*self.command, "read", self.bootstrap, topic, self.group], self._hear)

    def _hear(self, kind: str, words: list[str]) -> None:
        if kind == "N":
            self.forget_positions(None, [])
        elif kind == "R":
            topic, partition, offset, value = words
            self.take_one(topic, int(partition), int(offset), value)
        elif kind == "C":
            topic, partition, offset = words
            self.note_commits({(topic, int(partition)): int(offset)})


# Who is there


@dataclass(frozen=True, slots=True)
class Cast:
    """The writer and the reader of one client library.

    ``command`` returns how its program is run, if it is one, or skips.
    """

    writer: type[Writer]
    reader: type[Reader]
    command: Callable[[Path], Sequence[str]] | None = None

    def clients(
        self, name: str, bootstrap: str, topics: dict[str, int], folder: Path
    ) -> tuple[Writer, Reader]:
        """Make both; ``folder`` is for what has to be built."""
        writer = self.writer(name, bootstrap, 1, topics, pause_seconds=PAUSE_SECONDS)
        reader = self.reader(f"{name} group", bootstrap, topics, group=f"read-by-{name}")
        if self.command is not None:
            command = self.command(folder)
            for client in (writer, reader):
                assert isinstance(client, ProgramWriter | ProgramReader)
                client.command = command
        return writer, reader


def franz_go(folder: Path) -> Sequence[str]:
    """Build the program in Go."""
    return built_by_go(HERE / "franz_go", folder)


def built_by_go(sources: Path, folder: Path) -> Sequence[str]:
    """Build a program of franz-go's packages, or skip where these cannot be had."""
    if shutil.which("go") is None:
        pytest.skip("there is no go on the PATH: nothing was tested with franz-go")
    program = folder / sources.name
    built = subprocess.run(
        # What is built once and runs a minute needs no optimizing.
        [
            "go",
            "build",
            "-gcflags=all=-N -l",
            "-o",
            str(program),
            ".",
        ],
        cwd=sources,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if built.returncode and any(
        word in built.stderr
        for word in ("dial tcp", "lookup", "toolchain not available", "go.mod requires go")
    ):
        pytest.skip(
            f"franz-go cannot be had here: nothing was tested with it: {built.stderr.strip()[-300:]}"
        )
    assert built.returncode == 0, built.stderr
    return [str(program)]


def java(_folder: Path) -> Sequence[str]:
    """Apache Kafka's own client, beside the jars of the environment."""
    skip_unless_kafka_is_there()
    return [*java_command(), str(HERE / "ClusterClient.java")]


CASTS = {
    "tidelog": Cast(OurWriter, Reader),
    "confluent-kafka": Cast(ConfluentWriter, Reader),
    "kafka-python": Cast(KafkaPythonWriter, KafkaPythonReader),
    "aiokafka": Cast(AiokafkaWriter, AiokafkaReader),
    "franz-go": Cast(ProgramWriter, ProgramReader, franz_go),
    "java": Cast(ProgramWriter, ProgramReader, java),
}


def wait_for_progress(writer: Writer, seconds: float, count: int = 5) -> float:
    """Wait until each partition has taken so many more records, and return how long that took."""
    begun, before = time.monotonic(), writer.acknowledged_counts()
    while any(writer.acknowledged_counts()[where] < before[where] + count for where in before):
        assert not writer.failures, writer.failures[:5]
        assert time.monotonic() < begun + seconds, (
            f"{writer.name} gets no more records to all partitions: {writer.acknowledged_counts()}"
        )
        time.sleep(0.02)
    return time.monotonic() - begun
