"""Produce records and print their partitions and offsets.

python examples/produce.py --bootstrap-servers 127.0.0.1:9092 --topic greetings --count 1000
"""

import argparse

import trio

from log_service.client import KafkaError, Producer, RecordMetadata


async def produce(bootstrap_servers: str, topic: str, count: int) -> None:
    failures: list[KafkaError] = []

    def note_failure(_metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is not None:
            failures.append(error)

    async with Producer(bootstrap_servers, compression="zstd", linger_ms=20) as producer:
        for number in range(count):
            # Records of one key go to one partition and keep their order; send() only waits while
            # the buffer is full.
            await producer.send(
                topic, f"hello {number}", key=f"guest {number % 10}", on_delivery=note_failure
            )
        last = await producer.send(topic, "goodbye", headers=[("kind", b"farewell")])
        metadata = await last.wait()
        print(
            f"the last record is {metadata.topic}-{metadata.partition} at offset {metadata.offset}"
        )
        await producer.flush()
        counted = producer.metrics()  # .named() has them by Kafka's names, for dashboards
        print(
            f"{counted.request_total} requests took {counted.request_latency_avg:.1f} ms on average"
        )
    # Leaving the block waited for all the others.
    print(f"{count + 1 - len(failures)} records delivered, {len(failures)} failed")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--count", type=int, default=1_000)
    arguments = parser.parse_args()
    trio.run(produce, arguments.bootstrap_servers, arguments.topic, arguments.count)


if __name__ == "__main__":
    main()
