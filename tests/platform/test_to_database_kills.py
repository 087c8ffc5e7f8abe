"""Tables of databases whose runs are killed at every step: each record is in the table once, as made by the newest, or a dead letter."""

import json
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from orchestration.dead_letters import DeadLetters
from orchestration.tables import Lake
from tests.platform.accounts import accounts_of, append_round
from tests.platform.databases import KINDS, database
from tests.platform.forking import forking
from tests.platform.killed_storing import KILLED, TABLE, exit_code, steps_of
from tests.platform.pipeline import letters_of, order
from tests.platform.spark_server import warm_server
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]

SQLITE_STEPS = ("between-rows-and-offsets", "before-the-ledger")
"""The statements are those that PostgreSQL gets, which is killed at every step."""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warm_server(tmp_path_factory.mktemp("server")) as (url, _):
        yield url


@pytest.fixture(scope="module")
def forked() -> ForkServerContext:
    return forking()


def append_orders(log: MemoryLog, number: int) -> None:
    """Append orders of which some are rejected and some twice: a table without key keeps both."""
    for position in range(8):
        value = b"nonsense" if position == 5 else order(f"{number}-{position}", position - 1)
        log.topics["orders"].partitions[position % 2].append(value)
        log.topics["orders"].partitions[position % 2].skip(position % 3)


def orders_of(log: MemoryLog) -> list[tuple[int, int, str]]:
    found = []
    for number, partition in enumerate(log.topics["orders"].partitions):
        for offset, (_, _, _, value) in partition.records.items():
            if value is not None and value != b"nonsense" and json.loads(value)["amount"] > 0:
                found.append((number, offset, json.loads(value)["id"]))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_newest_rows_is_exact_however_runs_are_killed(kind: str, remote: str, forked: ForkServerContext, tmp_path: Path) -> None:
    log, lake = MemoryLog(), tmp_path / "lake"
    log.add_topic("accounts", 2)
    with database(kind, tmp_path) as place:
        for number, step in enumerate(SQLITE_STEPS if kind == "sqlite" else steps_of(kind)):
            append_round(log, number)
            before = place.rows(TABLE, "id", "balance")
            assert exit_code(forked, remote, log, place, lake, step=step, limit=1_000, is_keyed=True) == KILLED, step
            is_committed = step in {"before-the-ledger", "after-the-ledger"}
            assert (place.rows(TABLE, "id", "balance") != before) is is_committed, step
            assert exit_code(forked, remote, log, place, lake, step="none", limit=9, is_keyed=True) == 0, step
            assert place.rows(TABLE, "id", "balance") == sorted(accounts_of(log).items()), f"recovered from {step}"
            letters = DeadLetters(Lake(lake))
            assert letters.committed().count_rows() == 4 * (number + 1) + 2, f"recovered from {step}"
            assert letters.pending().count_rows() == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_table_of_all_rows_is_exact_however_runs_are_killed(kind: str, remote: str, forked: ForkServerContext, tmp_path: Path) -> None:
    log, lake = MemoryLog(), tmp_path / "lake"
    log.add_topic("orders", 2)
    with database(kind, tmp_path) as place:
        for number, step in enumerate(("after-dead-letters", "before-the-commit", "before-the-ledger")):
            append_orders(log, number)
            assert exit_code(forked, remote, log, place, lake, step=step, limit=1_000, is_keyed=False) == KILLED, step
            assert exit_code(forked, remote, log, place, lake, step="none", limit=5, is_keyed=False) == 0, step
            assert place.rows(TABLE, "_partition", "_offset", "id") == orders_of(log), f"recovered from {step}"
            assert len(letters_of(lake)) == 3 * (number + 1), f"recovered from {step}"
