"""A table of orders and their payments serves tests.

Joining everything at once gives its rows, and runs die at a chosen step.
"""

import json
import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.quality import warn
from orchestration.rows.join_state import StateWriter
from orchestration.rows.joins import JoinShape
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.joining import run as join_run
from orchestration.transforms.joining.declarations import JoinedTable, shape_of
from orchestration.transforms.run.context import RunContext
from orchestration.values.times import milliseconds_of
from tests.platform.dying import Steps, plant
from tests.platform.pipeline import run_context
from tests.unit.orchestration.memory_log import MemoryLog

ORDERS = TopicSpec(
    name="orders", partitions=2, schema="id STRING NOT NULL, amount INT NOT NULL, at TIMESTAMP"
)
PAYMENTS = TopicSpec(
    name="payments",
    partitions=2,
    schema="order_id STRING, paid DECIMAL(10,2) NOT NULL, paid_at TIMESTAMP",
)
ON = {"id": "order_id"}
TIMES = ("at", "paid_at")
BEFORE, AFTER, LATENESS = timedelta(seconds=5), timedelta(seconds=90), timedelta(seconds=600)
START = datetime(2024, 3, 1, 10, 0, tzinfo=UTC)
STEPS: Steps = {
    "after-the-table-is-created": (join_run, "create_table", "after"),
    "after-the-dead-letters-of-one-topic": (DeadLetters, "replace_pending", "after"),
    "before-the-commit": (join_run, "commit_join", "before"),
    "after-the-state-is-written": (StateWriter, "write", "after"),
    "after-the-commit": (StateWriter, "tidy", "before"),
}
REPLAY_STEPS: Steps = {
    "after-the-dead-letters-of-one-topic": (DeadLetters, "begin_replay", "after"),
    "after-the-state-is-written": (StateWriter, "write", "after"),
    "after-the-commit": (StateWriter, "tidy", "before"),
    "before-it-is-tidy": (DeadLetters, "settle_replay", "before"),
}
COMMITTED = {"after-the-commit", "before-it-is-tidy"}
Found = tuple[Counter[tuple[Any, ...]], set[tuple[str, int, int]]]


def paid_orders(pairs: Any) -> Any:
    """Orders with their payments."""
    return pairs.select("id", "left.amount", "right.paid", "_left", "_right")


def shape(**changes: Any) -> JoinShape:
    usual: dict[str, Any] = {
        "on": ON,
        "event_time": TIMES,
        "within": (BEFORE, AFTER),
        "lateness": LATENESS,
        "how": "left",
        "idle_after": None,
    }
    return shape_of(**{**usual, **changes})


def joined_table(**changes: Any) -> JoinedTable:
    usual: dict[str, Any] = {
        "name": "paid_orders",
        "left": ORDERS,
        "right": PAYMENTS,
        "function": paid_orders,
        "shape": shape(),
        "rules": (warn("is_paid", "paid IS NOT NULL"),),
    }
    return JoinedTable(**{**usual, **changes})


def two_topics() -> MemoryLog:
    log = MemoryLog()
    log.add_topic("orders", 2)
    log.add_topic("payments", 2)
    return log


def append_order(
    log: MemoryLog, identity: str, second: float, *, partition: int = 0, amount: int = 1
) -> int:
    at = START + timedelta(seconds=second)
    value = {"id": identity, "amount": amount, "at": at.isoformat()}
    return (
        log.topics["orders"]
        .partitions[partition]
        .append(json.dumps(value).encode(), timestamp_ms=milliseconds_of(at))
    )


def append_payment(
    log: MemoryLog,
    identity: str | None,
    second: float,
    *,
    partition: int = 0,
    paid: object = "1.50",
) -> int:
    at = START + timedelta(seconds=second)
    value = {"order_id": identity, "paid": paid, "paid_at": at.isoformat()}
    return (
        log.topics["payments"]
        .partitions[partition]
        .append(json.dumps(value).encode(), timestamp_ms=milliseconds_of(at))
    )


def append_round(log: MemoryLog, number: int) -> None:
    """Append orders, and payments of these and of earlier ones.

    Some are too early or too late for the order, and some are refused.
    """
    draw = 60 * number
    for position in range(6):
        append_order(log, f"{number}-{position}", draw + position, partition=position % 2)
        if position != 3:
            append_payment(
                log,
                f"{number}-{position}",
                draw + position + (-6, 0, 90, 0, 91, 30)[position],
                partition=position % 2,
            )
    append_payment(log, f"{number - 1}-3", draw + 20)
    append_payment(log, f"{number}-1", draw + 20, partition=1)
    append_payment(log, None, draw)
    for topic in log.topics.values():
        topic.partitions[0].append(b"nonsense")
        topic.partitions[1].skip(2)


def append_end(log: MemoryLog) -> None:
    """Append records that let go of all others."""
    append_order(log, "end", 36_000)
    append_payment(log, "end", 36_000)


def expected(log: MemoryLog) -> Found:
    """Join the whole log in a plain loop.

    Return the rows, and the places of the records that are refused.
    """
    records: dict[str, list[tuple[str, datetime, tuple[int, int]]]] = {"orders": [], "payments": []}
    refused = set()
    for name, key, time in (("orders", "id", "at"), ("payments", "order_id", "paid_at")):
        for number, partition in enumerate(log.topics[name].partitions):
            for offset, (_, _, _, value) in partition.records.items():
                made = None if value == b"nonsense" else json.loads(value or b"{}")
                if made is None or made[key] is None:
                    refused.add((log.topics[name].topic_id, number, offset))
                else:
                    records[name].append(
                        (made[key], datetime.fromisoformat(made[time]), (number, offset))
                    )
    watermark = min(max(at for _, at, _ in found) for found in records.values()) - LATENESS
    rows: Counter[tuple[Any, ...]] = Counter()
    for identity, at, place in records["orders"]:
        partners = [
            where
            for other, then, where in records["payments"]
            if other == identity and -BEFORE <= then - at <= AFTER
        ]
        rows.update((identity, place, where) for where in partners)
        if not partners and at + AFTER < watermark:
            rows[identity, place, None] += 1
    return rows, refused


def held(lake_root: Path) -> Found:
    """Return what the table and the dead letters hold."""
    lake = Lake(lake_root)
    snapshot = lake.snapshot("paid_orders")
    rows = [] if snapshot is None else snapshot.dataset().to_table().to_pylist()
    found = Counter((row["id"], _place(row["_left"]), _place(row["_right"])) for row in rows)
    columns = ["_topic_id", "_partition", "_offset"]
    letters = [
        tuple(row.values())
        for row in DeadLetters(lake).committed().to_table(columns=columns).to_pylist()
    ]
    assert len(letters) == len(set(letters)), "a record is among the dead letters twice"
    return found, set(letters)


def _place(struct: dict[str, Any] | None) -> tuple[int, int] | None:
    return None if struct is None else (struct["partition"], struct["offset"])


def run_all(context: RunContext, table: JoinedTable | None = None) -> list[join_run.JoinRunResult]:
    """Run until there is nothing new."""
    results = []
    while (
        result := join_run.run_joined_table(table or joined_table(), context)
    ).version is not None:
        results.append(result)
    assert not result.failures
    return results


def main(remote: str, log_path: str, limit: str, step: str, lake: str) -> None:
    """Be a process that runs until there is nothing new, or dies at a step; "none" lets it live."""
    log = pickle.loads(Path(log_path).read_bytes())
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    plant(STEPS, step)
    run_all(run_context(log, Path(lake), session, records_per_run=int(limit), run_id=f"run-{step}"))
