"""The tests use confluent-kafka (librdkafka) by these functions.

Errors raise, waits have an end, nothing is printed.

Its annotations cover half of it: what comes from it is ``Any`` here.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import confluent_kafka
import confluent_kafka.admin

WAIT_SECONDS = 20.0

_ADMIN = vars(confluent_kafka.admin)
ConfigResource: Any = _ADMIN["ConfigResource"]
ConfigEntry: Any = _ADMIN["ConfigEntry"]
ConfigOp: Any = _ADMIN["AlterConfigOpType"]
ConfigSource: Any = _ADMIN["ConfigSource"]
NewPartitions: Any = _ADMIN["NewPartitions"]
NewTopic: Any = _ADMIN["NewTopic"]
OffsetSpec: Any = _ADMIN["OffsetSpec"]
ResourceType: Any = _ADMIN["ResourceType"]


def _silent(*_arguments: object) -> None:
    """Connections break when brokers stop; librdkafka would print that."""


def settings(bootstrap: str, **more: Any) -> dict[str, Any]:
    """Settings with dots for underscores; callbacks keep theirs."""
    named = {
        name if callable(value) else name.replace("_", "."): value for name, value in more.items()
    }
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": _silent, **named}


def admin(bootstrap: str) -> Any:
    return confluent_kafka.admin.AdminClient(settings(bootstrap))


def create_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic and wait until the broker tells its leaders."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=named)
    client = admin(bootstrap)  # must live until the future is done
    client.create_topics([topic])[name].result(WAIT_SECONDS)

    def is_led() -> bool:
        found = client.list_topics(name, timeout=WAIT_SECONDS).topics[name]
        return len(found.partitions) == partitions and all(
            one.leader >= 0 for one in found.partitions.values()
        )

    wait_until(is_led, f"{name} has leaders")


class Sent:
    """A producer that collects delivery reports."""

    def __init__(self, bootstrap: str, **more: Any) -> None:
        self.delivered: list[Any] = []
        self.failed: list[Any] = []
        self._producer: Any = confluent_kafka.Producer(settings(bootstrap, **more))

    def send(self, topic: str, value: bytes | None, **more: Any) -> None:
        self._producer.produce(topic, value, on_delivery=self._report, **more)
        self._producer.poll(0)

    def _report(self, error: Any, record: Any) -> None:
        if error is None:
            self.delivered.append(record)
        else:
            self.failed.append(error)

    def flush(self) -> None:
        left = self._producer.flush(WAIT_SECONDS)
        assert left == 0, f"{left} records were not answered"
        assert not self.failed, self.failed

    def flush_quietly(self, seconds: float) -> int:
        left: int = self._producer.flush(seconds)
        return left


def produce(bootstrap: str, topic: str, values: Iterable[bytes], **more: Any) -> None:
    """Produce and wait until everything is acknowledged."""
    sent = Sent(bootstrap, **more)
    for value in values:
        sent.send(topic, value)
    sent.flush()


def consumer(bootstrap: str, group: str = "group", **more: Any) -> Any:
    more.setdefault("auto_offset_reset", "earliest")
    more.setdefault("enable_auto_commit", False)
    return confluent_kafka.Consumer(settings(bootstrap, group_id=group, **more))


def take(source: Any, count: int) -> list[Any]:
    """Return that many records."""
    records: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came"
        for record in source.consume(count - len(records), 0.5):
            assert record.error() is None, record.error()
            records.append(record)
    return records


def serve_callbacks(source: Any) -> list[Any]:
    """Serve the callbacks that wait for a member of a group, and return the records that came with
    them.

    Call it before the member's close.

    A close during a rebalance may else hang for ever, with the interpreter's lock held, so that no
    thread and no signal ends it: librdkafka 2.16 gives the group up, and the callback that waits
    then asks it a question that nothing answers (librdkafka#4041).
    """
    records: list[Any] = []
    while found := source.consume(1_000, 0):
        records += found
    return records


def read_records(
    bootstrap: str,
    topic: str,
    count: int,
    partition: int = 0,
    offset: int = confluent_kafka.OFFSET_BEGINNING,
    **more: Any,
) -> list[Any]:
    """Read a partition from its beginning or an offset, without a group's help."""
    source = consumer(bootstrap, f"reader-of-{topic}", **more)
    source.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
    try:
        return take(source, count)
    finally:
        source.close()


def read_all(
    bootstrap: str, topic: str, count: int, partition: int = 0, **more: Any
) -> list[bytes]:
    """Read the values of a partition from its beginning."""
    return [record.value() for record in read_records(bootstrap, topic, count, partition, **more)]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.02)
