"""The table of a tests' pipeline keeps the newest row of each key.

Its rows are accounts, and a plain dictionary computes the same from the log.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestration.lake.tables import Lake
from orchestration.quality import quarantine
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from tests.unit.orchestration.memory_log import MemoryLog

ACCOUNTS = TopicSpec(
    name="accounts",
    partitions=2,
    key="id",
    schema="id STRING NOT NULL, balance INT NOT NULL, status STRING",
)
Balance = Callable[[int], int]


def newest_accounts(records: Any) -> Any:
    """Accounts as they are."""
    return records.selectExpr(
        "_topic_id",
        "_partition",
        "_offset",
        "_timestamp",
        "id",
        "balance",
        "upper(status) AS status",
    )


def accounts_table(**changes: Any) -> TopicTable:
    declared: dict[str, Any] = {
        "name": "accounts",
        "topic": ACCOUNTS,
        "function": newest_accounts,
        "latest_by": ("id",),
        "deleted_when": "status = 'CLOSED'",
        "rules": (quarantine("balance_is_positive", "balance >= 0"),),
    }
    return TopicTable(**{**declared, **changes})


def append_account(
    log: MemoryLog, partition: int, identity: str, balance: int | None, status: str = "open"
) -> int:
    """Append an account, or a tombstone where it has no balance."""
    value = (
        None
        if balance is None
        else json.dumps({"id": identity, "balance": balance, "status": status}).encode()
    )
    return log.topics["accounts"].partitions[partition].append(value, key=identity.encode())


def same(balance: int) -> int:
    return balance


def corrected(balance: int) -> int:
    """Return the balance that a corrected transform makes.

    Rejected ones count, and other accounts are rejected.
    """
    return 3 - balance


def accounts_of(log: MemoryLog, balance_of: Balance = same) -> dict[str, int]:
    """Read the log once, partition by partition; a key lies in one."""
    found: dict[str, int] = {}
    for partition in log.topics["accounts"].partitions:
        for offset in sorted(partition.records):
            _, _, key, value = partition.records[offset]
            assert key is not None
            if value is None:
                found.pop(key.decode(), None)
            elif value != b"nonsense":
                account = json.loads(value)
                balance = balance_of(account["balance"])
                if balance < 0:
                    continue
                found.pop(account["id"], None)
                if account["status"] != "closed":
                    found[account["id"]] = balance
    return found


def held_accounts(lake_root: Path) -> dict[str, int]:
    snapshot = Lake(lake_root).snapshot("accounts")
    rows = (
        []
        if snapshot is None
        else snapshot.dataset().to_table(columns=["id", "balance"]).to_pylist()
    )
    found = {row["id"]: row["balance"] for row in rows}
    assert len(found) == len(rows), "an account has two rows"
    return found


def append_round(log: MemoryLog, number: int) -> None:
    """Append accounts to both partitions.

    They are new, changed, closed, deleted, opened again and rejected.
    """
    for partition in (0, 1):
        for position in range(6):
            append_account(
                log, partition, f"{partition}-{position + 2 * number}", 10 * number + position - 1
            )
        append_account(log, partition, f"{partition}-{2 * number + 1}", None)
        append_account(log, partition, f"{partition}-{2 * number + 2}", 1, "closed")
        append_account(log, partition, f"{partition}-{2 * number - 1}", 2)
        append_account(log, partition, f"{partition}-{2 * number}", -5)
        log.topics["accounts"].partitions[partition].append(b"nonsense", key=b"x")
        log.topics["accounts"].partitions[partition].skip(2)
