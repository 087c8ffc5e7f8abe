"""A person reads plans: typed throttles, shown times and summaries, and contradicting options."""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

import click
import pytest
import trio
from click.testing import CliRunner

from log_service.cli import plan_view
from log_service.cli.main import tidelog
from log_service.cli.output import note
from log_service.cli.plan_view import (
    TOLD_EVERY_SECONDS,
    ProgressLine,
    carry_out,
    duration,
    parsed_throttle,
    present,
    summary,
)
from log_service.cli.quotas import value_of
from log_service.client.admin.admin import Admin
from log_service.cluster_plans.execution import PlanProgress
from log_service.cluster_plans.plan import Move, Plan
from log_service.common.types import TopicPartition
from tests.unit.cluster_plans.layouts import broker, layout, partition


def throttle(text: str) -> int | None:
    return parsed_throttle(click.Context(click.Command("x")), click.Option(["--throttle"]), text)


RATES = pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000", 1000),
        ("50MiB", 50 << 20),
        ("1.5 GB/s", 1_500_000_000),
        ("20kb", 20_000),
        ("3KiB", 3072),
        ("5M", 5 << 20),
        ("1.5k", 1536),
    ],
)


@RATES
def test_a_quota_is_written_as_a_throttle_is(text: str, expected: int) -> None:
    assert throttle(text) == expected
    assert value_of("producer_byte_rate", text) == expected


def test_moves_may_have_no_throttle() -> None:
    assert throttle("none") is throttle("None") is None


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "fast", "10 parsec", "0.1B", "1e9", "1iB", "nan", "inf", "9" * 400, f"{2**63}"],
)
def test_what_is_neither_throttle_nor_quota_is_refused_in_the_same_words(text: str) -> None:
    with pytest.raises(
        click.BadParameter,
        match=r"is not bytes a second, as in 1048576, 50MiB or 1.5GB, and not 'none'$",
    ):
        throttle(text)
    with pytest.raises(
        click.BadParameter, match=r"is not bytes a second, as in 1048576, 50MiB or 1.5GB$"
    ):
        value_of("consumer_byte_rate", text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1, "1 s"), (42, "42 s"), (90, "2 min"), (5400, "1.5 h")]
)
def test_times_are_told_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_plan_is_summed_up_in_a_line() -> None:
    move = Move(where=TopicPartition("t", 0), before=(1,), after=(2,), size_bytes=1 << 30, source=1)
    text = summary(Plan(moves=(move,), throttle_bytes=10 << 20, elections=(move.where,)))
    assert (
        text
        == "1 move, 1 replica to copy (1.0 GiB); 1 leader to elect; at most 10.0 MiB/s for each broker: 2 min or more"
    )
    assert summary(Plan(moves=(move,))).endswith("; no throttle")


HALF = PlanProgress(complete=1, moving=2, waiting=1, copied_bytes=2 << 20, total_bytes=4 << 20)


def test_a_terminal_is_shown_a_bar_that_is_drawn_over_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line = ProgressLine()
    line.show(HALF)
    line.show(
        PlanProgress(complete=4, moving=0, waiting=0, copied_bytes=4 << 20, total_bytes=4 << 20)
    )
    line.close()
    first, second = capsys.readouterr().err.split("\r")[1:]
    assert first.startswith(
        f"[{'#' * 15}{'.' * 15}]  50 %  1 of 4 moves, 2.0 MiB of 4.0 MiB, 2 under way"
    )
    assert second.startswith(f"[{'#' * 30}] 100 %  4 of 4 moves, ")
    assert second.endswith("\n")


def test_moves_that_copy_nothing_are_counted_by_their_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ProgressLine().show(
        PlanProgress(complete=1, moving=1, waiting=2, copied_bytes=0, total_bytes=0)
    )
    assert "]  25 %  1 of 4 moves" in capsys.readouterr().err


def test_a_log_gets_a_line_now_and_then_and_each_text_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("log_service.cli.plan_view.time.monotonic", lambda: now[0])
    line = ProgressLine()
    for now[0] in (1.0, 2 * TOLD_EVERY_SECONDS, 4 * TOLD_EVERY_SECONDS):
        line.show(HALF)
    line.close()
    assert capsys.readouterr().err == "1 of 4 moves, 2.0 MiB of 4.0 MiB, 2 under way\n"


