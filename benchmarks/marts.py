"""Measures a DuckDB mart over a lake table of 10 million rows, built as the asset builds it.

The figures are seconds, CPU seconds and peak memory. Each build is a process of its own (``python
-m benchmarks.marts WAY LAKE WAREHOUSE``), so that its peak memory is its own. The peer is the same
SQL as a person writes it by hand: DuckDB over the Parquet files, without snapshot, draft and
renaming.
"""

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.measured import peak_memory_bytes
from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import OURS, Row, at_most
from orchestration.lake.tables import Lake
from orchestration.warehouse.store import Warehouse

BY_HAND = "DuckDB by hand"
TABLE, MART = "readings", "celsius_by_sensor"
ROW_COUNT, ROWS_PER_FILE = 10_000_000, 1_000_000
SENSOR_COUNT = 10_000
GOAL = 1.3
SQL = """
    SELECT sensor, count(*) AS readings, round(avg(celsius), 2) AS mean_celsius, quantile_cont(celsius, 0.9) AS p90_celsius,
           count_if(is_valid) AS valid, max(seconds) AS latest
    FROM readings GROUP BY sensor ORDER BY sensor
"""


def batches(count: int) -> Iterator[pa.Table]:
    """Yield rows in the form of a topic's table, a file's worth at a time."""
    for start in range(0, count, ROWS_PER_FILE):
        numbers = np.arange(start, min(start + ROWS_PER_FILE, count))
        names = pa.array([f"s-{one:04}" for one in range(SENSOR_COUNT)])
        sensors = names.take(pa.array(numbers * 7919 % SENSOR_COUNT))
        yield pa.table(
            {
                "_topic_id": pa.repeat("a-topic", len(numbers)),
                "_partition": pa.array(numbers % 4, pa.int32()),
                "_offset": pa.array(numbers // 4),
                "id": pa.array(numbers),
                "sensor": sensors,
                "celsius": pa.array((numbers * 31 % 4_999) / 100),
                "is_valid": pa.array(numbers % 10 != 3),
                "seconds": pa.array(1_700_000_000 + numbers // 100),
            }
        )


def build(lake: Path, warehouse: Path) -> dict[str, float]:
    """Build the mart in this process and return its cost."""
    started = time.monotonic()
    if Warehouse(warehouse, Lake(lake)).build(MART, SQL).rows != SENSOR_COUNT:
        raise SystemExit("the mart has not one row per sensor")
    return taken(started)


def build_by_hand(lake: Path, warehouse: Path) -> dict[str, float]:
    """Answer the same question into a DuckDB file.

    There is no snapshot of the table and no place to rename to.
    """
    started = time.monotonic()
    warehouse.mkdir(exist_ok=True)
    with duckdb.connect(str(warehouse / "by_hand.duckdb")) as connection:
        connection.execute(
            f"CREATE VIEW {TABLE} AS SELECT * FROM read_parquet('{lake}/{TABLE}/*.parquet')"
        )
        connection.execute(f"CREATE OR REPLACE TABLE {MART} AS {SQL}")
        connection.execute(f"DROP VIEW {TABLE}")
    return taken(started)


WAYS = {"tidelog": build, "by-hand": build_by_hand}


def taken(started: float) -> dict[str, float]:
    """Return the seconds since ``started``, and this process's cost since its own start."""
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": seconds,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": peak_memory_bytes() / 1e6,
    }


def measure(lake: Path, warehouse: Path, count: int, way: str) -> list[Row]:
    """Measure one build in a process of its own."""
    argv = [sys.executable, "-m", "benchmarks.marts", way, str(lake), str(warehouse)]
    found = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True).stdout)
    return [
        Row(
            figure=f"DuckDB mart over {count:,} rows",
            unit="s",
            rounds=(found["seconds"],),
            goal=at_most(GOAL),
        ),
        Row(figure="  CPU of the process, imports included", unit="s", rounds=(found["cpu_s"],)),
        Row(figure="  peak memory of the process", unit="MB", rounds=(found["peak_mb"],)),
    ]


@contextlib.contextmanager
def marts(bench: Bench) -> Iterator[Sides]:
    """Write the lake table once, a file per million rows."""
    count = bench.count(ROW_COUNT, at_least=100_000)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        lake, warehouse = Path(directory) / "lake", Path(directory) / "warehouse"
        say(f"marts: writing {count:,} rows")
        for rows in batches(count):
            write_deltalake(lake / TABLE, rows, mode="append")
        turns = {
            OURS: partial(measure, lake, warehouse, count, "tidelog"),
            BY_HAND: partial(measure, lake, warehouse, count, "by-hand"),
        }
        yield Sides(measures=turns, peer=BY_HAND)


if __name__ == "__main__":
    print(json.dumps(WAYS[sys.argv[1]](*(Path(argument) for argument in sys.argv[2:]))))
