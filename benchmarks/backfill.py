"""Compares a backfill of ten million rows by day with one that a person writes by hand.

A backfill reads the topic once more and replaces each day's rows. Both sides have a table of the
whole topic, whose records are spread over ten days, and make all of its rows again. Ours does it as
a backfill of ``history/TABLE_by_day``, commit by commit of so many offsets. The loop by hand
overwrites each day. The copies before it are not measured.
"""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.backlog import (
    BACKFILLED,
    BY_HAND,
    COPIED,
    READINGS,
    Load,
    Stage,
    fill,
    readings,
    running_spark,
)
from benchmarks.broker_process import running_broker
from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import OURS, Row, at_least, at_most

ROW_COUNT = 10_000_000
DAYS = 10
DAY_MS = 86_400_000
GOAL, MEMORY_GOAL = 1.0, 1.0
WAYS = {OURS: (COPIED, BACKFILLED), BY_HAND: ("dated", "backfill")}


def measure(stage: Stage, load: Load, side: str) -> list[Row]:
    """Copy the topic, and measure the backfill."""
    copy, again = WAYS[side]
    try:
        stage.fill_table(copy, load)
        outcome, spark_s, _ = stage.fill_table(again, load)
    finally:
        shutil.rmtree(stage.place, ignore_errors=True)
    millions = load.count / 1e6
    return [
        Row(
            figure=f"backfill of {load.count:,} rows by day",
            unit="rows/s",
            rounds=(outcome.rows / outcome.seconds,),
            goal=at_least(GOAL),
        ),
        Row(
            figure="  CPU of the process that backfills",
            unit="s per million",
            rounds=(outcome.cpu_s / millions,),
        ),
        Row(
            figure="  CPU of the Spark server meanwhile",
            unit="s per million",
            rounds=(spark_s / millions,),
        ),
        Row(
            figure="  peak memory of the process that backfills",
            unit="MB",
            rounds=(outcome.peak_bytes / 1e6,),
            goal=at_most(MEMORY_GOAL),
        ),
    ]


@contextlib.contextmanager
def backfill(bench: Bench) -> Iterator[Sides]:
    """Fill the topic once. There is one round, because a round of both sides takes minutes."""
    bench.stop_brokers()
    topic = replace(READINGS, name="readings-by-day", configs={"retention.ms": "-1"})
    load = Load(name="by day", topic=topic, count=bench.count(ROW_COUNT, at_least=10_000))
    first_ms = int(time.time() * 1000) // DAY_MS * DAY_MS - DAYS * DAY_MS
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        running_broker() as broker,
        running_spark(Path(directory)) as (spark, url),
    ):
        stage = Stage(broker=broker, spark=spark, spark_url=url, directory=Path(directory))
        say(f"backfill: filling {topic.name} with {load.count:,} records")
        times = partial(_time_of, first_ms, load.count)
        fill(broker.address, load, ((None, value) for value in readings(load.count)), times)
        yield Sides(
            measures={side: partial(measure, stage, load, side) for side in WAYS},
            peer=BY_HAND,
            most_rounds=1,
        )


def _time_of(first_ms: int, count: int, number: int) -> int:
    """Return the time of a record. Times are spread evenly over the days."""
    return first_ms + number * DAYS * DAY_MS // count
