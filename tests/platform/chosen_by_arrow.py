"""One batch goes through Spark Connect, and the same one is chosen by Arrow.

The command is ``python -m tests.platform.chosen_by_arrow SC_URL DIRECTORY``. Prints what it found
as JSON. A process of its own, because one with a session of its own JVM cannot have one of a
server.
"""

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.settings import load_settings
from orchestration.spark.session import close_session, open_session
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.batch import batch, intake, projection
from orchestration.transforms.batch.batch import ComputedBatch, compute_batch
from orchestration.transforms.batch.reading import read_batch
from orchestration.transforms.declarations import TopicTable
from orchestration.values.ddl import parse_ddl
from tests.unit.orchestration.memory_log import MemoryLog

DDL = "id BIGINT NOT NULL, ratio DOUBLE, name STRING, is_valid BOOLEAN, seen TIMESTAMP, day DATE, small SMALLINT, tiny TINYINT, number INT"
VALUE = b'{"id":%d,"ratio":%d.5,"name":"n","is_valid":true,"seen":"2013-01-01T05:00:00Z","day":"2013-01-02","small":1,"tiny":2,"number":3}'


def chosen(records: Any) -> Any:
    """Fields, provenance and headers, one of them under another name."""
    label = records["name"].alias("label")
    return records.select(
        "_topic_id",
        "_partition",
        "_offset",
        "_timestamp",
        "id",
        label,
        "ratio",
        "seen",
        "day",
        "_headers",
    )


def filled_log() -> MemoryLog:
    """Return a log with records without doubt, in doubt, and misfits."""
    log = MemoryLog()
    partition = log.add_topic("things").partitions[0]
    for number in range(500):
        partition.append(
            VALUE % (number, number),
            key=b"k",
            headers=[("trace", b"%d" % number), ("trace", None)][: number % 3],
        )
    for value in (
        b'{"id":7}',
        b'{"id":8,"ratio":-0}',
        b"nonsense",
        b'{"id":9,"seen":"2013-1-1"}',
        b"{}",
    ):
        partition.append(value)
    return log


def computed(session: Any, scratch: Path, *, is_arrow_asked: bool) -> ComputedBatch:
    """Compute the batch; ``is_arrow_asked`` False leaves it all to Spark."""
    log = filled_log()
    ranges = OffsetRanges(
        topic="things",
        topic_id=log.topics["things"].topic_id,
        ranges=(OffsetRange(partition=0, start=0, end=505),),
    )
    table = TopicTable(
        name="things", topic=TopicSpec(name="things", schema=DDL), function=chosen, has_headers=True
    )
    taken = read_batch(
        session,
        log.range_reader(),
        ranges,
        parse_ddl(DDL),
        arrow_records=10_000,
        scratch=scratch,
        has_headers=True,
    )
    asked = projection.chosen_columns if is_arrow_asked else lambda *_: None
    with patch.object(batch, "chosen_columns", asked):
        try:
            return compute_batch(session, table, taken, None)
        finally:
            taken.release()


def main() -> None:
    """Compare both, with the records in memory and in a file."""
    url, directory = sys.argv[1:]
    settings = load_settings({"TIDELOG_DATA": directory, "TIDELOG_SPARK_REMOTE": url})
    session = open_session(settings)
    found = []
    for inline_bytes in (intake.INLINE_BYTES, 0):
        with (
            patch.object(intake, "INLINE_BYTES", inline_bytes),
            patch.object(batch, "collect", wraps=batch.collect) as jobs,
        ):
            ours = computed(session, Path(directory), is_arrow_asked=True)
            ours_jobs = jobs.call_count
            sparks = computed(session, Path(directory), is_arrow_asked=False)
        found.append(
            {
                "is_same": ours.rows.equals(sparks.rows)
                and ours.rows.schema.equals(sparks.rows.schema),
                "are_rejections_same": ours.rejections == sparks.rejections,
                "rows": ours.rows.num_rows,
                "rejections": len(ours.rejections),
                "jobs": [ours_jobs, jobs.call_count - ours_jobs],
            }
        )
    close_session(session, settings)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
