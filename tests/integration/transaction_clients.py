"""Transactional producers of librdkafka, and what a reader sees of them."""

import time

from confluent_kafka import Consumer, Producer, TopicPartition

SECONDS = 20.0


def producer_of(bootstrap: str, transactional_id: str, **properties: str | int) -> Producer:
    """Return a transactional producer that is ready to begin."""
    configured = {name.replace("_", "."): value for name, value in properties.items()}
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **configured}
    )
    producer.init_transactions(SECONDS)
    return producer


def seen(
    bootstrap: str, topic: str, *, level: str = "read_committed", partitions: int = 2
) -> list[bytes]:
    """Return all values that a reader of that isolation level sees, up to the end of what it may
    see.
    """
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": level,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[bytes] = []
    ended = 0
    deadline = time.monotonic() + SECONDS
    while ended < partitions:
        assert time.monotonic() < deadline, values
        message = reader.poll(0.2)
        if message is None:
            continue
        if message.error():
            ended += 1
        else:
            values.append(message.value() or b"")
    reader.close()
    return sorted(values)


def write(producer: Producer, topic: str, *values: str) -> None:
    producer.begin_transaction()
    for index, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=index % 2)
    producer.flush(SECONDS)
