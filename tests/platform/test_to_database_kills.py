"""A database's table has each record once, as made by the newest, or a dead letter.

Its runs are killed at every step.
"""

import json
from pathlib import Path

import pytest

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from tests.helpers.whole import of_a_run
from tests.platform.accounts import Balance, accounts_of, append_round, corrected, same
from tests.platform.databases import KINDS, database
from tests.platform.dying import KILLED, exit_code
from tests.platform.killed_storing import TABLE, replay_steps_of, run, steps_of
from tests.platform.pipeline import letters_of, order
from tests.unit.orchestration.archived import archive
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]

SQLITE_STEPS = ("between-rows-and-offsets", "before-the-ledger")
"""The statements are those that PostgreSQL gets, which is killed at every step."""


def append_orders(log: MemoryLog, number: int) -> None:
    """Append orders of which some are rejected and some twice: a table without key keeps both."""
    for position in range(8):
        value = b"nonsense" if position == 5 else order(f"{number}-{position}", position - 1)
        log.topics["orders"].partitions[position % 2].append(value)
        log.topics["orders"].partitions[position % 2].skip(position % 3)


def orders_of(log: MemoryLog, amount_of: Balance = same) -> list[tuple[int, int, str]]:
    found = []
    for number, partition in enumerate(log.topics["orders"].partitions):
        for offset, (_, _, _, value) in partition.records.items():
            if (
                value is not None
                and value != b"nonsense"
                and amount_of(json.loads(value)["amount"]) > 0
            ):
                found.append((number, offset, json.loads(value)["id"]))
    return sorted(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_newest_rows_is_exact_however_runs_are_killed(
    kind: str, spark_remote: str, tmp_path: Path
) -> None:
    log, lake = MemoryLog(), tmp_path / "lake"
    log.add_topic("accounts", 2)
    with database(kind, tmp_path) as place:
        for number, step in enumerate(SQLITE_STEPS if kind == "sqlite" else steps_of(kind)):
            append_round(log, number)
            before = place.rows(TABLE, "id", "balance")
            assert (
                exit_code(
                    run, spark_remote, log, place, lake, step=step, limit=1_000, is_keyed=True
                )
                == KILLED
            ), step
            is_committed = step in {"before-the-ledger", "after-the-ledger"}
            assert (place.rows(TABLE, "id", "balance") != before) is is_committed, step
            assert (
                exit_code(run, spark_remote, log, place, lake, step="none", limit=9, is_keyed=True)
                == 0
            ), step
            assert place.rows(TABLE, "id", "balance") == sorted(accounts_of(log).items()), (
                f"recovered from {step}"
            )
            letters = DeadLetters(Lake(lake))
            assert letters.committed().count_rows() == 4 * (number + 1) + 2, (
                f"recovered from {step}"
            )
            assert letters.pending().count_rows() == 0


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_table_of_all_rows_is_exact_however_runs_are_killed(
    kind: str, spark_remote: str, tmp_path: Path
) -> None:
    log, lake = MemoryLog(), tmp_path / "lake"
    log.add_topic("orders", 2)
    with database(kind, tmp_path) as place:
        for number, step in enumerate(
            ("after-dead-letters", "before-the-commit", "before-the-ledger")
        ):
            append_orders(log, number)
            assert (
                exit_code(
                    run, spark_remote, log, place, lake, step=step, limit=1_000, is_keyed=False
                )
                == KILLED
            ), step
            assert (
                exit_code(run, spark_remote, log, place, lake, step="none", limit=5, is_keyed=False)
                == 0
            ), step
            assert place.rows(TABLE, "_partition", "_offset", "id") == orders_of(log), (
                f"recovered from {step}"
            )
            assert len(letters_of(lake)) == 3 * (number + 1), f"recovered from {step}"


@pytest.mark.parametrize("kind", of_a_run(["postgresql"], whole=KINDS))
def test_a_replay_of_newest_rows_that_is_killed_has_happened_whole_or_not_at_all(
    kind: str, spark_remote: str, tmp_path: Path
) -> None:
    """The replayed records are in the archive alone, but for the last ones."""
    log, lake = MemoryLog(), tmp_path / "lake"
    log.add_topic("accounts", 2)
    for number in range(2):
        append_round(log, number)
    old, new = sorted(accounts_of(log).items()), sorted(accounts_of(log, corrected).items())
    assert old != new
    with database(kind, tmp_path) as place:
        assert (
            exit_code(run, spark_remote, log, place, lake, step="none", limit=9, is_keyed=True) == 0
        )
        archive(log, Lake(lake), "accounts")
        log.delete_records("accounts", {0: 20, 1: 25})
        for step in replay_steps_of(kind):
            assert (
                exit_code(
                    run, spark_remote, log, place, lake, step=step, limit=1_000, is_keyed=True
                )
                == KILLED
            ), step
            is_done = step in {"replay-before-the-ledger", "replay-before-tidying"}
            old = new if is_done else old
            assert place.rows(TABLE, "id", "balance") == old, step
        assert (
            exit_code(
                run, spark_remote, log, place, lake, step="replay", limit=1_000, is_keyed=True
            )
            == 0
        )
        assert place.rows(TABLE, "id", "balance") == new
        assert DeadLetters(Lake(lake)).pending().count_rows() == 0
        append_round(log, 2)
        assert (
            exit_code(run, spark_remote, log, place, lake, step="none", limit=9, is_keyed=True) == 0
        )


@pytest.mark.parametrize("kind", of_a_run(["duckdb"], whole=["sqlite", "duckdb"]))
def test_a_replay_of_all_rows_that_is_killed_keeps_each_record_in_one_place(
    kind: str, spark_remote: str, tmp_path: Path
) -> None:
    log, lake = MemoryLog(), tmp_path / "lake"
    log.add_topic("orders", 2)
    append_orders(log, 0)
    append_orders(log, 1)
    places = {
        (number, offset)
        for number, one in enumerate(log.topics["orders"].partitions)
        for offset in one.records
    }
    with database(kind, tmp_path) as place:
        assert (
            exit_code(run, spark_remote, log, place, lake, step="none", limit=1_000, is_keyed=False)
            == 0
        )
        for step in (
            "replay-after-dead-letters",
            "replay-before-the-commit",
            "replay-before-the-ledger",
            "replay-before-tidying",
        ):
            assert (
                exit_code(run, spark_remote, log, place, lake, step=step, limit=5, is_keyed=False)
                == KILLED
            ), step
            if step != "replay-before-the-ledger":
                # The ledger is what readers of dead letters know; the next run brings it up.
                held = [row[:2] for row in place.rows(TABLE, "_partition", "_offset", "id")]
                assert sorted([*held, *(one[:2] for one in letters_of(lake))]) == sorted(places), (
                    step
                )
        assert (
            exit_code(run, spark_remote, log, place, lake, step="replay", limit=5, is_keyed=False)
            == 0
        )
        assert place.rows(TABLE, "_partition", "_offset", "id") == orders_of(log, corrected)
        assert sorted(one[:2] for one in letters_of(lake)) == sorted(
            places - {row[:2] for row in orders_of(log, corrected)}
        )
