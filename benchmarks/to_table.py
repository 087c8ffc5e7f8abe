"""From a topic to a table: rows per second for the flights, and seconds from an acknowledged record to its visible row.

The whole installation runs as a user starts it (`tidelog up`: warm Spark, sensor, runs), with the minimum interval between runs set to 0.
Rows are visible once the table's own offsets pass the record.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from assets.topics import FLIGHTS
from benchmarks.broker_process import BenchmarkError, free_port
from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row
from log_service.client import BlockingAdmin, BlockingProducer, TopicPartition
from orchestration.connection import topic_id_text
from orchestration.demo.production import create_topics
from orchestration.demo.source import DataSet, data_sets
from orchestration.tables import Lake

EXAMPLE = Path(__file__).resolve().parents[1]
TABLE = "clean_flights"
FLIGHT_COUNT = 336_776
START_DEADLINE_S = 180.0
CATCH_UP_DEADLINE_S = 600.0
SINGLE_RECORD_COUNT = 5
POLL_S = 0.02


@contextlib.contextmanager
def running_installation(directory: Path, project: Path = EXAMPLE, **settings: str) -> Iterator[str]:
    """Start everything for a project, with settings by their variables, and stop it in order; yields the broker's address."""
    port = free_port()
    argv = [sys.executable, "-m", "log_service.cli.main", "up", "--data", str(directory), "--project", str(project)]
    argv += ["--broker-port", str(port), "--metrics-port", "0", "--ui-port", str(free_port()), "--spark-port", str(free_port())]
    environment = {**os.environ, "TIDELOG_MINIMUM_INTERVAL_S": "0", "PYTHONUNBUFFERED": "1", **settings}
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        wait_until_ready(child)
        yield f"127.0.0.1:{port}"
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=120)


def wait_until_ready(child: "subprocess.Popen[str]") -> None:
    assert child.stdout is not None
    seen = []
    for line in child.stdout:
        seen.append(line)
        if "everything is ready" in line:
            return
    raise BenchmarkError("the installation did not start:\n" + "".join(seen))


def send_all(address: str, data: DataSet) -> None:
    with BlockingProducer(address, compression="zstd", linger_ms=20, batch_size=256 << 10) as producer:
        for record in data.records():
            producer.send(data.topic, record.value, record.key)
        producer.flush()


def is_caught_up(lake: Lake, ends: dict[TopicPartition, int], topic_id: str) -> bool:
    """Whether the table's committed offsets have reached every partition's end."""
    snapshot = lake.snapshot(TABLE)
    if snapshot is None:
        return False
    checkpoints = snapshot.checkpoints(topic_id, [where.partition for where in ends])
    reached = {partition: checkpoint.next_offset for partition, checkpoint in checkpoints.items()}
    return all(reached.get(where.partition, 0) >= end for where, end in ends.items())


def wait_until_caught_up(lake: Lake, admin: BlockingAdmin, topic: str) -> None:
    offsets = admin.describe_offsets([topic])
    ends = {where: found.high_watermark for where, found in offsets.items()}
    topic_id = topic_id_text(next(iter(offsets.values())).topic_id)
    deadline = time.monotonic() + CATCH_UP_DEADLINE_S
    while not is_caught_up(lake, ends, topic_id):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"table {TABLE} did not reach the end of {topic} in {CATCH_UP_DEADLINE_S:.0f} s")
        time.sleep(POLL_S)


def new_flight(template: bytes, number: int) -> bytes:
    """Return a flight that is not in the table yet."""
    return json.dumps({**json.loads(template), "flight": 100_000 + number}).encode()


def measure(bench: Bench) -> list[Row]:
    """Measure one round: a whole installation from an empty directory, the flights, then single records."""
    count = bench.count(FLIGHT_COUNT, at_least=1_000)
    (flights,) = data_sets([FLIGHTS], count)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory, running_installation(Path(directory)) as address:
        lake = Lake(Path(directory) / "lake")
        with BlockingAdmin(address) as admin, BlockingProducer(address) as producer:
            create_topics(address, [FLIGHTS])
            started = time.monotonic()
            send_all(address, flights)
            sent_s = time.monotonic() - started
            wait_until_caught_up(lake, admin, FLIGHTS.name)
            seconds = time.monotonic() - started
            template = next(iter(flights.records()))
            latencies = []
            for number in range(SINGLE_RECORD_COUNT):
                producer.send(FLIGHTS.name, new_flight(template.value, number), template.key).wait()
                acknowledged = time.monotonic()
                wait_until_caught_up(lake, admin, FLIGHTS.name)
                latencies.append(time.monotonic() - acknowledged)
    return [
        Row(figure=f"topic to table, {count:,} flights, first record to last commit", unit="rows/s", rounds=(count / seconds,)),
        Row(figure="of that, producing through our client", unit="records/s", rounds=(count / sent_s,)),
        Row(figure="acknowledged record to visible row", unit="s", rounds=tuple(latencies)),
    ]


@contextlib.contextmanager
def to_table(bench: Bench) -> Iterator[Sides]:
    """Start everything anew in each round."""
    yield Sides(measures={OURS: partial(measure, bench)})
