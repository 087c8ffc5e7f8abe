"""A run killed at any step, and rivals at the same time: each record ends up in exactly one place."""

import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from tests.platform import dying, killed_run
from tests.platform.accounts import accounts_of, append_round, corrected, held_accounts, same
from tests.platform.dying import KILLED, Running
from tests.platform.killed_run import LATEST_REPLAY_STEPS, LATEST_STEPS, REPLAY_STEPS, STEPS
from tests.platform.pipeline import order
from tests.platform.spark_server import warm_server
from tests.unit.orchestration.archived import archive
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
GONE_TIMEOUT_S = 45


def start(spark_remote: str, log: Path, limit: int, step: str, *lakes: Path) -> Running:
    return dying.start(
        killed_run.main, log.parent, spark_remote, str(log), str(limit), step, *map(str, lakes)
    )


def append_orders(log: MemoryLog, round_number: int) -> None:
    for number, partition in enumerate(log.topics["orders"].partitions):
        for position in range(12):
            name = f"{round_number}-{number}-{position}"
            partition.append(order(name, position - 2))
        partition.append(b"nonsense")
        partition.append(order(name))
        partition.skip(2)


def stored(log: MemoryLog, path: Path) -> Path:
    path.write_bytes(pickle.dumps(log))
    return path


def places(log: MemoryLog) -> Counter[tuple[str, int, int]]:
    topic = log.topics["orders"]
    return Counter(
        (topic.topic_id, number, offset)
        for number, one in enumerate(topic.partitions)
        for offset in one.records
    )


def found_places(lake_root: Path) -> Counter[tuple[str, int, int]]:
    lake = Lake(lake_root)
    columns = ["_topic_id", "_partition", "_offset"]
    target = lake.snapshot("clean_orders")
    tables = [DeadLetters(lake).committed().to_table(columns=columns)]
    tables += [target.dataset().to_table(columns=columns)] if target else []
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


def letter_places(lake_root: Path) -> set[tuple[int, int]]:
    found = DeadLetters(Lake(lake_root)).committed().to_table(columns=["_partition", "_offset"])
    return {tuple(row.values()) for row in found.to_pylist()}


def test_a_run_killed_at_any_step_neither_doubles_nor_loses_a_record(
    spark_remote: str, tmp_path: Path
) -> None:
    log = MemoryLog()
    log.add_topic("orders", 2)
    append_orders(log, 1)
    first = places(log)
    first_path = stored(log, tmp_path / "first")
    append_orders(log, 2)
    second_path = stored(log, tmp_path / "second")
    lakes = {step: tmp_path / step for step in STEPS}
    late = [lakes[step] for step in STEPS if "table-is-created" not in step]
    assert start(spark_remote, first_path, 1000, "none", *late).finish()[0] == 0

    for step, lake in lakes.items():
        code, output = start(spark_remote, second_path, 1000, step, lake).finish()
        assert code == KILLED, output
        expected = places(log) if step == "after-target" else first if lake in late else Counter()
        assert found_places(lake) == expected, f"killed {step}"

    code, output = start(spark_remote, second_path, 25, "none", *lakes.values()).finish()
    assert code == 0, output
    code, output = start(spark_remote, second_path, 1000, "none", *lakes.values()).finish()
    assert code == 0, output
    for step, lake in lakes.items():
        assert found_places(lake) == places(log), f"recovered from {step}"
        assert DeadLetters(Lake(lake)).pending().count_rows() == 0


def test_a_replay_killed_at_any_step_keeps_each_record_in_one_place(
    spark_remote: str, tmp_path: Path
) -> None:
    """Most of what is replayed is in the archive alone; without an archive the same replay gives
    the same.
    """
    log = MemoryLog()
    log.add_topic("orders", 2)
    append_orders(log, 1)
    path, all_places = stored(log, tmp_path / "log"), places(log)
    lakes = {step: tmp_path / step for step in REPLAY_STEPS}
    alone = tmp_path / "alone"
    assert start(spark_remote, path, 1000, "none", alone, *lakes.values()).finish()[0] == 0
    assert start(spark_remote, path, 9, "replay", alone).finish()[0] == 0
    wanted = letter_places(alone)
    assert wanted != letter_places(lakes["replay-before-target"])
    for lake in lakes.values():
        archive(log, Lake(lake))
    log.delete_records("orders", {0: 10, 1: 13})
    path = stored(log, tmp_path / "short-log")

    for step, lake in lakes.items():
        code, output = start(spark_remote, path, 9, step, lake).finish()
        assert code == KILLED, output
        assert found_places(lake) == all_places, f"killed {step}"

    assert start(spark_remote, path, 9, "replay", *lakes.values()).finish()[0] == 0
    for step, lake in lakes.items():
        assert found_places(lake) == all_places, f"recovered from {step}"
        assert letter_places(lake) == wanted, f"recovered from {step}"
        assert DeadLetters(Lake(lake)).pending().count_rows() == 0


