"""Consumers that read in a group of either protocol, each in a thread of its own."""

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka

from tests.integration.confluent import WAIT_SECONDS, Sent, serve_callbacks, settings


class Reader:
    """One consumer, and what it was given."""

    def __init__(self, bootstrap: str, topic: str, group: str, **more: Any) -> None:
        named = settings(
            bootstrap,
            group_id=group,
            group_protocol="consumer",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **more,
        )
        self.consumer: Any = confluent_kafka.Consumer(named)
        self.consumer.subscribe([topic])
        self.values: list[bytes] = []

    def poll(self) -> None:
        """Read for a moment."""
        record = self.consumer.poll(0.05)
        if record is not None:
            assert record.error() is None, record.error()
            self.values.append(record.value())

    def close(self) -> None:
        """Leave the group."""
        serve_callbacks(self.consumer)
        self.consumer.close()

    @property
    def partitions(self) -> set[int]:
        """Return the partitions that it holds."""
        return {each.partition for each in self.consumer.assignment()}


def send(bootstrap: str, topic: str, values: list[bytes], partition: int) -> None:
    """Produce to one partition."""
    sent = Sent(bootstrap)
    for value in values:
        sent.send(topic, value, partition=partition)
    sent.flush()


def poll_until(is_there: Callable[[], bool], what: str, *readers: Reader) -> None:
    """Let consumers read until something has come about."""
    deadline = time.monotonic() + 3 * WAIT_SECONDS
    while not is_there():
        assert time.monotonic() < deadline, (
            f"{what}: {[(reader.partitions, len(reader.values)) for reader in readers]}"
        )
        for reader in readers:
            reader.poll()
