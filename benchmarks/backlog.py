"""Compares our copy of a topic's backlog to a Delta table with the loop a person writes by hand.

The figures are rows per second, CPU by process, and peak memory. Both sides copy the same topics
from the same broker into new tables of the same columns, each in a process of its own. Checks are
off on both. Ours has a warm Spark server beside it, as every installation has, and its CPU counts
as ours. ``by_hand`` describes the loop, and why the faster of its two ways is the peer. Peak memory
is measured with two backlogs, because it must not depend on them.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka import Producer

from assets.topics import FLIGHTS
from benchmarks.broker_process import (
    BenchmarkError,
    BrokerProcess,
    cpu_s,
    free_port,
    running_broker,
)
from benchmarks.by_hand import Outcome
from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import OURS, Row, at_least, at_most
from orchestration.demo.source import data_sets
from orchestration.installation.services import memory_environment
from orchestration.log_client.connection import connect
from orchestration.settings import load_settings
from orchestration.spark.server import SparkServer
from orchestration.spark.token import kept_token
from orchestration.topics.spec import TopicSpec

BY_HAND = "by hand"
OUR_WAYS = COPIED, FILTERED, LATEST, BACKFILLED = "copied", "filtered", "latest", "backfilled"
READING_COUNT, SMALL_SHARE = 10_000_000, 0.2
PYTHON_SHARE = 0.1
"""The share of the backlog that is enough for ``json.loads``, which is slow at any length."""
RECORD_BYTES = 100
GOAL = 1.5
MEMORY_GOAL = 1.0
CHUNK = 2_000
SPARK_DEADLINE_S = 300.0
READINGS = TopicSpec(
    name="readings",
    partitions=4,
    schema=(
        "id BIGINT NOT NULL, sensor STRING NOT NULL, celsius DOUBLE, is_valid BOOLEAN, seconds"
        " BIGINT, note STRING"
    ),
)


def readings(count: int) -> Iterator[bytes]:
    """Yield values of 100 bytes: numbers, a short text, a flag, and a note that fills up."""
    for number in range(count):
        start = (
            f'{{"id":{number},"sensor":"s-{number * 7919 % 10_000:04}","celsius":{number * 31 % 4_999 / 100 + 0.01:.2f},'
            f'"is_valid":{"false" if number % 10 == 3 else "true"},"seconds":{1_700_000_000 + number // 100},"note":"'
        )
        yield f'{start}{"." * (RECORD_BYTES - len(start) - 2)}"}}'.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A topic full of records.

    ``rows`` is the row count of the table in the end. None means a row for each record.
    """

    name: str
    topic: TopicSpec
    count: int
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The parts that both sides share, and the warm Spark server that only ours uses.

    The shared part is the broker with its topics.
    """

    broker: BrokerProcess
    spark: psutil.Process
    spark_url: str
    directory: Path

    def topic_id(self, load: Load) -> str:
        with connect(self.broker.address) as log:
            found = log.describe_topic(load.topic.name)
        assert found is not None
        return found.topic_id

    def run(self, way: str, load: Load) -> tuple[Outcome, float, float]:
        """Copy a topic one way into a table that is removed.

        Returns the result of ``fill_table``.
        """
        try:
            return self.fill_table(way, load)
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    @property
    def place(self) -> Path:
        """Return the directory where the table is made."""
        return self.directory / "run"

    def fill_table(self, way: str, load: Load) -> tuple[Outcome, float, float]:
        """Work on the table one way.

        Returns the outcome, and the CPU seconds that Spark and the broker spent meanwhile.
        """
        what = [load.topic.name, str(load.topic.schema or ""), self.broker.address, str(self.place)]
        program = (
            ["benchmarks.backlog_run", way, *what]
            if way in OUR_WAYS
            else ["benchmarks.by_hand", way, *what, self.topic_id(load)]
        )
        argv = [sys.executable, "-m", *program]
        as_shipped = memory_environment(os.environ) if way in OUR_WAYS else {}
        environment = {**os.environ, **as_shipped, "TIDELOG_SPARK_REMOTE": self.spark_url}
        before = cpu_s(self.spark), self.broker.cpu_s()
        child = subprocess.run(
            argv, stdout=subprocess.PIPE, text=True, env=environment, check=False
        )
        after = cpu_s(self.spark), self.broker.cpu_s()
        if child.returncode:
            raise BenchmarkError(
                f"{way} ended with exit code {child.returncode}; what it said stands above"
            )
        outcome = Outcome(**json.loads(child.stdout.splitlines()[-1]))
        if outcome.rows != (load.count if load.rows is None else load.rows):
            raise BenchmarkError(f"{way} made {outcome.rows} rows of {load.count} records")
        return outcome, after[0] - before[0], after[1] - before[1]


@contextlib.contextmanager
def running_spark(directory: Path) -> Iterator[tuple[psutil.Process, str]]:
    """Start the warm server that an installation has.

    Yields its process, and its address with the token that it requires.
    """
    environment = {**os.environ, "TIDELOG_DATA": str(directory)}
    settings = load_settings(environment)
    server = SparkServer(settings=settings, port=free_port())
    with (directory / "spark.txt").open("wb") as output:
        child = psutil.Popen(
            server.argv(),
            env=server.environment(environment),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + SPARK_DEADLINE_S
        while not server.is_ready():
            if child.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError(
                    f"Spark did not start:\n{(directory / 'spark.txt').read_text()[-2000:]}"
                )
            time.sleep(0.1)
        yield child, f"sc://localhost:{server.port}/;token={kept_token(settings)}"
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(SPARK_DEADLINE_S)


def fill(
    address: str,
    load: Load,
    records: Iterable[tuple[bytes | None, bytes]],
    timestamp_ms: Callable[[int], int] = lambda _number: 0,
) -> None:
    """Create the topic and send its records, each with the time of its number. 0 means now."""
    with connect(address) as log:
        log.create_topic(
            load.topic.name,
            partitions=load.topic.partitions,
            replication_factor=1,
            configs=dict(load.topic.configs),
        )
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number, (key, value) in enumerate(records):
        while True:
            try:
                producer.produce(load.topic.name, value, key, timestamp=timestamp_ms(number))
                break
            except BufferError:
                producer.poll(0.05)
        if number % CHUNK == 0:
            producer.poll(0)
    if producer.flush(120):
        raise BenchmarkError("records were not acknowledged within two minutes")


def loads(bench: Bench) -> list[Load]:
    """Return the topics to copy: the backlog, a smaller one, a small one, and the flights.

    The small one is for the slow way.
    """
    count = bench.count(READING_COUNT, at_least=10_000)
    shares = {"small": SMALL_SHARE, "python": PYTHON_SHARE}
    parts = [
        Load(
            name=name,
            topic=TopicSpec(name=f"readings-{name}", partitions=4, schema=READINGS.schema),
            count=int(count * share),
        )
        for name, share in shares.items()
    ]
    flights = data_sets([FLIGHTS], bench.count(336_776, at_least=10_000))[0]
    return [
        Load(name="readings", topic=READINGS, count=count),
        *parts,
        Load(name="flights", topic=FLIGHTS, count=flights.count()),
    ]


def measure(stage: Stage, found: dict[str, Load], way: str) -> list[Row]:
    """Measure one round of one side."""
    readings_load, flights_load = found["readings"], found["flights"]
    outcome, spark_s, broker_s = stage.run(way, readings_load)
    title = f"{readings_load.count:,} JSON records of {RECORD_BYTES} B to Delta"
    millions = readings_load.count / 1e6
    rows = [
        Row(
            figure=title,
            unit="rows/s",
            rounds=(outcome.rows / outcome.seconds,),
            goal=at_least(GOAL),
        ),
        Row(
            figure="  CPU of the run process",
            unit="s per million",
            rounds=(outcome.cpu_s / millions,),
        ),
        Row(figure="  CPU of the Spark server", unit="s per million", rounds=(spark_s / millions,)),
        Row(figure="  CPU of the broker", unit="s per million", rounds=(broker_s / millions,)),
        Row(
            figure="  peak memory of the run process",
            unit="MB",
            rounds=(outcome.peak_bytes / 1e6,),
            goal=at_most(MEMORY_GOAL),
        ),
    ]
    if way == COPIED:
        rows.append(
            Row(
                figure="  memory of the Spark server afterwards",
                unit="MB",
                rounds=(stage.spark.memory_info().rss / 1e6,),
            )
        )
    small, _, _ = stage.run(way, found["small"])
    rows.append(
        Row(
            figure=f"  peak memory with {found['small'].count:,} records",
            unit="MB",
            rounds=(small.peak_bytes / 1e6,),
        )
    )
    through = stage.run(FILTERED, found["small"])[0] if way == COPIED else small
    figure = f"{found['small'].count:,} of them, a transform that Spark computes"
    rows.append(
        Row(
            figure=figure,
            unit="rows/s",
            rounds=(through.rows / through.seconds,),
            goal=at_least(GOAL),
        )
    )
    flights, _, _ = stage.run(way, flights_load)
    figure = f"{flights_load.count:,} flights to Delta"
    rows.append(
        Row(
            figure=figure,
            unit="rows/s",
            rounds=(flights.rows / flights.seconds,),
            goal=at_least(GOAL),
        )
    )
    rows.append(Row(figure="  peak memory of that", unit="MB", rounds=(flights.peak_bytes / 1e6,)))
    return rows


def measure_python(stage: Stage, found: dict[str, Load]) -> list[Row]:
    """Measure the slow way by hand, under the same names.

    Its rows stand apart, beside the same peer.
    """
    outcome, _, _ = stage.run("python", found["python"])
    flights, _, _ = stage.run("python", found["flights"])
    return [
        Row(
            figure=f"{found['python'].count:,} JSON records, json.loads by hand",
            unit="rows/s",
            rounds=(outcome.rows / outcome.seconds,),
        ),
        Row(
            figure=f"{found['flights'].count:,} flights, json.loads by hand",
            unit="rows/s",
            rounds=(flights.rows / flights.seconds,),
        ),
    ]


@contextlib.contextmanager
def backlog(bench: Bench) -> Iterator[Sides]:
    """Fill the topics once. Broker and Spark stay for all rounds.

    Small copies warm Spark up, as an installation's rehearsal does.
    """
    bench.stop_brokers()
    found = {load.name: load for load in loads(bench)}
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        running_broker() as broker,
        running_spark(Path(directory)) as (spark, url),
    ):
        stage = Stage(broker=broker, spark=spark, spark_url=url, directory=Path(directory))
        for load in found.values():
            say(f"backlog: filling {load.topic.name} with {load.count:,} records")
            is_flights = load.name == "flights"
            flights = (
                ((one.key, one.value) for one in data_sets([FLIGHTS], load.count)[0].records())
                if is_flights
                else None
            )
            fill(
                broker.address,
                load,
                (
                    flights
                    if flights is not None
                    else ((None, value) for value in readings(load.count))
                ),
            )
        for way in (COPIED, FILTERED):
            stage.run(way, found["small"])
        yield Sides(
            measures={
                OURS: partial(measure, stage, found, COPIED),
                BY_HAND: partial(measure, stage, found, "arrow"),
                "json.loads": partial(measure_python, stage, found),
            },
            peer=BY_HAND,
        )
