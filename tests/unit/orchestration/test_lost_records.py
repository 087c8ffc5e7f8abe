"""Which partitions lost the beginning of a span of time, and what is said of them."""

from pathlib import Path

import pyarrow as pa
import pytest

from orchestration.archive.declaration import archive_table
from orchestration.archive.reading import ARCHIVE_OF
from orchestration.checkpoints import Checkpoint, PartitionOffsets
from orchestration.tables import Lake
from orchestration.transforms.lost_records import decide_lost, lost_sentence

COMMITTED = {0: Checkpoint(next_offset=9)}


def partition(log_start: int, end: int = 9, number: int = 0) -> PartitionOffsets:
    return PartitionOffsets(partition=number, log_start_offset=log_start, last_stable_offset=end, high_watermark=end)


@pytest.mark.parametrize(
    ("log", "starts", "is_lost"),
    [
        (partition(0), {0: 0}, False),
        (partition(4), {0: 4}, True),
        (partition(4), {0: 5}, False),
        (partition(4), {0: None}, False),
        (partition(9), {0: None}, True),
        (partition(4), None, True),
        (partition(0), None, False),
        (partition(4, number=1), {1: 4}, False),
    ],
    ids=["nothing removed", "begins within", "begins before", "all is older", "empty", "no beginning", "from 0 on", "never committed"],
)
def test_a_partition_whose_log_begins_within_the_span_lost_something(
    log: PartitionOffsets, starts: dict[int, int | None] | None, is_lost: bool
) -> None:
    assert decide_lost([log], COMMITTED, starts) == ([log] if is_lost else [])


def test_the_archive_is_named_where_there_is_one(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    assert lost_sentence([], lake, "orders") == ""
    assert lost_sentence([partition(4)], lake, "orders").endswith("the topic has no archive")
    lake.create(archive_table("orders"), pa.schema([pa.field("offset", pa.int64())]), properties={ARCHIVE_OF: "orders"})
    assert "the lake table orders_archive" in lost_sentence([partition(4)], lake, "orders")
