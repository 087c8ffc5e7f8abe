"""A trial of fixes tells the records that a table would reject again.

It does so before anything is kept.
"""

from pathlib import Path
from typing import Any

import pytest

from orchestration.calls.fix_trial import rejected_again
from orchestration.dead_letters.fixes import Fix, Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform.pipeline import letters_of, order, orders_table, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
ID = "id-of-orders"


def fixes(*values: tuple[int, int, bytes | None]) -> list[Fix]:
    return [
        Fix(topic_id=ID, partition=partition, offset=offset, value=value)
        for partition, offset, value in values
    ]


@pytest.fixture
def rejecting(lake_root: Path, spark: Any) -> TopicTable:
    """A table that has taken 0:2, and rejected the others."""
    log = MemoryLog()
    first, second = log.add_topic("orders", 2).partitions
    for offset, amount in enumerate([0, -1, 7]):
        first.append(order(f"a{offset}", amount))
    for value in (b"{", b"[]", b"7"):
        second.append(value)
    table = orders_table()
    run_topic_table(table, run_context(log, lake_root, spark))
    assert rows_of(lake_root) == [(0, 2, "a2")]
    return table


def test_a_trial_says_which_fix_the_table_would_reject_and_why(
    rejecting: TopicTable, lake_root: Path, spark: Any
) -> None:
    given = fixes(
        (0, 0, order("a0", 1)),
        (0, 1, order("a1", -2)),
        (1, 0, order("b0", "much")),
        (1, 1, order("a2", 1)),
        (1, 2, None),
    )
    before = letters_of(lake_root)
    told = rejected_again(
        spark,
        Lake(lake_root),
        rejecting,
        DeadLetters(Lake(lake_root)).of_target("clean_orders"),
        given,
    )
    assert {place: (one.rule, one.reason, one.duplicate_of) for place, one in told.items()} == {
        (ID, 0, 1): ("amount_is_positive", "amount > 0 does not hold", None),
        (ID, 1, 0): ("schema", "field amount is not INT", None),
        (ID, 1, 1): ("unique_by", "duplicate", "0:2"),
        (ID, 1, 2): ("schema", "the value is null", None),
    }
    assert (
        letters_of(lake_root),
        rows_of(lake_root),
        Fixes(Lake(lake_root)).of("clean_orders", ID),
    ) == (before, [(0, 2, "a2")], {})


def test_two_fixes_that_are_given_one_key_are_told(
    rejecting: TopicTable, lake_root: Path, spark: Any
) -> None:
    given = fixes((0, 0, order("same", 1)), (0, 1, order("same", 1)))
    told = rejected_again(
        spark,
        Lake(lake_root),
        rejecting,
        DeadLetters(Lake(lake_root)).of_target("clean_orders"),
        given,
    )
    assert {place: one.duplicate_of for place, one in told.items()} == {(ID, 0, 1): "0:0"}
