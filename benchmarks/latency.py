"""Time from handing a record to the producer to its acknowledgement, at a steady rate."""

import time

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.broker_process import BrokerProcess
from benchmarks.table import Row

RATES = (1_000, 5_000)
SECONDS = 10.0
VALUE = bytes(100)


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latencies_ms(address: str, topic: str, rate: int, seconds: float) -> list[float]:
    """Send at ``rate`` records/s for ``seconds`` and return every acknowledgement's latency, ordered."""
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0, "socket.nagle.disable": True})
    seen: list[float] = []

    def send_one() -> None:
        sent = time.perf_counter()

        def on_delivery(error: KafkaError | None, _record: Message) -> None:
            if error is None:
                seen.append((time.perf_counter() - sent) * 1e3)

        producer.produce(topic, VALUE, on_delivery=on_delivery)

    for _ in range(200):
        send_one()
    producer.flush(30)
    seen.clear()
    started = time.perf_counter()
    for index in range(int(rate * seconds)):
        while (due := started + index / rate - time.perf_counter()) > 0:
            producer.poll(due)
        send_one()
    producer.flush(30)
    return sorted(seen)


def measure(broker: BrokerProcess, *, scale: float) -> list[Row]:
    """Measure one round."""
    rows = []
    for rate in RATES:
        with broker.topic() as topic:
            ordered = latencies_ms(broker.address, topic, rate, SECONDS * scale)
        rows += [
            Row(figure=f"latency {name} at {rate:,} records/s", unit="ms", rounds=(percentile(ordered, share),))
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
        ]
    return rows
