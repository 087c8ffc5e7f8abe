"""An aggregated table of the tests runs in processes that die at a chosen step.

``test_aggregate_table`` uses them.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake import file_commits
from orchestration.lake.tables import Lake
from orchestration.quality import quarantine
from orchestration.rows import upserts
from orchestration.rows.aggregates import count, largest, total
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_lake import rebuilding
from orchestration.transforms.to_lake import run as lake_run
from orchestration.transforms.to_lake.replay import run_replay
from tests.platform.dying import Steps, plant
from tests.platform.pipeline import ORDERS, order, run_context
from tests.unit.orchestration.memory_log import MemoryLog

BY, AGGREGATES = (
    ("kind",),
    (count("orders"), total("amount", "amount"), largest("largest", "amount")),
)
RULES = (quarantine("amount_is_positive", "amount > 0"),)
STEPS: Steps = {
    "after-dead-letters": (DeadLetters, "replace_pending", "after"),
    "before-the-commit": (file_commits, "write_version", "before"),
    "after-the-commit": (upserts, "remove_old_files", "before"),
}


REBUILD_STEPS: Steps = {
    "rebuild-before-dead-letters": (DeadLetters, "begin_replay", "before"),
    "rebuild-after-dead-letters": (DeadLetters, "begin_replay", "after"),
    "rebuild-before-the-commit": (rebuilding, "replace_groups", "before"),
    "rebuild-after-the-commit": (rebuilding, "replace_groups", "after"),
    "rebuild-before-tidying": (DeadLetters, "settle_replay", "before"),
}


def bonus(amount: int) -> int:
    """Return the result of the function that a rebuild uses for an amount."""
    return 3 - amount


def by_kind(records: Any) -> Any:
    """Orders by the first letter of their id; an order counts twice if its amount is even."""
    copies = "explode(if(amount % 2 = 0, array(0, 1), array(0))) AS copy"
    return records.selectExpr(
        "_topic_id", "_partition", "_offset", "nullif(left(id, 1), 'n') AS kind", "amount", copies
    ).drop("copy")


def grouped_table(**changes: Any) -> TopicTable:
    declared: dict[str, Any] = {
        "name": "by_kind",
        "topic": ORDERS,
        "function": by_kind,
        "rules": RULES,
    }
    return TopicTable(**{**declared, "aggregate_by": BY, "aggregates": AGGREGATES, **changes})


def append_orders(log: MemoryLog, number: int) -> None:
    """Append orders of groups that are there and of a new one, some of them rejected."""
    for position in range(9):
        value = (
            b"nonsense" if position == 4 else order(f"{'abcn'[position % 4]}{number}", position - 1)
        )
        log.topics["orders"].partitions[position % 2].append(value)
    log.topics["orders"].partitions[0].append(order(f"{chr(ord('o') + number)}", 7))
    log.topics["orders"].partitions[1].skip(2)


def groups_of(
    log: MemoryLog, amount_of: Callable[[int], int] = lambda amount: amount
) -> tuple[dict[str, tuple[int, int, int]], int]:
    """Return the groups that a plain loop makes of the log, and how many records are rejected."""
    found: dict[str, tuple[int, int, int]] = {}
    rejected = 0
    for partition in log.topics["orders"].partitions:
        for _, _, _, value in partition.records.values():
            made = None if value == b"nonsense" else json.loads(value or b"{}")
            if made is not None:
                made["amount"] = amount_of(made["amount"])
            if made is None or made["amount"] <= 0 or made["id"].startswith("n"):
                rejected += 1
                continue
            times = 1 if made["amount"] % 2 else 2
            orders, amount, most = found.get(made["id"][0], (0, 0, 0))
            found[made["id"][0]] = (
                orders + times,
                amount + times * made["amount"],
                max(most, made["amount"]),
            )
    return found, rejected


def held_groups(lake_root: Path) -> dict[str, tuple[int, int, int]]:
    snapshot = Lake(lake_root).snapshot("by_kind")
    rows = [] if snapshot is None else snapshot.dataset().to_table().to_pylist()
    found = {row["kind"]: (row["orders"], row["amount"], row["largest"]) for row in rows}
    assert len(found) == len(rows), "a group has two rows"
    return found


def run(remote: str, log: MemoryLog, lake: Path, step: str, limit: int) -> None:
    """Run until there is nothing new; a STEP "none" lets it live. "rebuild", and steps that begin
    so, make the groups anew.
    """
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    plant({**STEPS, **REBUILD_STEPS}, step)
    context = run_context(log, lake, session, records_per_run=limit, run_id=f"run-{step}")
    if step.startswith("rebuild"):
        made = grouped_table(
            function=lambda records: by_kind(
                records.selectExpr("* EXCEPT (amount)", "3 - amount AS amount")
            )
        )
        list(run_replay(made, context, ReplayRequest(is_everything=True)))
        os._exit(0)
    while (result := lake_run.run_topic_table(grouped_table(), context)).version is not None:
        pass
    assert not result.failures
    os._exit(0)
