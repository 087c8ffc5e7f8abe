"""Measures the time from handing a record to the producer to its acknowledgement.

Records come at a steady rate. The client waits for acknowledgements without sleeping, so that
waking it up is not measured. That takes one core, and brokers compete for the others. Its garbage
collector rests meanwhile. p99.9 needs samples: 20 s are 20,000 at the lower rate.
"""

import contextlib
import gc
import time
from collections.abc import Iterator

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError, BrokerProcess
from benchmarks.rounds import Bench
from benchmarks.table import Row, at_most

RATES = {1_000: (20.0, (1.0, 0.3, 0.5)), 5_000: (10.0, (0.75, 0.3, 0.5))}
"""Records per second, the seconds at full scale, and the goals of the percentiles."""
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
MIN_SECONDS = 1.0
WARM_UP_COUNT = 2_000
VALUE = bytes(100)


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def latencies_ms(address: str, topic: str, rate: int, seconds: float) -> list[float]:
    """Send at ``rate`` records/s for ``seconds``, and return every acknowledgement's latency.

    Latencies are ordered.
    """
    producer = Producer(
        {
            "bootstrap.servers": address,
            "log_level": ERRORS_ONLY,
            "acks": "all",
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )
    seen: list[float] = []

    def send_one() -> None:
        sent = time.perf_counter()

        def on_delivery(error: KafkaError | None, _record: Message) -> None:
            if error is None:
                seen.append((time.perf_counter() - sent) * 1e3)

        producer.produce(topic, VALUE, on_delivery=on_delivery)

    def send_at_rate(count: int) -> None:
        started = time.perf_counter()
        for index in range(count):
            while (due := started + index / rate - time.perf_counter()) > 0:
                producer.poll(due)
            send_one()
        if producer.flush(30) or len(seen) < count:
            raise BenchmarkError(f"{len(seen)} of {count} records were acknowledged")

    send_at_rate(WARM_UP_COUNT)
    seen.clear()
    with garbage_collector_resting():
        send_at_rate(int(rate * seconds))
    return sorted(seen)


@contextlib.contextmanager
def garbage_collector_resting() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measure(broker: BrokerProcess, bench: Bench) -> list[Row]:
    """Measure one round."""
    rows = []
    for rate, (full_seconds, goals) in RATES.items():
        with broker.topic() as topic:
            ordered = latencies_ms(
                broker.address, topic, rate, max(MIN_SECONDS, full_seconds * bench.scale)
            )
        rows += [
            Row(
                figure=f"latency {name} at {rate:,} records/s",
                unit="ms",
                rounds=(percentile(ordered, share),),
                goal=at_most(goal),
            )
            for (name, share), goal in zip(PERCENTILES.items(), goals, strict=True)
        ]
    return rows
