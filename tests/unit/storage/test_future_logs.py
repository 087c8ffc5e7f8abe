"""A log that moves to another directory of its node, and what a crash or a broken disk leaves of the move (KIP-113)."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.storage import future_logs
from log_service.storage.log import Log
from log_service.storage.log_directory import LogDirectory
from tests.sim.disk import Crashed, Disk
from tests.sim.files import MemoryFiles
from tests.unit.storage.context import NOW_MS, SettableClock, idempotent, validated
from tests.unit.storage.test_crash_points import CrashingFiles
from tests.unit.storage.test_log_manager import FIRST, ID_A, SECOND, A, Node, run

BOTH = (FIRST, SECOND)


def filled(files: MemoryFiles | None = None, count: int = 7) -> Node:
    """A node with two directories and one log, in the first."""
    node = Node(files, dirs=BOTH)
    run(node.manager.load)
    node.manager.create_log(A, ID_A, node.config)
    for sequence in range(count):
        write(node.manager.logs[A], sequence)
    return node


def write(log: Log, sequence: int) -> None:
    log.append_as_leader(validated(idempotent(7, sequence, value=b"%d" % sequence)), leader_epoch=0, now_ms=NOW_MS)


def second(node: Node) -> LogDirectory:
    return node.manager.futures.find_target(str(SECOND))


def moved(node: Node) -> list[Log]:
    """Move the log to the second directory; the logs that were put in its place."""
    replaced: list[Log] = []
    log = node.manager.logs[A]

    async def main() -> None:
        await node.manager.futures.move(log, second(node), replaced.append)

    run(main)
    return replaced


def content(log: Log) -> bytes:
    return b"".join(log.read_batches(log.log_start_offset))


def copies(files: MemoryFiles, directory: Path) -> list[str]:
    return [name for name in files.list_directory(directory) if name.endswith("-future")]


def test_everything_moves_and_the_old_directory_goes() -> None:
    node = filled()
    before = content(node.manager.logs[A])
    [log] = moved(node)
    assert node.manager.logs[A] is log
    assert log.home.path == SECOND
    assert content(log) == before
    assert log.recovery_point == log.log_end_offset == 7
    assert log.topic_id == ID_A
    assert "a-0" not in node.files.list_directory(FIRST)
    assert node.files.exists(SECOND / "a-0")
    assert not node.files.exists(SECOND / "a-0" / future_logs.MOVED_HERE)
    write(log, 7)
    assert log.log_end_offset == 8, "its producer is remembered"
    assert not copies(node.files, SECOND)


def test_a_moved_log_starts_where_it_started() -> None:
    node = filled()
    node.manager.logs[A].advance_log_start_offset(3)
    [log] = moved(node)
    assert (log.log_start_offset, log.log_end_offset) == (3, 7)


def test_an_empty_log_moves_too() -> None:
    [log] = moved(filled(count=0))
    assert (log.home.path, log.log_end_offset) == (SECOND, 0)
    write(log, 0)


def test_what_is_appended_during_the_move_arrives() -> None:
    node = filled()
    log = node.manager.logs[A]
    replaced: list[Log] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.manager.futures.move, log, second(node), replaced.append)
            for sequence in range(7, 30):
                write(node.manager.logs[A], sequence)
                await trio.lowlevel.checkpoint()

    run(main)
    assert len(replaced) == 1
    assert node.manager.logs[A].home.path == SECOND
    assert node.manager.logs[A].log_end_offset == 30


def test_a_large_log_is_copied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_logs, "CHUNK_BYTES", 200)
    monkeypatch.setattr(future_logs, "QUIET_BYTES", 100)
    node = filled(count=40)
    before = content(node.manager.logs[A])
    [log] = moved(node)
    assert content(log) == before


def when_the_copy_begins(node: Node, act: Callable[[], object]) -> None:
    """Act once, as soon as something is written below the second directory."""

    def look(operation: str, path: Path) -> None:
        if operation == "rename" and "-future" in str(path):
            node.files.on_operation = lambda _operation, _path: None
            act()

    node.files.on_operation = look


def test_the_copy_of_a_log_that_is_deleted_goes() -> None:
    node = filled()
    when_the_copy_begins(node, lambda: node.manager.delete_log(A))
    assert not moved(node)
    assert not node.manager.futures.logs
    assert A not in node.manager.logs
    trio.run(node.manager.removals.run_due, NOW_MS)
    assert not copies(node.files, SECOND)


def test_a_move_that_is_cancelled_leaves_the_log_where_it_is() -> None:
    node = filled()
    log, replaced = node.manager.logs[A], list[Log]()

    async def main() -> None:
        with trio.CancelScope() as scope:
            when_the_copy_begins(node, scope.cancel)
            await node.manager.futures.move(log, second(node), replaced.append)

    run(main)
    trio.run(node.manager.removals.run_due, NOW_MS)
    assert not replaced
    assert not copies(node.files, SECOND)
    write(log, 7)


@pytest.mark.parametrize("operation", ["append", "sync", "open"])
def test_a_disk_that_fails_under_the_copy_leaves_the_log_where_it_is(operation: str) -> None:
    node = filled()
    node.files.fail_next(operation, containing=str(SECOND), count=50)
    with pytest.raises(KafkaError) as caught:
        moved(node)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.manager.logs[A].home.path == FIRST
    write(node.manager.logs[A], 7)


def test_an_old_directory_that_cannot_be_renamed_is_settled_at_the_next_start() -> None:
    node = filled()
    node.files.fail_next("rename", containing="/first/a-0")
    [log] = moved(node)
    write(log, 7)
    assert (log.home.path, node.manager.logs[A]) == (SECOND, log)
    trio.run(log.sync)
    node.manager.release()
    again = Node(node.files, dirs=BOTH)
    run(again.manager.load)
    assert again.manager.logs[A].home.path == SECOND
    assert again.manager.logs[A].log_end_offset == 8
    assert "a-0" not in node.files.list_directory(FIRST)


def test_only_directories_of_the_configuration_are_targets() -> None:
    futures = filled().manager.futures
    for path in ("/third", "second", "", "/second/"):
        with pytest.raises(KafkaError) as caught:
            futures.find_target(path)
        assert caught.value.code == ErrorCode.LOG_DIR_NOT_FOUND


def test_a_start_throws_an_unfinished_copy_away_and_knows_what_it_was_for() -> None:
    node = filled()
    run(node.manager.close)
    ours, foreign = f"a-0.{'0a' * 16}-future", f"a-0.{'0b' * 16}-future"
    for name in (ours, foreign):
        node.files.make_directory(SECOND / name)
    node.files.write_atomically(SECOND / ours / future_logs.MOVED_HERE, b"")
    again = Node(node.files, dirs=BOTH)
    run(again.manager.load)
    assert copies(again.files, SECOND) == [foreign], "whose that is nobody knows"
    assert {key: directory.path for key, directory in again.manager.futures.unfinished.items()} == {A: SECOND}
    assert again.manager.logs[A].home.path == FIRST


def test_two_directories_that_no_move_explains_are_refused() -> None:
    node = filled()
    run(node.manager.close)
    node.files.make_directory(SECOND / "a-0")
    with pytest.raises(StorageError, match="move one of them away"):
        run(Node(node.files, dirs=BOTH).manager.load)


def move_and_write(node: Node) -> None:
    moved(node)
    write(node.manager.logs[A], 7)
    trio.run(node.manager.logs[A].sync)


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_before_any_operation_of_a_move_keeps_all_that_was_durable(seed: int) -> None:
    crash_count = 0
    for countdown in range(1, 1_000):
        disk, rng, clock = Disk(), Random(f"{seed} {countdown}"), SettableClock()
        files = CrashingFiles(disk, rng=rng, clock=clock)
        node = filled(files)
        trio.run(node.manager.logs[A].sync)
        files.countdown = countdown
        is_done = False
        try:
            move_and_write(node)
        except Crashed:
            crash_count += 1
        else:
            is_done = True
        files.countdown = -1
        if is_done:
            disk.crash(rng)
        again = Node(MemoryFiles(disk, rng=rng, clock=clock), dirs=BOTH)
        run(again.manager.load)
        log = again.manager.logs[A]
        assert log.log_end_offset == (8 if is_done else max(log.log_end_offset, 7)), (countdown, log)
        places = [path for path in BOTH if "a-0" in again.files.list_directory(path)]
        assert places == [log.home.path], countdown
        again.manager.release()
        if is_done:
            break
    assert crash_count > 25
