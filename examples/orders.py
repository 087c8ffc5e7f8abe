"""Produce and consume values instead of bytes, with serializers, deserializers and interceptors.

It also shows how to handle records that cannot be read.

python examples/orders.py --bootstrap-servers 127.0.0.1:9092 --topic orders
"""

import argparse
import json
import re
from typing import Any

import trio

from log_service.client import Consumer, Producer, ProducerRecord, RecordDeserializationError


def to_json(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def signed(record: ProducerRecord) -> ProducerRecord:
    """Add a header to a record. An interceptor sees each record before it is serialized."""
    return record._replace(headers=(*record.headers, ("source", b"examples/orders.py")))


async def order(bootstrap_servers: str, topic: str) -> None:
    async with Producer(
        bootstrap_servers, value_serializer=to_json, interceptors=[signed]
    ) as producer:
        for number in range(5):
            await producer.send(
                topic,
                {"order": number, "price": 10 * number},
                key=f"customer {number % 2}",
                partition=0,
            )
    async with Producer(bootstrap_servers) as careless:
        await careless.send(topic, "this is no JSON", partition=0)
        # A null value deletes the key, and there is nothing to deserialize.
        await careless.send(topic, None, key="customer 1", partition=0)


async def bill(bootstrap_servers: str, topic: str) -> None:
    """Read every topic whose name begins like ours, until no record has come for two seconds."""
    group_id = f"billing-{topic}"
    async with Consumer(
        bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        value_deserializer=json.loads,
    ) as consumer:
        await consumer.subscribe(re.compile(re.escape(topic) + ".*"))
        total, idle_polls = 0, 0
        while idle_polls < 2:
            try:
                records = await consumer.poll(timeout_ms=1_000)
            except RecordDeserializationError as error:
                print(
                    f"skipped {error.topic_partition} offset {error.offset}: {error.record.value!r}"
                )
                await consumer.seek(error.topic_partition, error.offset + 1)
                continue
            total += sum(record.value["price"] for record in records if record.value is not None)
            idle_polls = 0 if records else idle_polls + (len(consumer.assignment) > 0)
        print(f"billed {total}, {sum(consumer.metrics().records_lag.values())} records behind")


async def trade(bootstrap_servers: str, topic: str) -> None:
    await order(bootstrap_servers, topic)
    await bill(bootstrap_servers, topic)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="orders")
    arguments = parser.parse_args()
    trio.run(trade, arguments.bootstrap_servers, arguments.topic)


if __name__ == "__main__":
    main()
