"""Measures the cost of quotas for clients that stay far below them.

It measures produce and consume with such quotas, and without any, on the same broker. Every client
is counted against all three of its quotas then. Quotas come and go by turns, ``TURNS`` times in a
round, as an authorizer does in ``guarded``. The load is the same with them and without.
"""

import contextlib
from collections.abc import Iterator

from benchmarks.broker_process import BrokerProcess
from benchmarks.consume import PASSES, consume_values
from benchmarks.guarded import VALUE_BYTES, VALUE_COUNT, Taken, cost_rows, take_alone, take_values
from benchmarks.measured import Asked, Measured
from benchmarks.produce import PRODUCERS, produce_values
from benchmarks.rounds import Bench
from benchmarks.table import Row
from log_service.client import BlockingAdmin, QuotaEntity

TURNS = 3
BOUNDS = {
    "producer_byte_rate": 10.0**12,
    "consumer_byte_rate": 10.0**12,
    "request_percentage": 10.0**6,
}
"""The quotas of each client id. They are far beyond the speed of a machine."""
ALONE, PRODUCE, CONSUME = "one-record batches", "produce 1 KiB", "consume 1 KiB"


@contextlib.contextmanager
def metered(address: str, *, is_wanted: bool) -> Iterator[None]:
    """Set quotas for every client id meanwhile, where they are wanted."""
    if not is_wanted:
        yield
        return
    entity = QuotaEntity(client_id="")
    with BlockingAdmin(address) as admin:
        admin.alter_client_quotas({entity: BOUNDS})
        try:
            yield
        finally:
            admin.alter_client_quotas({entity: dict.fromkeys(BOUNDS)})


def take_reads(broker: Measured, topic: str, count: int) -> Taken:
    """Read a topic from its start."""
    cpu_before = broker.cpu_s()
    seconds = sum(consume_values(broker.address, topic, count) for _ in range(PASSES))
    read_count = count * PASSES
    return Taken(
        per_s=read_count / seconds, cpu_us_each=(broker.cpu_s() - cpu_before) / read_count * 1e6
    )


def measure(broker: BrokerProcess, bench: Bench) -> list[Row]:
    """Measure one round: by turns without quotas and with them."""
    taken: dict[str, tuple[list[Taken], list[Taken]]] = {
        name: ([], []) for name in (ALONE, PRODUCE, CONSUME)
    }
    count = bench.count(VALUE_COUNT)
    with broker.topic() as read:
        produce_values(broker.address, read, VALUE_BYTES, count)
        take_reads(broker, read, count)
        for turn in range(TURNS):
            for which in (1, 0) if turn % 2 else (0, 1):
                with metered(broker.address, is_wanted=bool(which)):
                    for name, found in take_all(broker, bench, read, count):
                        taken[name][which].append(found)
    return [
        row
        for name, (plain, counted) in taken.items()
        for row in cost_rows(name, plain, counted, of="quotas")
    ]


def take_all(broker: Measured, bench: Asked, read: str, count: int) -> Iterator[tuple[str, Taken]]:
    """Yield the figures of each kind of work."""
    with broker.topic(PRODUCERS) as topic:
        yield ALONE, take_alone(broker, topic, bench)
    with broker.topic() as topic:
        yield PRODUCE, take_values(broker, topic, bench)
    yield CONSUME, take_reads(broker, read, count)
