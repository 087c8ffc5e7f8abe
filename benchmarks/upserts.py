"""Compares our upserts of a topic into a table with the merge that a person writes by hand.

The table keeps the newest row of each key. Each key has five records, spread over the whole topic,
so that every commit but the first changes existing rows. Both sides make the same table of the same
topic, each in a process of its own, with as many records in a commit. Ours orders records by their
offset, and moves offsets in the same commit. The loop by hand takes the last record that it sees.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.backlog import (
    BY_HAND,
    LATEST,
    READINGS,
    RECORD_BYTES,
    Load,
    Stage,
    fill,
    running_spark,
)
from benchmarks.broker_process import running_broker
from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import OURS, Row, at_least
from orchestration.topics.spec import TopicSpec

CHANGE_COUNT = 2_000_000
CHANGES_PER_KEY = 5
STRIDE = 7_919
GOAL = 1.0


def changes(count: int, keys: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield ``count`` records of 100 bytes with their keys.

    All keys come once, in an order that jumps about, and then again in the same order.
    """
    for number in range(count):
        identity = number * STRIDE % keys
        start = f'{{"id":{identity},"sensor":"s-{identity % 10_000:04}","celsius":{number % 4_999 / 100 + 0.01:.2f},"is_valid":true,'
        start += f'"seconds":{1_700_000_000 + number},"note":"'
        yield str(identity).encode(), f'{start}{"." * (RECORD_BYTES - len(start) - 2)}"}}'.encode()


def measure(stage: Stage, load: Load, way: str) -> list[Row]:
    """Measure one round of one side."""
    outcome, spark_s, _ = stage.run(way, load)
    millions = load.count / 1e6
    return [
        Row(
            figure=f"{load.count:,} changes of {load.rows:,} keys to the newest row of each",
            unit="records/s",
            rounds=(load.count / outcome.seconds,),
            goal=at_least(GOAL),
        ),
        Row(
            figure="  CPU of the run process",
            unit="s per million",
            rounds=(outcome.cpu_s / millions,),
        ),
        Row(figure="  CPU of the Spark server", unit="s per million", rounds=(spark_s / millions,)),
        Row(
            figure="  peak memory of the run process", unit="MB", rounds=(outcome.peak_bytes / 1e6,)
        ),
    ]


@contextlib.contextmanager
def upserts(bench: Bench) -> Iterator[Sides]:
    """Fill the topic once. Broker and Spark stay for all rounds.

    One more table warms Spark up.
    """
    bench.stop_brokers()
    keys = bench.count(CHANGE_COUNT, at_least=10_000) // CHANGES_PER_KEY
    keys += keys % STRIDE == 0
    load = Load(
        name="changes",
        topic=TopicSpec(name="changes", partitions=4, schema=READINGS.schema),
        count=keys * CHANGES_PER_KEY,
        rows=keys,
    )
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        running_broker() as broker,
        running_spark(Path(directory)) as (spark, url),
    ):
        stage = Stage(broker=broker, spark=spark, spark_url=url, directory=Path(directory))
        say(f"upserts: filling {load.topic.name} with {load.count:,} records")
        fill(broker.address, load, changes(load.count, keys))
        stage.run(LATEST, load)
        yield Sides(
            measures={
                OURS: partial(measure, stage, load, LATEST),
                BY_HAND: partial(measure, stage, load, "merge"),
            },
            peer=BY_HAND,
            most_rounds=1,
        )
