"""For which tables runs start: something to read, nothing in flight, the interval over."""

from typing import Any

import pytest

from orchestration.sensing import TableState, decide_runs

NOW_S = 1_000.0


def table(name: str = "orders", **known: Any) -> TableState:
    return TableState(**{"table": name, "pending": 5, "minimum_interval_s": 5.0, **known})


def started(*tables: TableState) -> tuple[str, ...]:
    return decide_runs(tables, NOW_S).start


def test_a_table_with_records_starts() -> None:
    assert started(table()) == ("orders",)


def test_a_table_without_records_rests() -> None:
    decision = decide_runs([table(pending=0)], NOW_S)
    assert decision.start == ()
    assert not decision.is_anything_wanting


def test_a_commit_that_nobody_told_of_starts_a_run_that_tells() -> None:
    assert started(table(pending=0, is_announced=False)) == ("orders",)


def test_a_checkpoint_outside_the_log_starts_a_run_that_reports_it() -> None:
    assert started(table(pending=0, is_misplaced=True)) == ("orders",)


@pytest.mark.parametrize("why", [{"is_upkeep_due": True}], ids=str)
def test_offsets_to_remind_of_and_files_to_tidy_start_a_run_without_records(
    why: dict[str, Any],
) -> None:
    assert started(table(pending=0, **why)) == ("orders",)


def test_a_table_without_an_interval_starts_again_at_once_where_no_run_failed() -> None:
    assert started(table(last_start_s=NOW_S, minimum_interval_s=0)) == ("orders",)
    assert started(table(last_start_s=NOW_S, minimum_interval_s=0, failures=1)) == ()


@pytest.mark.parametrize(
    "known",
    [{}, {"last_start_s": NOW_S}, {"is_running": True}],
    ids=["starts", "waits", "in flight"],
)
def test_a_table_that_starts_or_waits_wants_something(known: dict[str, Any]) -> None:
    assert decide_runs([table(**known)], NOW_S).is_anything_wanting


def test_a_table_whose_run_is_in_flight_waits_for_its_end() -> None:
    decision = decide_runs([table(is_running=True)], NOW_S)
    assert (decision.start, decision.in_flight, decision.next_due_s) == ((), ("orders",), None)
    assert decision.is_anything_wanting


@pytest.mark.parametrize(
    ("last_start_s", "is_started"), [(NOW_S - 5.0, True), (NOW_S - 4.9, False), (None, True)]
)
def test_two_starts_are_an_interval_apart(last_start_s: float | None, is_started: bool) -> None:
    assert bool(started(table(last_start_s=last_start_s))) == is_started


def test_the_first_of_the_waiting_tables_says_how_long_to_wait() -> None:
    decision = decide_runs(
        [table("a", last_start_s=NOW_S - 1), table("b", last_start_s=NOW_S - 3)], NOW_S
    )
    assert decision.next_due_s == NOW_S + 2


@pytest.mark.parametrize(
    ("failures", "rest_s"), [(0, 5), (1, 10), (2, 20), (3, 40), (6, 300), (1_000, 300)]
)
def test_a_table_that_fails_rests_longer_each_time(failures: int, rest_s: float) -> None:
    assert (
        decide_runs([table(last_start_s=NOW_S, failures=failures)], NOW_S).next_due_s
        == NOW_S + rest_s
    )


def test_tables_are_decided_one_by_one() -> None:
    states = [
        table("a"),
        table("b", is_running=True),
        table("c", pending=0),
        table("d", last_start_s=NOW_S),
        table("e"),
    ]
    assert started(*states) == ("a", "e")
