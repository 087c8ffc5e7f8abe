"""Measures rows per second from a topic to a table by a whole installation.

The records are the flights. The time runs from the first record sent to the last commit.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from assets.topics import FLIGHTS
from benchmarks.installation import running_installation, wait_until_caught_up
from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row
from log_service.client import BlockingProducer
from orchestration.demo.production import create_topics
from orchestration.demo.source import DataSet, data_sets
from orchestration.lake.tables import Lake

TABLE = "clean_flights"
FLIGHT_COUNT = 336_776


def send_all(address: str, data: DataSet) -> None:
    with BlockingProducer(
        address, compression="zstd", linger_ms=20, batch_size=256 << 10
    ) as producer:
        for record in data.records():
            producer.send(data.topic, record.value, record.key)
        producer.flush()


def measure(bench: Bench) -> list[Row]:
    """Measure one round: a whole installation from an empty directory, and the flights."""
    count = bench.count(FLIGHT_COUNT, at_least=1_000)
    (flights,) = data_sets([FLIGHTS], count)
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        running_installation(Path(directory)) as address,
    ):
        create_topics(address, [FLIGHTS])
        started = time.monotonic()
        send_all(address, flights)
        sent_s = time.monotonic() - started
        wait_until_caught_up(address, Lake(Path(directory) / "lake"), FLIGHTS.name, TABLE)
        seconds = time.monotonic() - started
    return [
        Row(
            figure=f"topic to table, {count:,} flights, first record to last commit",
            unit="rows/s",
            rounds=(count / seconds,),
        ),
        Row(
            figure="of that, producing through our client",
            unit="records/s",
            rounds=(count / sent_s,),
        ),
    ]


@contextlib.contextmanager
def to_table(bench: Bench) -> Iterator[Sides]:
    """Start everything anew in a round. There is one round."""
    yield Sides(measures={OURS: partial(measure, bench)}, most_rounds=1)
