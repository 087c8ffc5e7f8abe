"""Measures queues (share groups): records a second of 1, 8 and 64 consumers, and their cost.

The cost is that for the broker. The consumers are this project's, the same for both brokers, as
tasks of one trio program. They accept every record that a poll returns. They have joined before the
records are sent, and the time runs from the first record sent to the last one taken.
"""

import math
from functools import partial

import trio

from benchmarks.broker_process import BenchmarkError
from benchmarks.measured import Asked, Measured
from benchmarks.produce import produce_values
from benchmarks.table import Row, at_least
from log_service.client import BlockingAdmin, ConfigResource, ShareConsumer

CONSUMER_COUNTS = {1: 200_000, 8: 200_000, 64: 100_000}
"""Numbers of consumers, and of the records that they take at full scale."""
PARTITION_COUNT = 8
RECORD_BYTES = 100
MIN_COUNT = 2_000
JOIN_S = 8.0
DEADLINE_S = 180.0
POLL_MS = 500


class Crowd:
    """The consumers of one queue."""

    def __init__(self, address: str, topic: str, consumer_count: int) -> None:
        self._address = address
        self._topic = topic
        self._consumer_count = consumer_count
        self._taken_count = 0
        self._wanted_count = math.inf
        self._is_done = trio.Event()

    async def _take(self) -> None:
        async with ShareConsumer(self._address, group_id=self._topic) as consumer:
            await consumer.subscribe([self._topic])
            while not self._is_done.is_set():
                taken = await consumer.poll(timeout_ms=POLL_MS)
                self._taken_count += len(taken)
                if self._taken_count >= self._wanted_count:
                    self._is_done.set()

    async def take(self, broker: Measured, record_count: int) -> tuple[float, float]:
        """Take so many records with all consumers.

        Returns the seconds that took, and the broker's CPU seconds meanwhile.
        """
        async with trio.open_nursery() as nursery:
            for _ in range(self._consumer_count):
                nursery.start_soon(self._take)
            await trio.sleep(JOIN_S)
            self._wanted_count = record_count
            cpu_before, started = broker.cpu_s(), trio.current_time()
            send = partial(
                produce_values,
                self._address,
                self._topic,
                RECORD_BYTES,
                record_count,
                sticky_partitioning_linger_ms=0,
            )
            nursery.start_soon(trio.to_thread.run_sync, send)
            with trio.move_on_after(DEADLINE_S):
                await self._is_done.wait()
            if not self._is_done.is_set():
                raise BenchmarkError(
                    f"{self._taken_count} of {record_count} records were taken within"
                    f" {DEADLINE_S:g} s"
                )
            return trio.current_time() - started, broker.cpu_s() - cpu_before


def read_from_the_start(address: str, group_id: str) -> None:
    """Let a queue begin with the first record, whenever its consumers find the partitions."""
    with BlockingAdmin(address) as admin:
        admin.alter_configs(
            {ConfigResource.group(group_id): {"share.auto.offset.reset": "earliest"}}
        )


def measure(broker: Measured, bench: Asked) -> list[Row]:
    """Measure one round."""
    rows = []
    for consumer_count, full_count in CONSUMER_COUNTS.items():
        count = bench.count(full_count, at_least=MIN_COUNT)
        with broker.topic(PARTITION_COUNT) as topic:
            read_from_the_start(broker.address, topic)
            seconds, cpu_s = trio.run(
                Crowd(broker.address, topic, consumer_count).take, broker, count
            )
        name = (
            f"records of 100 B taken from a queue by {consumer_count}"
            f" consumer{'s' if consumer_count > 1 else ''}"
        )
        rows += [
            Row(figure=name, unit="records/s", rounds=(count / seconds,), goal=at_least(1.0)),
            Row(figure=f"  broker CPU of {name}", unit="us each", rounds=(cpu_s / count * 1e6,)),
        ]
    return rows
