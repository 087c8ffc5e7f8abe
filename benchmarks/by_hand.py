"""The yardstick: a person's hand-written copy of a JSON topic into a Delta table.

It is one loop of confluent-kafka, pyarrow and deltalake. It has two ways to parse, both honest.
``arrow`` joins the values to lines and lets pyarrow parse them by the table's schema. A person who
cares for speed writes that, and ours is compared with it. ``python`` calls ``json.loads`` for each
record, as people write first. ``merge`` parses by Arrow, and merges the last record of each ``id``
in a batch, for a table of newest rows. ``dated`` is ``arrow`` with the records' times. ``backfill``
reads such a topic once more, day by day, and overwrites each day of the table. None of them checks
anything: a record that is no JSON ends the loop, offsets are committed nowhere, a restart
duplicates. Rows have the columns of ours.

``python -m benchmarks.by_hand WAY TOPIC DDL ADDRESS DIRECTORY TOPIC_ID`` runs it in a process of
its own, which imports no platform.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from confluent_kafka import Consumer, Message, TopicPartition
from deltalake import DeltaTable, write_deltalake

from benchmarks.measured import peak_memory_bytes

RECORDS_PER_APPEND = 200_000
"""The fastest of 50,000, 100,000, 200,000 and 500,000."""
RECORDS_PER_MERGE = 500_000
"""The same number of records as in a commit of ours."""
CONSUMER: dict[str, str | int | bool] = {
    "enable.auto.commit": False,
    "fetch.min.bytes": 1 << 20,
    "fetch.queue.backoff.ms": 10,
}
"""Settings of the consumer.

By default librdkafka asks for no more for a whole second once its queue is full, which would be
half of the time.
"""
BLOCK_BYTES = 4 << 20

ARROW_TYPES = {
    "STRING": pa.string(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}

Parse = Callable[[list[bytes], pa.Schema], pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The cost of a copy: seconds and CPU seconds from its first call to its last commit.

    Imports are not counted. Memory is that of the whole process.
    """

    rows: int
    seconds: float
    cpu_s: float
    peak_bytes: int


def measured(copy: Callable[[], int]) -> Outcome:
    """Make a copy and return its cost."""
    started, started_cpu_s = time.monotonic(), time.process_time()
    rows = copy()
    seconds, cpu_s = time.monotonic() - started, time.process_time() - started_cpu_s
    return Outcome(rows=rows, seconds=seconds, cpu_s=cpu_s, peak_bytes=peak_memory_bytes())


def arrow_schema(ddl: str) -> pa.Schema:
    """Return the fields of a topic as a person writes them by hand."""
    return pa.schema(
        [
            pa.field(name, ARROW_TYPES[kind.upper()])
            for name, kind, *_ in (column.split() for column in ddl.split(","))
        ]
    )


def parse_by_arrow(values: list[bytes], schema: pa.Schema) -> pa.Table:
    """Let Arrow parse all values at once, as lines, on all cores."""
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pj.read_json(
        pa.py_buffer(b"\n".join(values)), pj.ReadOptions(block_size=BLOCK_BYTES), options
    )


def parse_by_python(values: list[bytes], schema: pa.Schema) -> pa.Table:
    """Parse record by record. Times are texts in JSON, and Arrow reads them."""
    texts = pa.schema(
        [
            pa.field(field.name, pa.string() if pa.types.is_timestamp(field.type) else field.type)
            for field in schema
        ]
    )
    return pa.Table.from_pylist([json.loads(value) for value in values], schema=texts).cast(schema)


WAYS: dict[str, Parse] = {
    "arrow": parse_by_arrow,
    "python": parse_by_python,
    "merge": parse_by_arrow,
    "dated": parse_by_arrow,
}
DAY_MS = 86_400_000


def rows_of(
    records: list[Message],
    topic_id: str,
    schema: pa.Schema,
    parse: Parse,
    *,
    is_dated: bool = False,
) -> pa.Table:
    """Return the columns of the table: each record's topic position and its fields.

    With ``is_dated`` there is its time, too.
    """
    fields = parse([record.value() or b"" for record in records], schema)
    places = {
        "_topic_id": pa.repeat(topic_id, len(records)),
        "_partition": pa.array([record.partition() for record in records], pa.int32()),
        "_offset": pa.array([record.offset() for record in records], pa.int64()),
    }
    if is_dated:
        times = pa.array([record.timestamp()[1] for record in records], pa.int64())
        places["_timestamp"] = times.cast(pa.timestamp("ms", tz="UTC")).cast(
            pa.timestamp("us", tz="UTC")
        )
    return pa.table([*places.values(), *fields.columns], names=[*places, *fields.column_names])


