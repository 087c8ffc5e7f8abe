"""One member of a group, on librdkafka."""

import threading
from collections.abc import Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.integration.confluent import WAIT_SECONDS, consumer, serve_callbacks


class Member:
    """A consumer that is polled by a thread of its own and remembers what happened to it."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], **more: object) -> None:
        self.received: list[tuple[int, int]] = []
        self.assigned: set[int] = set()
        self.rebalance_count = 0
        self.errors: list[confluent_kafka.KafkaError] = []
        self._is_cooperative = more.get("partition_assignment_strategy") == "cooperative-sticky"
        self._consumer = consumer(
            bootstrap, group, session_timeout_ms=6_000, heartbeat_interval_ms=300, **more
        )
        self._consumer.subscribe(
            list(topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )
        self._is_running = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _on_assign(self, _consumer: object, partitions: list[TopicPartition]) -> None:
        self.rebalance_count += 1
        self.assigned |= {one.partition for one in partitions}

    def _on_revoke(self, _consumer: object, partitions: list[TopicPartition]) -> None:
        self.assigned -= {one.partition for one in partitions}

    def _run(self) -> None:
        while self._is_running:
            self._take(self._consumer.consume(100, 0.05))

    def _take(self, records: list[Any]) -> None:
        for record in records:
            if record.error():
                self.errors.append(record.error())
            else:
                self.received.append((record.partition(), record.offset()))

    def stop(self) -> None:
        """Stop polling and leave the group."""
        if self._is_running:
            self._is_running = False
            self._thread.join(WAIT_SECONDS)
            self._take(serve_callbacks(self._consumer))
            self._consumer.close()
