"""Times go by every way to a result: ``python -m tests.platform.zoned spark|sql DIRECTORY
[SC_URL]``.

The time zone is that of the process's host. Prints them as JSON. ``sql`` asks what ``spark`` has
committed. Processes of their own, because a process has one time zone.
"""

import contextlib
import json
import sys
from typing import Any

import click.testing
from pyspark.sql import types

from orchestration.cli.sql import sql
from orchestration.lake.tables import Lake
from orchestration.settings import Settings, load_settings
from orchestration.spark.session import close_session, open_session
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.to_lake.run import run_topic_table
from orchestration.warehouse.store import Warehouse
from orchestration.warehouse.topics_in_sql import TopicRelations
from tests.platform.pipeline import orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

TOPIC = TopicSpec(name="orders", schema="id STRING NOT NULL, seen TIMESTAMP")
TIMES = ('"2026-01-31T23:30:00Z"', '"2026-01-31T00:30:00"', '"2026-07-01"', "1769900400")
QUESTION = "SELECT strftime(seen, '%c') AS told, seen::DATE AS day, hour(seen) AS hour FROM {} ORDER BY _offset"
MART = "SELECT seen::DATE AS day, count(*) AS orders, min(strftime(seen, '%c')) AS told FROM clean_orders GROUP BY ALL"


def transform(records: Any) -> Any:
    """Times as Spark, a Python function and texts have them."""
    from pyspark.sql.functions import udf

    told = udf(lambda seen: f"{seen:%Y-%m-%d %H:%M}", types.StringType())
    kept = records.select("_topic_id", "_partition", "_offset", "seen", told("seen").alias("told"))
    return kept.selectExpr(
        "*",
        "hour(seen) AS hour",
        "CAST(seen AS DATE) AS day",
        "CAST('2026-01-31 12:00' AS TIMESTAMP) AS noon",
    )


def filled_log() -> MemoryLog:
    """Return a log with a record of each time."""
    log = MemoryLog()
    partition = log.add_topic("orders").partitions[0]
    for number, time in enumerate(TIMES):
        partition.append(f'{{"id": "{number}", "seen": {time}}}'.encode())
    return log


def by_spark(settings: Settings) -> dict[str, Any]:
    """Return what a run commits, and what a driver collects."""
    session = open_session(settings)
    table = orders_table(topic=TOPIC, function=transform, unique_by=(), rules=())
    run_topic_table(table, run_context(filled_log(), settings.lake_root, session))
    collected = session.sql("SELECT TIMESTAMP '2026-01-31 23:30:00Z' AS seen").collect()[0].seen
    close_session(session, settings)
    return {
        "table": rows_of(
            settings.lake_root, columns=("_offset", "seen", "told", "hour", "day", "noon")
        ),
        "collected": collected,
    }


def by_sql(settings: Settings) -> dict[str, Any]:
    """Return what a mart, a topic and the command say."""
    lake = Lake(settings.lake_root)
    warehouse = Warehouse(settings.warehouse_directory, lake)
    warehouse.build("days", MART)
    assert TOPIC.fields is not None
    relations = TopicRelations(filled_log(), {"orders": TOPIC.fields}, lake)
    ran = click.testing.CliRunner().invoke(
        sql, [QUESTION.format("clean_orders"), "--csv"], env={"TIDELOG_DATA": str(sys.argv[2])}
    )
    return {
        "mart": warehouse.query("SELECT * FROM days ORDER BY day").to_pylist(),
        "topic": warehouse.query(QUESTION.format("topics.orders"), relations).to_pylist(),
        "text": warehouse.query(
            "SELECT count(*) AS n FROM topics.orders WHERE seen >= '2026-01-31 20:00'", relations
        ).to_pylist(),
        "command": ran.output,
    }


def main() -> None:
    """Tell what one way makes of the times."""
    way, root, *remote = sys.argv[1:]
    settings = load_settings({"TIDELOG_DATA": root, "TIDELOG_SPARK_REMOTE": "".join(remote)})
    with contextlib.redirect_stdout(sys.stderr):
        found = by_spark(settings) if way == "spark" else by_sql(settings)
    sys.stdout.write(json.dumps(found, default=str) + "\n")


if __name__ == "__main__":
    main()
