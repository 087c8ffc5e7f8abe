"""Copies a topic to a new Delta table in our way, in a process of its own.

    python -m benchmarks.backlog_run WAY TOPIC DDL ADDRESS DIRECTORY

WAY ``copied`` has a transform that chooses columns, which Arrow does. ``filtered`` has one with a
filter that keeps all, which Spark computes. ``latest`` chooses columns for a table that keeps the
newest row per ``id``. ``backfilled`` reads the records of an existing table once more, as a
backfill of all its days does, and replaces their rows. It does the same as the run of a table in
Dagster, called here directly: plan, read, parse, transform in the warm Spark server, commit rows
and offsets, range after range, with the settings as shipped. Prints one JSON object, as ``by_hand``
does.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyspark.sql.connect.session  # noqa: F401 - an installation's runs are forked from a process that has imported it

from benchmarks.by_hand import arrow_schema, measured
from orchestration.lake.tables import PROVENANCE, Lake
from orchestration.log_client.connection import connect
from orchestration.offsets.ranges import OffsetRanges
from orchestration.settings import load_settings
from orchestration.spark.session import close_session, open_session, shared_scratch
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.replay.steps import Replayed
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.run.following import follow
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table

TABLE = "copied"
FOLLOW_S = 3_600.0


class Silence:
    """A Reporter that reports nothing."""

    def note(self, sentence: str) -> None:
        print(sentence, file=sys.stderr)

    def pin(self, kind: str, ranges: OffsetRanges) -> None:
        """Ignore the range, which goes to run tags elsewhere."""


def table_of(topic: TopicSpec, way: str) -> TopicTable:
    """Return a table of all fields without rule, key or expectation.

    Checks are off on both sides.
    """
    assert isinstance(topic.schema, str)
    names = arrow_schema(topic.schema).names

    def copied(records: Any) -> Any:
        """All fields of the records."""
        return records.select(*PROVENANCE, *names)

    def filtered(records: Any) -> Any:
        """All fields of all records, behind a filter."""
        return copied(records).where("_offset >= 0")

    def latest(records: Any) -> Any:
        """All fields of the records, and their time."""
        return records.select(*PROVENANCE, "_timestamp", *names)

    function = {"filtered": filtered, "latest": latest}.get(way, copied)
    return TopicTable(
        name=TABLE, topic=topic, function=function, latest_by=("id",) if way == "latest" else ()
    )


def copy_topic(way: str, address: str, topic: TopicSpec, directory: Path) -> int:
    """Follow the topic until its backlog is empty, as the run of a table does.

    Returns the number of rows.
    """
    settings = load_settings(
        {**os.environ, "TIDELOG_BOOTSTRAP_SERVERS": address, "TIDELOG_DATA": str(directory)}
    )
    session = open_session(settings)
    lake = Lake(settings.lake_root)
    with connect(address) as log:
        context = RunContext(
            log=log,
            lake=lake,
            session=lambda: session,
            reporter=Silence(),
            run_id="backlog",
            records_per_run=settings.records_per_run,
            arrow_records=settings.arrow_records,
            commit_attempts=settings.commit_attempts,
            scratch=shared_scratch(settings),
        )
        if way == "backfilled":
            replayed = Replayed()
            for result in run_replay(table_of(topic, way), context, ReplayRequest(from_ms=0)):
                replayed.add(result)
            assert replayed.rows == lake.existing(TABLE).row_count
        else:
            for result in follow(
                table_of(topic, way), context, run=run_topic_table, follow_s=FOLLOW_S
            ):
                if not result.backlog:
                    break
    rows = lake.existing(TABLE).row_count
    close_session(session, settings)
    return rows


if __name__ == "__main__":
    chosen, name, schema, broker, directory = sys.argv[1:]
    done = measured(
        lambda: copy_topic(chosen, broker, TopicSpec(name=name, schema=schema), Path(directory))
    )
    print(json.dumps(asdict(done)))
