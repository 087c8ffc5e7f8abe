"""Sends an artificial batch through Spark before the first real one, to warm up a fresh server.

The first run on a fresh JVM takes seconds longer than the tenth (classes to load, code to compile).
So an artificial table, which is stored nowhere, is computed like a batch a few times while the
installation starts. No function of the project is called. A failure here is harmless, because the
first run has the same failure and reports it.
"""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sql

from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.quality import quarantine
from orchestration.settings import load_settings
from orchestration.spark.session import close_session, open_session
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.batch.batch import ComputedBatch, compute_batch
from orchestration.transforms.batch.reading import read_batch
from orchestration.transforms.declarations import TopicTable

logger = logging.getLogger(__name__)

ROUNDS = 5
RECORDS = 8
TOPIC = TopicSpec(
    name="rehearsal",
    schema="name STRING NOT NULL, amount DOUBLE, count BIGINT, day INT, seen TIMESTAMP",
)
VALUE = b'{"name": "a", "amount": 1.5, "count": 1, "day": 1, "seen": "2013-01-01T05:00:00Z"}'


def _transform(records: Any) -> Any:
    return records.select(
        "_topic_id",
        "_partition",
        "_offset",
        "name",
        "seen",
        sql.make_date(sql.lit(2013), sql.lit(1), "day").alias("day"),
        "amount",
        "count",
    )


def _reader(topic: str, wanted: OffsetRange, *, topic_id: str | None = None) -> Iterator[Any]:  # noqa: ARG001 - a reader's signature
    yield pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(wanted.start, wanted.end), pa.int64()),
            "timestamp": pa.array([0] * wanted.count, pa.timestamp("ms", tz="UTC")),
            "leader_epoch": pa.array([0] * wanted.count, pa.int32()),
            "key": pa.array([b"key"] * wanted.count, pa.binary()),
            "value": pa.array([VALUE] * wanted.count, pa.binary()),
        }
    )


def compute(session: Any) -> ComputedBatch:
    """Compute one artificial batch in ``session`` and return its result."""
    table = TopicTable(
        name="rehearsal",
        topic=TOPIC,
        function=_transform,
        rules=(quarantine("amount_is_positive", "amount > 0"),),
    )
    ranges = OffsetRanges(
        topic=TOPIC.name,
        topic_id="rehearsal",
        ranges=(OffsetRange(partition=0, start=0, end=RECORDS),),
    )
    source = read_batch(session, _reader, ranges, TOPIC.fields, arrow_records=RECORDS)
    try:
        return compute_batch(session, table, source, None)
    finally:
        source.release()


def rehearse() -> None:
    """Warm up the server that the settings name, if there is one."""
    settings = load_settings()
    if not settings.spark_remote:
        return
    try:
        session = open_session(settings)
        try:
            for _ in range(ROUNDS):
                compute(session)
        finally:
            close_session(session, settings)
    except Exception:
        logger.info("the rehearsal ended early", exc_info=True)
