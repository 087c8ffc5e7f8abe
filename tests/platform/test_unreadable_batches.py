"""A batch that cannot be read stops no table.

Each of its offsets is a dead letter, and the records behind it are rows.
"""

from pathlib import Path
from typing import Any

import pytest

from orchestration.dead_letters.fixes import Fix, Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.pipeline import letters_of, order, orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
RAW = b"\x00\x01 no batch"
WAYS = pytest.mark.parametrize("arrow_records", [1_000, 1], ids=["run-process", "workers"])


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("orders", 2)
    first = made.topics["orders"].partitions[0]
    first.append(order("a"))
    first.append_unreadable(3, RAW)
    first.append(order("b"))
    made.topics["orders"].partitions[1].append(order("c"))
    return made


@WAYS
def test_its_offsets_are_dead_letters_and_what_is_behind_are_rows(
    log: MemoryLog, lake_root: Path, spark: Any, arrow_records: int
) -> None:
    result = run_topic_table(
        orders_table(), run_context(log, lake_root, spark, arrow_records=arrow_records)
    )
    assert rows_of(lake_root) == [(0, 0, "a"), (0, 4, "b"), (1, 0, "c")]
    reason = "the batch at offsets 1 to 3 cannot be read: CORRUPT_MESSAGE"
    assert letters_of(lake_root) == [(0, offset, "unreadable", reason) for offset in (1, 2, 3)]
    values = (
        DeadLetters(Lake(lake_root))
        .committed()
        .to_table(columns=["_offset", "value"])
        .sort_by("_offset")
    )
    assert values["value"].to_pylist() == [RAW, None, None]
    assert result.batch is not None
    assert (result.batch.filtered, result.next_offsets) == (0, {0: 5, 1: 1})


@WAYS
def test_so_they_are_without_a_schema(
    log: MemoryLog, lake_root: Path, spark: Any, arrow_records: int
) -> None:
    table = orders_table(
        topic=TopicSpec(name="orders"), function=lambda records: records, rules=(), unique_by=()
    )
    run_topic_table(table, run_context(log, lake_root, spark, arrow_records=arrow_records))
    assert rows_of(lake_root, columns=("_partition", "_offset")) == [(0, 0), (0, 4), (1, 0)]
    assert [one[1:3] for one in letters_of(lake_root)] == [
        (1, "unreadable"),
        (2, "unreadable"),
        (3, "unreadable"),
    ]


def test_one_that_can_be_read_again_is_replayed_and_one_may_be_fixed(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    table, context = orders_table(), run_context(log, lake_root, spark)
    run_topic_table(table, context)
    replay = ReplayRequest(is_of_dead_letters=True)
    Fixes(context.lake).put(
        table.name, [Fix(topic_id="id-of-orders", partition=0, offset=1, value=order("fixed"))]
    )
    list(run_replay(table, context, replay))
    assert rows_of(lake_root) == [(0, 0, "a"), (0, 1, "fixed"), (0, 4, "b"), (1, 0, "c")]
    assert [one[1] for one in letters_of(lake_root)] == [2, 3]
    partition = log.topics["orders"].partitions[0]
    partition.unreadable.clear()
    for offset in (2, 3):
        partition.records[offset] = (0, 0, None, order(f"again{offset}"))
    list(run_replay(table, context, replay))
    assert rows_of(lake_root)[2:4] == [(0, 2, "again2"), (0, 3, "again3")]
    assert letters_of(lake_root) == []
