"""Results are the same in whatever time zone the host is.

They come from Spark, from Python functions of Spark's, and from SQL.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.platform
NOON = "2026-01-31 12:00:00+00:00"
SPARK = {
    "table": [
        [0, "2026-01-31 23:30:00+00:00", "2026-01-31 23:30", 23, "2026-01-31", NOON],
        [1, "2026-01-31 00:30:00+00:00", "2026-01-31 00:30", 0, "2026-01-31", NOON],
        [2, "2026-07-01 00:00:00+00:00", "2026-07-01 00:00", 0, "2026-07-01", NOON],
        [3, "2026-01-31 23:00:00+00:00", "2026-01-31 23:00", 23, "2026-01-31", NOON],
    ],
    "collected": "2026-01-31 23:30:00",
}
TOLD = [
    {"told": f"{day} {clock}:00", "day": day, "hour": int(clock[:2])}
    for day, clock in (
        ("2026-01-31", "23:30"),
        ("2026-01-31", "00:30"),
        ("2026-07-01", "00:00"),
        ("2026-01-31", "23:00"),
    )
]
SQL = {
    "mart": [
        {"day": "2026-01-31", "orders": 3, "told": "2026-01-31 00:30:00"},
        {"day": "2026-07-01", "orders": 1, "told": "2026-07-01 00:00:00"},
    ],
    "topic": TOLD,
    "text": [{"n": 3}],
    "command": "told,day,hour\n"
    + "".join(f"{row['told']},{row['day']},{row['hour']}\n" for row in TOLD),
}


def told(zone: str, *arguments: str) -> Any:
    """Return what ``zoned`` prints on a host in ``zone``."""
    argv = [sys.executable, "-m", "tests.platform.zoned", *arguments]
    ran = subprocess.run(
        argv, check=False, capture_output=True, text=True, env={**os.environ, "TZ": zone}
    )
    assert ran.stdout, ran.stderr[-4000:]
    # Complete, also where a thread of a library aborts the process as it exits.
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("zone", "is_warm"),
    [
        ("America/New_York", False),
        ("Asia/Kolkata", True),
        pytest.param("America/New_York", True, marks=pytest.mark.repeats),
        pytest.param("Asia/Kolkata", False, marks=pytest.mark.repeats),
    ],
)
def test_a_result_does_not_depend_on_the_hosts_time_zone(
    tmp_path: Path, spark_remote: str, zone: str, *, is_warm: bool
) -> None:
    assert told(zone, "spark", str(tmp_path), *([spark_remote] if is_warm else [])) == SPARK
    assert told(zone, "sql", str(tmp_path)) == SQL
