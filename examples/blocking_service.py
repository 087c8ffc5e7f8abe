"""A service without an event loop: threads share one producer, another thread consumes.

Ctrl-C ends it in order.

python examples/blocking_service.py --bootstrap-servers 127.0.0.1:9092 --seconds 5
"""

import argparse
import threading
import time

from log_service.client import BlockingConsumer, BlockingProducer


def measure(producer: BlockingProducer, topic: str, sensor: str, stopping: threading.Event) -> None:
    """Produce a reading now and then. send() hands the record over and returns at once."""
    number = 0
    while not stopping.wait(0.01):
        producer.send(topic, f"{sensor} {number}", key=sensor)
        number += 1


def watch(bootstrap_servers: str, topic: str, stopping: threading.Event) -> None:
    """Count the records that arrive."""
    with BlockingConsumer(
        bootstrap_servers, group_id="blocking-service", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        count = 0
        while not stopping.is_set():
            count += len(consumer.poll(timeout_ms=200))
        print(f"read {count} readings")


def serve(bootstrap_servers: str, topic: str, seconds: float) -> None:
    stopping = threading.Event()
    with BlockingProducer(bootstrap_servers, linger_ms=50) as producer:
        threads = [threading.Thread(target=watch, args=(bootstrap_servers, topic, stopping))]
        threads += [
            threading.Thread(target=measure, args=(producer, topic, f"sensor {index}", stopping))
            for index in range(4)
        ]
        receipt = producer.send(topic, "the first reading")
        print(f"the first reading is at offset {receipt.wait(timeout_ms=30_000).offset}")
        for thread in threads:
            thread.start()
        try:
            time.sleep(seconds)
        except KeyboardInterrupt:
            print("stopping")
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
    # Leaving the block delivered what the threads had handed over.


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="readings")
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    serve(arguments.bootstrap_servers, arguments.topic, arguments.seconds)


if __name__ == "__main__":
    main()
