"""Measures throughput of produce and consume over TLS, and its CPU cost for the broker.

It measures with a login and without.
"""

import contextlib
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.broker_process import touch_memory
from benchmarks.consume import consume_values
from benchmarks.measured import Asked
from benchmarks.produce import MEGABYTE, produce_values
from benchmarks.rounds import Bench, Sides, say
from benchmarks.secure_brokers import (
    PROTOCOLS,
    AnyMeasured,
    SecureBroker,
    others_suspended,
    secure_brokers,
)
from benchmarks.table import Row, at_least, at_most

VALUE_BYTES, COUNT, MIN_COUNT = 1_024, 400_000, 20_000
PASSES = 2
"""How often a topic is read in a round after a first time that does not count."""


def measure(secure: SecureBroker[AnyMeasured], bench: Asked) -> list[Row]:
    """Measure one round."""
    return [
        row
        for protocol in PROTOCOLS
        for row in _rows(secure, protocol, bench.count(COUNT, at_least=MIN_COUNT))
    ]


def _rows(secure: SecureBroker[AnyMeasured], protocol: str, count: int) -> Iterator[Row]:
    broker, address, settings = (
        secure.broker,
        secure.addresses[protocol],
        secure.client_settings(protocol),
    )
    size_bytes = VALUE_BYTES * count
    with broker.topic() as topic:
        touch_memory(int(size_bytes * 1.2))
        cpu_before = broker.cpu_s()
        seconds = produce_values(address, topic, VALUE_BYTES, count, **settings)
        cpu_s = broker.cpu_s() - cpu_before
        yield from _throughput(f"produce 1 KiB over {protocol}", size_bytes, seconds, cpu_s)
        consume_values(address, topic, count, **settings)
        cpu_before, client_before = broker.cpu_s(), time.process_time()
        seconds = sum(consume_values(address, topic, count, **settings) for _ in range(PASSES))
        cpu_s, client_cpu_s = broker.cpu_s() - cpu_before, time.process_time() - client_before
        name = f"consume 1 KiB over {protocol}"
        yield from _throughput(name, PASSES * size_bytes, seconds, cpu_s)
        yield Row(
            figure=f"  client CPU of {name}",
            unit="s per GB",
            rounds=(client_cpu_s / (PASSES * size_bytes / 1e9),),
        )


def _throughput(name: str, size_bytes: int, seconds: float, cpu_s: float) -> Iterator[Row]:
    yield Row(
        figure=name, unit="MB/s", rounds=(size_bytes / seconds / MEGABYTE,), goal=at_least(1.0)
    )
    yield Row(
        figure=f"  broker CPU of {name}",
        unit="s per GB",
        rounds=(cpu_s / (size_bytes / 1e9),),
        goal=at_most(1.0),
    )


@contextlib.contextmanager
def encrypted(bench: Bench) -> Iterator[Sides]:
    """Keep a broker of each product from round to round."""
    bench.stop_brokers()
    with secure_brokers(bench) as found:
        every = [each.broker for each in found.values()]

        def measure_alone(name: str, how: Bench) -> list[Row]:
            with others_suspended(found[name].broker, every):
                return measure(found[name], how)

        for name in found:
            say(f"encrypted: warming up {name}")
            measure_alone(name, bench)
        yield bench.beside({name: partial(measure_alone, name, bench) for name in found})
