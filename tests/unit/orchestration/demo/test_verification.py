"""The proof finds what is missing, doubled or strange, and is content with what is exact."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from orchestration.dead_letters.table import ENVELOPE, DeadLetters
from orchestration.demo.verification import offset_faults, prove_topic
from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import Lake
from orchestration.offsets.ranges import OffsetRange, OffsetRanges
from orchestration.transforms import TopicFeed, table_key
from tests.unit.orchestration.memory_log import MemoryLog

FEED = TopicFeed(
    asset_key=table_key("clean"), table="clean", topic="orders", minimum_interval_s=None
)


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        ([0, 1, 2, 3], []),
        ([0, 1, 3], ["orders-0: 1 offset is missing, the first is 2"]),
        ([0, 1, 1, 2, 3], ["orders-0: 1 offset is there more than once, the first is 1"]),
        ([0, 1, 2, 3, 4, 5], ["orders-0: 2 offsets are not in the log, the first is 4"]),
        ([], ["orders-0: 4 offsets are missing, the first is 0"]),
        ([1, 1, 2, 9], [
            "orders-0: 2 offsets are missing, the first is 0",
            "orders-0: 1 offset is there more than once, the first is 1",
            "orders-0: 1 offset is not in the log, the first is 9",
        ]),
    ],
)  # fmt: skip
def test_offsets_are_compared_one_by_one(found: list[int], faults: list[str]) -> None:
    assert offset_faults("orders-0", np.array(found, np.int64), np.arange(4)) == faults


def log_with(count: int) -> MemoryLog:
    log = MemoryLog()
    for _ in range(count):
        (log.topics.get("orders") or log.add_topic("orders")).partitions[0].append(b"x")
    return log


def rows(*offsets: int, topic_id: str = "id-of-orders") -> pa.Table:
    size = len(offsets)
    return pa.table(
        {
            "_topic_id": pa.array([topic_id] * size, pa.string()),
            "_partition": pa.array([0] * size, pa.int32()),
            "_offset": pa.array(offsets, pa.int64()),
        }
    )


def lake_with(root: Path, table: pa.Table, end: int, *rejected: int) -> Lake:
    lake = Lake(root)
    ranges = OffsetRanges(
        topic="orders",
        topic_id="id-of-orders",
        ranges=(OffsetRange(partition=0, start=0, end=end),),
    )
    append_with_offsets(lake.create("clean", table.schema), table, ranges, {}, expected={})
    letters = [
        {
            "target": "clean",
            "topic": "orders",
            "_topic_id": "id-of-orders",
            "_partition": 0,
            "_offset": one,
        }
        for one in rejected
    ]
    write_deltalake(
        DeadLetters(lake).snapshot().delta,
        pa.Table.from_pylist(letters, schema=ENVELOPE),
        mode="append",
    )
    return lake


def test_rows_and_dead_letters_together_are_the_topic(tmp_path: Path) -> None:
    proof = prove_topic(FEED, log_with(4), lake_with(tmp_path, rows(0, 2, 3), 4, 1), produced=4)
    assert (proof.records, proof.rows, proof.dead_letters, proof.faults) == (4, 3, 1, ())


def test_a_record_that_is_row_and_dead_letter_is_found(tmp_path: Path) -> None:
    proof = prove_topic(FEED, log_with(4), lake_with(tmp_path, rows(0, 1, 2, 3), 4, 1), produced=4)
    assert proof.faults == (
        "topic orders holds 4 records, and clean has 5 rows and dead letters",
        "orders-0: 1 offset is there more than once, the first is 1",
    )


def test_a_record_that_was_acknowledged_and_is_not_in_the_log_is_found(tmp_path: Path) -> None:
    proof = prove_topic(FEED, log_with(4), lake_with(tmp_path, rows(0, 1, 2, 3), 4), produced=5)
    assert proof.faults == ("topic orders holds 4 records, and 5 were acknowledged",)


def test_rows_of_another_topic_are_found(tmp_path: Path) -> None:
    proof = prove_topic(
        FEED, log_with(2), lake_with(tmp_path, rows(0, 1, topic_id="another"), 2), produced=2
    )
    assert proof.faults == ("2 rows of clean came from another topic than orders (id-of-orders)",)


def test_a_table_that_does_not_exist_lacks_everything(tmp_path: Path) -> None:
    proof = prove_topic(FEED, log_with(2), Lake(tmp_path), produced=2)
    assert proof.rows == 0
    assert "orders-0: 2 offsets are missing, the first is 0" in proof.faults