def test_a_plan_that_is_stopped_before_its_first_move_leaves_nothing_to_put_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class InterruptedAdmin:
        async def describe_cluster(self) -> None:
            raise KeyboardInterrupt

    plan = Plan(
        moves=(Move(where=TopicPartition("t", 0), before=(1,), after=(2,)),), throttle_bytes=1 << 20
    )
    with pytest.raises(click.exceptions.Exit) as stopped:
        trio.run(partial(carry_out, cast("Admin", InterruptedAdmin()), plan, limit=1))
    assert stopped.value.exit_code == 130
    said = capsys.readouterr().err
    assert said.startswith(
        "stopped: 0 of 1 move complete, 0 under way, 1 not begun.\nThe same command plans what is left.\n"
    )
    assert "tidelog cluster watch" in said, "a throttle may be there already"
    assert "under way:" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topics", "plan"], "say which topics, or --file with a plan"),
        (["topics", "plan", "t"], "say what they are to have: --replication-factor or --brokers"),
        (
            ["topics", "plan", "t", "--brokers", "1,x"],
            "'1,x' is not a list of node ids like 1,2,3: 'x' is none",
        ),
        (["topics", "plan", "--file", "setup.cfg", "-r", "2"], "does not exist"),
        (["add", "4", "--start"], "--start starts a broker with the next id: it excludes ID"),
        (
            ["rebalance", "--throttle", "slow"],
            "'slow' is not bytes a second, as in 1048576, 50MiB or 1.5GB",
        ),
        (["rebalance", "--at-once", "0"], "0 is not in the range"),
        (["roll", "--execute", "--dry-run"], "--execute and --dry-run exclude each other"),
        (["drain"], "Missing argument 'ID...'"),
    ],
)
def test_wrong_usage_is_told_before_anybody_is_asked(arguments: list[str], said: str) -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(
        tidelog, ["cluster", *arguments, "-b", "127.0.0.1:1"]
    )
    assert result.exit_code == 2
    assert said in result.output + result.stderr


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """A stream whose reader has gone, as head goes after its lines."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    yield stream
    with suppress(BrokenPipeError):
        stream.close()


def test_what_is_to_be_done_is_done_where_no_one_reads_about_it(
    monkeypatch: pytest.MonkeyPatch, unread: TextIO
) -> None:
    """A plan that was carried out into ``head`` was not, and the exit code was 0."""
    done: list[Plan] = []

    async def note_plan(_admin: object, plan: Plan, **_how: object) -> None:
        done.append(plan)

    monkeypatch.setattr(plan_view, "carry_out", note_plan)
    monkeypatch.setattr("sys.stdout", unread)
    plan = Plan(moves=(Move(where=TopicPartition("t", 0), before=(1,), after=(2,)),))
    brokers = layout([broker(1), broker(2)], [partition("t", 0, [1])])
    how: dict[str, Any] = {
        "dry_run": False,
        "limit": 1,
        "plan_file": None,
        "back_file": None,
        "as_json": False,
        "nothing": "",
    }
    with pytest.raises(BrokenPipeError):
        trio.run(partial(present, Admin("127.0.0.1:1"), brokers, plan, execute=True, **how))
    assert done == [plan]


def test_moves_go_on_where_no_one_reads_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, unread: TextIO
) -> None:
    monkeypatch.setattr("sys.stderr", unread)
    monkeypatch.setattr(unread, "isatty", lambda: True, raising=False)
    line = ProgressLine()
    line.show(HALF)
    line.close()
    note("broker 4 stops")


@pytest.mark.parametrize("option", ["--write", "--write-back"])
def test_a_plan_of_yesterday_is_not_overwritten(tmp_path: Path, option: str) -> None:
    old = tmp_path / "back.json"
    old.write_text("the only way back")
    result = CliRunner(env={"COLUMNS": "200"}).invoke(
        tidelog, ["cluster", "rebalance", option, str(old), "-b", "127.0.0.1:1"]
    )
    assert result.exit_code == 2
    assert "back.json is there already: name another file, or remove that one" in result.output
    assert old.read_text() == "the only way back"


def test_a_plan_and_its_way_back_are_two_files(tmp_path: Path) -> None:
    both = tmp_path / "plan.json"
    move = Move(where=TopicPartition("t", 0), before=(1,), after=(2,))
    with pytest.raises(click.UsageError, match="name the same file"):
        trio.run(
            partial(
                present,
                Admin("127.0.0.1:1"),
                layout([broker(1), broker(2)], [partition("t", 0, [1])]),
                Plan(moves=(move,)),
                execute=False,
                dry_run=False,
                limit=1,
                plan_file=both,
                back_file=both,
                as_json=False,
                nothing="",
            )
        )
    assert not both.exists()
