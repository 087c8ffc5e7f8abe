"""Dead letters and where they come from, for tests."""

from datetime import UTC, datetime

import pyarrow as pa

from orchestration.dead_letters.table import Origin, Rejection, envelopes, naming
from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import HEADERS
from orchestration.offsets.ranges import OffsetRange, OffsetRanges

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HEADERS_OF_ONE = [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}]
RECORDS = pa.schema(
    [
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
TARGET_SCHEMA = pa.schema(
    [("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())]
)


def origin(target: str = "clean") -> Origin:
    return Origin(target=target, topic="t", topic_id="T", run_id="r")


def letters_for(*places: tuple[int, int], target: str = "clean", reason: str = "bad") -> pa.Table:
    rejections = [
        Rejection(partition=partition, offset=offset, reason=reason, rule="rule")
        for partition, offset in places
    ]
    count = len(places)
    values = [
        [one[0] for one in places],
        [one[1] for one in places],
        [NOW] * count,
        [b"k"] * count,
        [None] * count,
        [HEADERS_OF_ONE] * count,
    ]
    return envelopes(origin(target), rejections, pa.table(values, schema=RECORDS), NOW)


def ranges(*bounds: tuple[int, int, int]) -> OffsetRanges:
    return OffsetRanges(
        topic="t",
        topic_id="T",
        ranges=tuple(OffsetRange(partition=one[0], start=one[1], end=one[2]) for one in bounds),
    )


def commit_target(
    lake: Lake, *bounds: tuple[int, int, int], attempt: int | None, target: str = "clean"
) -> None:
    """Commit as a run does: rows, checkpoints, and the attempt of its dead letters.

    The rows do not matter here.
    """
    snapshot = lake.snapshot(target) or lake.create(target, TARGET_SCHEMA)
    covered = ranges(*bounds)
    expected = snapshot.checkpoints("T", covered.ends())
    append_with_offsets(
        snapshot,
        TARGET_SCHEMA.empty_table(),
        covered,
        {},
        expected=expected,
        transactions=naming("T", attempt),
    )