def merge_rows(table: Path, rows: pa.Table) -> None:
    """Replace the table's row of each key by the last row with that key."""
    numbered = rows.append_column("number", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by("id").aggregate([("number", "max")])["number_max"]
    newest = rows.take(last)
    if not DeltaTable.is_deltatable(str(table)):
        write_deltalake(table, newest)
        return
    merge = DeltaTable(table).merge(
        newest, "held.id = new.id", source_alias="new", target_alias="held"
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def copy_topic(
    address: str, topic: str, topic_id: str, schema: pa.Schema, table: Path, *, way: str
) -> int:
    """Copy the present records of the topic into a new table, and return the number of its rows."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "by-hand", **CONSUMER})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    watermarks = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        for partition in partitions
    ]
    left = sum(high - low for low, high in watermarks)
    consumer.assign(
        [
            TopicPartition(topic, partition, low)
            for partition, (low, _) in zip(partitions, watermarks, strict=True)
        ]
    )
    count = 0
    while count < left:
        records = consumer.consume(
            min(RECORDS_PER_MERGE if way == "merge" else RECORDS_PER_APPEND, left - count),
            timeout=5.0,
        )
        if records:
            rows = rows_of(records, topic_id, schema, WAYS[way], is_dated=way == "dated")
            if way == "merge":
                merge_rows(table, rows)
            else:
                write_deltalake(table, rows, mode="append")
            count += len(records)
    consumer.close()
    return int(DeltaTable(table).count())


def backfill(address: str, topic: str, topic_id: str, schema: pa.Schema, table: Path) -> int:
    """Read the topic day by day, and overwrite each day's rows.

    Returns the number of the table's rows.
    """
    consumer = Consumer({"bootstrap.servers": address, "group.id": "by-hand", **CONSUMER})
    partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    times = (
        DeltaTable(table)
        .to_pyarrow_dataset()
        .to_table(columns=["_timestamp"])["_timestamp"]
        .cast(pa.int64())
    )
    first, last = (int(found.as_py()) // 1000 // DAY_MS for found in (pc.min(times), pc.max(times)))
    del times
    starts = offsets_at(consumer, topic, partitions, first * DAY_MS)
    for day in range(first, last + 1):
        ends = offsets_at(consumer, topic, partitions, (day + 1) * DAY_MS)
        records = day_of(consumer, topic, starts, ends)
        if records:
            begin, end = (
                datetime.fromtimestamp(one * 86_400, UTC).isoformat() for one in (day, day + 1)
            )
            rows = rows_of(records, topic_id, schema, parse_by_arrow, is_dated=True)
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=f"_timestamp >= '{begin}' AND _timestamp < '{end}'",
            )
        starts = ends
    consumer.close()
    return int(DeltaTable(table).count())


def offsets_at(consumer: Consumer, topic: str, partitions: list[int], at_ms: int) -> dict[int, int]:
    """Return the first offset at or after a time, or the end, by partition."""
    found = consumer.offsets_for_times(
        [TopicPartition(topic, partition, at_ms) for partition in partitions], timeout=30
    )
    ends = {
        one: consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=30)[1]
        for one in partitions
    }
    return {one.partition: one.offset if one.offset >= 0 else ends[one.partition] for one in found}


def day_of(
    consumer: Consumer, topic: str, starts: dict[int, int], ends: dict[int, int]
) -> list[Message]:
    """Return the records between two offsets of each partition."""
    consumer.assign(
        [TopicPartition(topic, partition, start) for partition, start in starts.items()]
    )
    left = {partition: ends[partition] - start for partition, start in starts.items()}
    kept: list[Message] = []
    while sum(left.values()):
        for record in consumer.consume(min(RECORDS_PER_APPEND, sum(left.values())), timeout=5.0):
            partition = record.partition() or 0
            if (record.offset() or 0) < ends[partition]:
                kept.append(record)
                left[partition] -= 1
    return kept


if __name__ == "__main__":
    chosen, name, columns, broker, directory, identity = sys.argv[1:]
    place = (broker, name, identity, arrow_schema(columns), Path(directory) / "copied")
    done = measured(
        lambda: backfill(*place) if chosen == "backfill" else copy_topic(*place, way=chosen)
    )
    print(json.dumps(asdict(done)))
