"""Measures seconds from an acknowledged record to its visible row, under steady streams.

The whole installation runs (`tidelog up`, minimum interval 0). A record counts from the moment the
producer learnt that the broker has it, until the commit that holds its offset is in the table's
log. Both moments are read where they happen (delivery report; the time of the commit's file), so
that no polling blurs them.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message, Producer

from benchmarks.broker_process import BenchmarkError
from benchmarks.installation import running_installation, wait_until_caught_up
from benchmarks.rounds import Bench, Sides, say
from benchmarks.stream_project.assets import READINGS
from benchmarks.table import OURS, Row, value_at_most
from orchestration.demo.production import create_topics
from orchestration.lake.tables import Lake

PROJECT = Path(__file__).parent / "stream_project"
TABLE = "readings"
RATES = (1, 100, 10_000)
STREAM_S = 15.0
WARM_UP_S = 6.0
P50_GOAL_S, P99_GOAL_S = 1.5, 3.0
PACE_S = 0.005
RECORD_BYTES = 100

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The times of the producer's acknowledgements: (offset, seconds) by partition."""

    by_partition: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    def note(self, error: object, record: Message) -> None:
        """Record one delivery report."""
        if error is not None:
            raise BenchmarkError(f"a record was not acknowledged: {error}")
        partition, offset = record.partition(), record.offset()
        assert partition is not None
        assert offset is not None
        self.by_partition.setdefault(partition, []).append((offset, time.time()))


def reading(number: int) -> bytes:
    """Return the value of a record: 100 bytes of JSON."""
    value = {
        "sensor": f"sensor-{number % 1000:04}",
        "number": number,
        "value": (number % 4096) / 64,
        "note": "",
    }
    value["note"] = "." * (RECORD_BYTES - len(json.dumps(value)))
    return json.dumps(value).encode()


def stream(address: str, *, per_second: int, seconds: float) -> Acknowledged:
    """Send a steady stream and return when its records were acknowledged."""
    found = Acknowledged()
    producer = Producer(
        {"bootstrap.servers": address, "acks": "all", "linger.ms": 5, "partitioner": "random"}
    )
    started = time.monotonic()
    sent = 0
    while (passed := time.monotonic() - started) < seconds:
        while sent < passed * per_second:
            producer.produce(READINGS.name, reading(sent), on_delivery=found.note)
            sent += 1
        producer.poll(PACE_S)
    producer.flush()
    return found


def commits(log_directory: Path) -> Iterator[tuple[dict[str, int], float]]:
    """Yield each commit of a Delta table, in order.

    A commit is its application transactions, and the time of its file.
    """
    for file in sorted(log_directory.glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        transactions = {
            one["txn"]["appId"]: int(one["txn"]["version"]) for one in actions if "txn" in one
        }
        yield transactions, file.stat().st_ctime_ns / 1e9


def waits(acknowledged: Acknowledged, log_directory: Path, topic_id: str) -> Seconds:
    """Return each record's seconds from its acknowledgement to the commit that holds it.

    :raises BenchmarkError: a record is in no commit.
    """
    visible: dict[int, list[tuple[int, float]]] = {
        partition: [] for partition in acknowledged.by_partition
    }
    for transactions, at_s in commits(log_directory):
        for partition, found in visible.items():
            end = transactions.get(f"{topic_id}/{partition}")
            if end is not None:
                found.append((end, at_s))
    seconds = []
    for partition, records in acknowledged.by_partition.items():
        ends, times = np.array(visible[partition]).T
        offsets, since = np.array(records).T
        places = np.searchsorted(ends, offsets, side="right")
        if places.max() >= len(ends):
            raise BenchmarkError(
                f"partition {partition} has records that the table {TABLE} does not hold"
            )
        seconds.append(times[places] - since)
    return np.concatenate(seconds)


def measure(address: str, lake: Lake, bench: Bench) -> list[Row]:
    """Measure each stream once."""
    rows: list[Row] = []
    for per_second in RATES:
        sent = stream(address, per_second=per_second, seconds=bench.count(STREAM_S, at_least=5))
        topic_id = wait_until_caught_up(address, lake, READINGS.name, TABLE)
        seconds = waits(sent, lake.path(TABLE) / "_delta_log", topic_id)
        for share, goal_s in ((50, P50_GOAL_S), (99, P99_GOAL_S)):
            figure = f"acknowledged record to visible row at {per_second:,} records/s, p{share}"
            rows.append(
                Row(
                    figure=figure,
                    unit="s",
                    rounds=(float(np.percentile(seconds, share)),),
                    goal=value_at_most(goal_s),
                )
            )
    return rows


@contextlib.contextmanager
def freshness(bench: Bench) -> Iterator[Sides]:
    """Keep one installation for all rounds, warmed up by a stream of each rate."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        running_installation(Path(directory), PROJECT) as address,
    ):
        lake = Lake(Path(directory) / "lake")
        create_topics(address, [READINGS])
        for per_second in RATES:
            say(f"warming up with {per_second:,} records/s")
            stream(address, per_second=per_second, seconds=WARM_UP_S)
            wait_until_caught_up(address, lake, READINGS.name, TABLE)
        yield Sides(measures={OURS: partial(measure, address, lake, bench)})