def test_the_newest_rows_are_right_after_a_kill_at_any_step(
    spark_remote: str, tmp_path: Path
) -> None:
    log = MemoryLog()
    log.add_topic("accounts", 2)
    append_round(log, 1)
    first, first_path = accounts_of(log), stored(log, tmp_path / "first")
    append_round(log, 2)
    second_path = stored(log, tmp_path / "second")
    lakes = {step: tmp_path / step for step in LATEST_STEPS}
    late = [lakes[step] for step in LATEST_STEPS if "table-is-created" not in step]
    assert start(spark_remote, first_path, 1000, "latest-none", *late).finish()[0] == 0

    for step, lake in lakes.items():
        code, output = start(spark_remote, second_path, 1000, step, lake).finish()
        assert code == KILLED, output
        is_committed = step in {"latest-after-commit", "latest-after-target"}
        assert held_accounts(lake) == (
            accounts_of(log) if is_committed else first if lake in late else {}
        ), f"killed {step}"

    assert (
        start(spark_remote, second_path, 9, "latest-none", *list(lakes.values())[::2]).finish()[0]
        == 0
    )
    code, output = start(spark_remote, second_path, 1000, "latest-none", *lakes.values()).finish()
    assert code == 0, output
    wanted = letter_places(lakes["latest-after-target"])
    for step, lake in lakes.items():
        assert held_accounts(lake) == accounts_of(log), f"recovered from {step}"
        assert letter_places(lake) == wanted, f"recovered from {step}"
        assert DeadLetters(Lake(lake)).pending().count_rows() == 0


def test_a_replay_of_newest_rows_that_is_killed_has_happened_whole_or_not_at_all(
    spark_remote: str, tmp_path: Path
) -> None:
    log = MemoryLog()
    log.add_topic("accounts", 2)
    append_round(log, 1)
    append_round(log, 2)
    path = stored(log, tmp_path / "log")
    lakes = {step: tmp_path / step for step in LATEST_REPLAY_STEPS}
    assert start(spark_remote, path, 1000, "latest-none", *lakes.values()).finish()[0] == 0
    assert accounts_of(log) != accounts_of(log, corrected)

    for step, lake in lakes.items():
        code, output = start(spark_remote, path, 1000, step, lake).finish()
        assert code == KILLED, output
        is_committed = step in {"latest-replay-after-target", "latest-replay-after-settling"}
        assert held_accounts(lake) == accounts_of(log, corrected if is_committed else same), (
            f"killed {step}"
        )

    code, output = start(spark_remote, path, 1000, "latest-replay", *lakes.values()).finish()
    assert code == 0, output
    for step, lake in lakes.items():
        assert held_accounts(lake) == accounts_of(log, corrected), f"recovered from {step}"
        assert letter_places(lake) == letter_places(lakes["latest-replay-after-target"]), (
            f"recovered from {step}"
        )
        assert DeadLetters(Lake(lake)).pending().count_rows() == 0


def test_rivals_leave_the_newest_rows(spark_remote: str, tmp_path: Path) -> None:
    log = MemoryLog()
    log.add_topic("accounts", 2)
    append_round(log, 1)
    append_round(log, 2)
    path = stored(log, tmp_path / "log")
    lake = tmp_path / "lake"
    rivals = [
        start(spark_remote, path, limit, "latest-none", lake, lake, lake) for limit in (1000, 9)
    ]
    outcomes = [one.finish() for one in rivals]
    assert [code for code, _ in outcomes] == [0, 0], outcomes
    assert held_accounts(lake) == accounts_of(log)


def test_rivals_commit_each_record_once(spark_remote: str, tmp_path: Path) -> None:
    log = MemoryLog()
    log.add_topic("orders", 2)
    append_orders(log, 1)
    path = stored(log, tmp_path / "log")
    lake = tmp_path / "lake"
    rivals = [start(spark_remote, path, limit, "none", lake, lake) for limit in (1000, 17)]
    outcomes = [one.finish() for one in rivals]
    assert [code for code, _ in outcomes] == [0, 0], outcomes
    assert found_places(lake) == places(log)


def test_a_run_does_not_wait_long_for_a_warm_server_that_died(tmp_path: Path) -> None:
    script = """
import sys
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": sys.argv[1]}))
print(session.range(3).count(), flush=True)
sys.stdin.readline()
"""
    with warm_server(tmp_path) as (url, server):
        command = [sys.executable, "-c", script, url]
        run = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert run.stdout is not None
        assert run.stdout.readline() == "3\n"
        server.kill()
        server.wait(30)
        run.communicate("go on\n", timeout=GONE_TIMEOUT_S)
        assert run.returncode == 0
