"""Runs mirrors for the tests.

It writes a file of settings, runs a process that mirrors, and reads the records of a cluster.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trio

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ConsumerRecord,
    NewTopic,
    OffsetSpec,
    TopicPartition,
)
from log_service.mirror.service import MirrorService
from log_service.mirror.settings import MirrorSettings
from tests.helpers.forked_process import ForkedProcess, command, start_forked

PATIENCE_SECONDS = 60.0
QUICK = (
    "refresh.topics.interval.seconds = 1",
    "sync.group.offsets.interval.seconds = 1",
    "commit.interval.ms = 5",
)
"""What a test has no time to wait for."""
SENDER_PAUSE_SECONDS, SENT_AT_ONCE, MAX_SENT = 0.02, 10, 100_000


def write_file(path: Path, servers: Mapping[str, str], *lines: str) -> Path:
    """Write a mirror's file: clusters by alias, and what else it says."""
    where = [f"{alias}.bootstrap.servers = {address}" for alias, address in servers.items()]
    path.write_text("\n".join([f"clusters = {', '.join(servers)}", *where, *QUICK, *lines, ""]))
    return path


def create(servers: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic with one replica; ``configs`` have underscores for dots."""
    given = {key.replace("_", "."): value for key, value in configs.items()}
    with BlockingAdmin(servers) as admin:
        admin.create_topics(
            [NewTopic(name=name, partition_count=partitions, replication_factor=1, configs=given)]
        )


def send(servers: str, topic: str, sent: list[bytes], partition: int = 0) -> None:
    """Send values, and wait until each is acknowledged."""
    with BlockingProducer(servers) as producer:
        for receipt in [producer.send(topic, value=value, partition=partition) for value in sent]:
            receipt.wait()


class MirrorProcess:
    """A process that mirrors what a file says; it may be killed and started again. ``log`` is what
    all of its starts said.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._started_at = 0
        self._process: ForkedProcess | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.end(signal.SIGKILL)

    @property
    def log(self) -> str:
        path = self.file.with_suffix(".log")
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def is_mirroring(self) -> bool:
        """Whether it has come to its topics since its last start."""
        return ": mirrors " in self.log[self._started_at :]

    def start(self) -> Self:
        """Start, without waiting for anything."""
        self._started_at = len(self.log)
        self._process = start_forked(
            ["mirror", "run", str(self.file)], log=self.file.with_suffix(".log"), target=command
        )
        return self

    def end(self, number: int) -> int:
        """Send a signal and wait for the end."""
        assert self._process is not None, "it does not run"
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            return process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()


@contextmanager
def mirroring(
    file: Path, *, heartbeat: Path | None = None, complaint: Path | None = None
) -> Iterator[list[str]]:
    """Mirror what a file says in a thread of this process; yields the lines that it says. The files
    are for a supervisor.
    """
    said: list[str] = []
    begun = threading.Event()
    failures: list[BaseException] = []
    stop: list[Callable[[], None]] = []

    settings = MirrorSettings.of(file.read_text(), file.name)

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:
            stop.append(lambda: token.run_sync_soon(scope.cancel))
            begun.set()
            await MirrorService(
                settings, say=said.append, heartbeat=heartbeat, complaint=complaint
            ).run()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            failures.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=run, name="mirror", daemon=True)
    thread.start()
    begun.wait(PATIENCE_SECONDS)
    try:
        yield said
    finally:
        for each in stop:
            each()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "the mirror did not stop"
    assert not failures, failures


class Sender(threading.Thread):
    """Sends the numbers 0, 1, 2, ... to each partition of a topic until it is stopped, with a small
    pause after each few.
    """

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        super().__init__(name="sender", daemon=True)
        self._place = servers, topic, partitions
        self._stopping = threading.Event()
        self._sent = 0

    def run(self) -> None:
        servers, topic, partitions = self._place
        with BlockingProducer(servers) as producer:
            while not self._stopping.wait(SENDER_PAUSE_SECONDS) and self._sent < MAX_SENT:
                numbers = [
                    b"%d" % number for number in range(self._sent, self._sent + SENT_AT_ONCE)
                ]
                for partition in range(partitions):
                    producer.send_many(topic, numbers, partition=partition)
                producer.flush()
                self._sent += SENT_AT_ONCE

    def stop(self) -> int:
        """Stop, and return how many numbers each partition has."""
        self._stopping.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), "it did not stop"
        return self._sent


@contextmanager
def sending(servers: str, topic: str, partitions: int) -> Iterator[Sender]:
    """Send numbers in a thread; see ``Sender``."""
    sender = Sender(servers, topic, partitions)
    sender.start()
    try:
        yield sender
    finally:
        sender.stop()


def until(holds: Callable[[], Any], what: str) -> None:
    """Wait until something holds; what raises does not hold yet."""
    deadline, last = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < deadline:
        try:
            if holds():
                return
            last = ""
        except Exception as error:  # noqa: BLE001 - shown where it never holds
            last = repr(error)
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true within {PATIENCE_SECONDS:.0f} s {last}")


def read_committed(servers: str, topic: str, partition: int = 0) -> list[ConsumerRecord]:
    """Return all committed records of a partition as they are now."""
    where = TopicPartition(topic, partition)
    with BlockingConsumer(
        servers, isolation_level="read_committed", allow_auto_create_topics=False
    ) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([where])[where]
        records: list[ConsumerRecord] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while consumer.position(where) < end and time.monotonic() < deadline:
            records += consumer.poll(timeout_ms=200)
        return records


def values(servers: str, topic: str, partition: int = 0) -> list[bytes]:
    """Return the values of all committed records of a partition as they are now."""
    return [record.value for record in read_committed(servers, topic, partition)]


def end_of(servers: str, topic: str, partition: int = 0) -> int:
    """Return the last stable offset of a partition."""
    where = TopicPartition(topic, partition)
    with BlockingAdmin(servers) as admin:
        return admin.list_offsets({where: OffsetSpec.latest()}, isolation_level="read_committed")[
            where
        ].offset


def is_at(servers: str, topic: str, offset: int) -> bool:
    """Whether the first partition of a topic has come to an offset."""
    return end_of(servers, topic) >= offset


def ends_with(servers: str, topic: str, partition: int, value: bytes) -> bool:
    """Whether the last committed record of a partition has that value."""
    return values(servers, topic, partition)[-1:] == [value]


def is_there(servers: str, topics: Sequence[str]) -> bool:
    """Whether a cluster has all these topics."""
    with BlockingAdmin(servers) as admin:
        return set(topics) <= {each.name for each in admin.list_topics()}


def committed(servers: str, group: str) -> dict[TopicPartition, int]:
    """Return a group's offsets."""
    with BlockingAdmin(servers) as admin:
        return {where: each.offset for where, each in admin.list_group_offsets(group).items()}
