"""A small pipeline that the tests share: orders from a topic, made into rows, some of them
rejected.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.offsets.ranges import OffsetRanges
from orchestration.quality import Suite, expect, fail, quarantine, warn
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.run.context import RunContext
from tests.unit.orchestration.memory_log import MemoryLog

ORDERS = TopicSpec(
    name="orders",
    partitions=2,
    schema="id STRING NOT NULL, amount INT NOT NULL COMMENT 'in cents', note STRING",
)
RULES = (
    quarantine("amount_is_positive", "amount > 0"),
    warn("amount_is_small", "amount < 1000"),
    fail("id_is_short", "length(id) < 20"),
)
SUITE = Suite(
    expect("expect_column_values_to_not_be_null", column="id", is_blocking=True),
    expect(
        "expect_column_values_to_be_between",
        column="amount",
        max_value=5000,
        name="amount_up_to_5000",
    ),
)


class Notes:
    """A Reporter that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.pinned: list[tuple[str, str]] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def pin(self, kind: str, ranges: OffsetRanges) -> None:
        self.pinned.append((kind, str(ranges)))


def clean_orders(records: Any) -> Any:
    """Orders with a typed amount."""
    return records.selectExpr(
        "_topic_id", "_partition", "_offset", "_timestamp", "id", "amount", "upper(note) AS note"
    )


def orders_table(**changes: Any) -> TopicTable:
    declared: dict[str, Any] = {
        "name": "clean_orders",
        "topic": ORDERS,
        "function": clean_orders,
        "unique_by": ("id",),
        "rules": RULES,
    }
    return TopicTable(**{**declared, **changes})


def order(identity: str, amount: object = 1, **more: object) -> bytes:
    return json.dumps({"id": identity, "amount": amount, **more}).encode()


def append_order(log: MemoryLog, identity: str) -> None:
    """Append an order to the first partition."""
    log.topics[ORDERS.name].partitions[0].append(order(identity))


def run_context(log: MemoryLog, lake_root: Path, spark: Any, **changes: Any) -> RunContext:
    settings: dict[str, Any] = {
        "log": log,
        "lake": Lake(lake_root),
        "session": lambda: spark,
        "reporter": Notes(),
        "run_id": "run-1",
        "records_per_run": 10_000,
        "arrow_records": 10_000,
        "commit_attempts": 3,
    }
    return RunContext(**{**settings, **changes})


def rows_of(
    lake_root: Path,
    name: str = "clean_orders",
    columns: Sequence[str] = ("_partition", "_offset", "id"),
) -> list[tuple[Any, ...]]:
    snapshot = Lake(lake_root).snapshot(name)
    if snapshot is None:
        return []
    return sorted(
        tuple(row.values())
        for row in snapshot.dataset().to_table(columns=list(columns)).to_pylist()
    )


def letters_of(lake_root: Path) -> list[tuple[Any, ...]]:
    committed = (
        DeadLetters(Lake(lake_root))
        .committed()
        .to_table(columns=["_partition", "_offset", "rule", "reason"])
    )
    return sorted(tuple(row.values()) for row in committed.to_pylist())
