"""A log moves to another directory of its node, through crashes and broken disks (KIP-113)."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.storage import future_logs
from log_service.storage.log import Log
from tests.sim.disk import Crashed, Disk
from tests.sim.files import MemoryFiles
from tests.sim.node_boundaries import Least
from tests.unit.storage.context import NOW_MS, SettableClock, batch, idempotent, validated
from tests.unit.storage.crashing_files import CrashingFiles
from tests.unit.storage.managed_logs import FIRST, ID_A, ID_B, SECOND, A, Node, run
from tests.unit.storage.moving_logs import BOTH, filled, moved, second, write


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
        if operation == "open" and "-future" in str(path):
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
    manager = filled().manager
    for path in ("/third", "second", "", "/second/"):
        with pytest.raises(KafkaError) as caught:
            manager.placement.find_directory(path)
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
    assert copies(again.files, SECOND) == [foreign], "it may be a copy of Apache Kafka"
    assert {key: directory.path for key, directory in again.manager.futures.unfinished.items()} == {
        A: SECOND
    }
    assert again.manager.logs[A].home.path == FIRST


def test_two_directories_that_no_move_explains_are_refused() -> None:
    node = filled()
    run(node.manager.close)
    written = next(
        name for name in node.files.list_directory(FIRST / "a-0") if name.endswith(".log")
    )
    node.files.make_directory(SECOND / "a-0")
    node.files.write_atomically(
        SECOND / "a-0" / written, node.files.read_bytes(FIRST / "a-0" / written) or b""
    )
    again = Node(node.files, dirs=BOTH)
    run(again.manager.load)
    with pytest.raises(
        StorageError,
        match="the metadata does not say which of them counts: move all but one of them away",
    ):
        again.manager.unserved.settle_rivals(lambda _log: True, lambda _log: None)
    again.manager.release()
    assert node.files.open_count == 0
    assert all("a-0" in node.files.list_directory(path) for path in BOTH)


@pytest.mark.parametrize("named", BOTH)
def test_of_two_directories_of_one_topic_that_counts_which_the_metadata_names(
    named: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each start was refused once the failed directory was back.

    It had failed before the replica left this node and came to another directory.
    """
    other = FIRST if named == SECOND else SECOND
    files = MemoryFiles()
    for path, count in ((other, 5), (named, 2)):
        node = Node(files, dirs=(path,))
        run(node.manager.load)
        node.manager.create_log(A, ID_A, node.config)
        node.append(A, count)
        node.manager.checkpoint_writer.write_high_watermarks(
            node.manager.directories[0], {A: count - 1}
        )
        run(node.manager.close)
    again = Node(files, dirs=BOTH)
    run(again.manager.load)
    again.manager.unserved.settle_rivals(
        lambda _log: True, lambda _log: again.manager.directory_ids[named]
    )
    log = again.manager.create_log(A, ID_A, again.config)
    assert (log.home.path, log.log_end_offset, again.manager.checkpointed_high_watermark(log)) == (
        named,
        2,
        1,
    )
    (stray,) = [name for name in files.list_directory(other) if name.startswith("a-0")]
    assert stray.endswith("-stray")
    assert (
        f"the log in {other}/a-0 was moved to {other}/{stray}: another one, in {named}/a-0, counts by the metadata"
        in caplog.text
    )
    run(again.manager.close)
    assert files.open_count == 0


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("filled_in", BOTH)
def test_a_blank_directory_beside_a_log_gives_way_to_it_unless_its_topic_is_gone(
    filled_in: Path, *, is_known: bool
) -> None:
    blank = FIRST if filled_in == SECOND else SECOND
    node = Node(dirs=(filled_in,))
    run(node.manager.load)
    node.manager.create_log(A, ID_A, node.config)
    node.append(A, 3)
    run(node.manager.close)
    node.files.make_directory(blank / "a-0")
    again = Node(node.files, dirs=BOTH)
    run(again.manager.load)
    again.manager.unserved.settle_rivals(
        lambda log: is_known or log.topic_id is None,
        lambda _log: again.manager.directory_ids[blank],
    )
    log = again.manager.create_log(A, ID_A if is_known else ID_B, again.config)
    assert (log.home.path, log.log_end_offset) == ((filled_in, 3) if is_known else (blank, 0))
    run(again.manager.close)


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
        assert log.log_end_offset == (8 if is_done else max(log.log_end_offset, 7)), (
            countdown,
            log,
        )
        places = [path for path in BOTH if "a-0" in again.files.list_directory(path)]
        assert places == [log.home.path], countdown
        assert not [name for path in BOTH for name in copies(again.files, path)], countdown
        again.manager.release()
        if is_done:
            break
    assert crash_count > 25


# What the simulation found


def killed_and_started(node: Node) -> Node:
    node.manager.release()
    again = Node(node.files, dirs=BOTH)
    run(again.manager.load)
    return again


def without_power(node: Node) -> Node:
    node.files.crash(Least(0))
    again = Node(node.files, dirs=BOTH)
    run(again.manager.load)
    return again


def drop_segments(log: Log, *, first: bool = False, last: bool = False) -> None:
    """Take records away at the ends of a log, as compaction does; the active segment is empty."""
    log.roll()
    segments = list(log.segments)
    log.segments.replace(segments[1 if first else 0 : -2 if last else -1] + segments[-1:])


def test_a_log_that_starts_inside_a_batch_moves() -> None:
    """The copy began below the log's start, and was taken for one that retention had overtaken.

    It was begun again for ever.
    """
    node = filled(count=0)
    log = node.manager.logs[A]
    log.append_as_leader(validated(batch(3)), leader_epoch=0, now_ms=NOW_MS)
    log.advance_log_start_offset(2)
    replaced: list[Log] = []

    async def main() -> None:
        with trio.fail_after(20):
            await node.manager.futures.move(log, second(node), replaced.append)

    run(main)
    assert [(each.log_start_offset, each.log_end_offset) for each in replaced] == [(2, 3)]


@pytest.mark.parametrize("quiet_bytes", [0, 4 << 20])
def test_no_offset_is_handed_out_again_where_compaction_took_the_last_records(
    quiet_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(future_logs, "QUIET_BYTES", quiet_bytes)
    node = filled(count=6)
    drop_segments(node.manager.logs[A], last=True)
    replaced: list[Log] = []

    async def main() -> None:
        with trio.fail_after(20):
            await node.manager.futures.move(node.manager.logs[A], second(node), replaced.append)

    run(main)
    [log] = replaced
    assert log.log_end_offset == 6
    write(log, 6)
    assert without_power_after_sync(node).log_end_offset == 7


def without_power_after_sync(node: Node) -> Log:
    async def main() -> None:
        await node.manager.logs[A].sync()

    run(main)
    return without_power(node).manager.logs[A]


def test_a_log_whose_first_records_compaction_took_starts_where_it_started() -> None:
    node = filled(count=6)
    drop_segments(node.manager.logs[A], first=True)
    [log] = moved(node)
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)


def test_a_move_is_durable_with_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that the last step began were not."""
    monkeypatch.setattr(future_logs, "CHUNK_BYTES", 200)
    monkeypatch.setattr(future_logs, "QUIET_BYTES", 500)
    node = filled(count=20)
    before = content(node.manager.logs[A])
    moved(node)
    log = without_power(node).manager.logs[A]
    assert (log.home.path, log.log_end_offset) == (SECOND, 20)
    assert content(log) == before


def test_a_start_that_was_moved_durably_does_not_go_back_with_a_move() -> None:
    node = filled()
    node.manager.logs[A].advance_log_start_offset(3)
    node.manager.checkpoint_writer.write_start_offsets(node.manager.directories[0])
    moved(node)
    log = killed_and_started(node).manager.logs[A]
    assert (log.home.path, log.log_start_offset) == (SECOND, 3)


@pytest.mark.parametrize("is_rename_failing", [False, True])
def test_a_last_step_that_fails_does_not_bring_the_copy_back_at_the_next_start(
    is_rename_failing: bool,
) -> None:
    """Later acknowledged records were thrown away with the old directory."""
    node = filled()

    def refuse(operation: str, path: Path) -> None:
        if (operation == "read" and path.parent == SECOND / "a-0") or (
            is_rename_failing and operation == "rename" and path == SECOND / "a-0"
        ):
            raise OSError(errno.EMFILE, "no descriptor is left")

    node.files.on_operation = refuse
    with pytest.raises(KafkaError):
        moved(node)
    node.files.on_operation = lambda _operation, _path: None
    assert ("a-0" in node.files.list_directory(SECOND)) == is_rename_failing
    assert node.manager.logs[A].home.path == FIRST
    write(node.manager.logs[A], 7)
    log = killed_and_started(node).manager.logs[A]
    assert (log.home.path, log.log_end_offset) == (FIRST, 8)
    assert "a-0" not in node.files.list_directory(SECOND)


def test_a_loss_of_power_that_brings_the_mark_of_an_earlier_move_back_does_not_stop_a_start() -> (
    None
):
    """Two directories that both said to be the copy were refused."""
    node = filled()
    [log] = moved(node)
    node.files.write_atomically(log.directory / future_logs.MOVED_HERE, b"")
    node.files.fail_next("rename", containing="/second/a-0")
    assert moved_to(node, FIRST)
    assert "a-0" in node.files.list_directory(SECOND)
    assert killed_and_started(node).manager.logs[A].home.path == FIRST


def is_marked(node: Node) -> bool:
    return node.files.exists(SECOND / "a-0" / future_logs.MOVED_HERE)


def test_the_mark_of_a_move_does_not_come_back_with_a_loss_of_power() -> None:
    node = filled()
    moved(node)
    node.files.crash(Least(0))
    assert node.files.exists(SECOND / "a-0")
    assert not is_marked(node)


def test_a_mark_goes_for_good_at_the_first_start_that_sees_all_directories_and_no_other_log() -> (
    None
):
    """The mark outlived its move.

    It counted before the metadata once the partition had a log in another directory.
    """
    node = filled()
    node.files.fail_next("rename", containing="/first/a-0")
    moved(node)
    node.files.remove_tree(FIRST / "a-0")  # by hand, say
    node.manager.release()
    node.files.disk.failed = FIRST
    node = Node(node.files, dirs=BOTH)
    run(node.manager.load)
    assert is_marked(node), "the old log may be where nothing can be read"
    node.manager.release()
    node.files.disk.failed = None
    node = Node(node.files, dirs=BOTH)
    run(node.manager.load)
    assert not is_marked(node)
    node.files.crash(Least(0))
    assert not is_marked(node)


def test_a_directory_in_which_the_old_log_stayed_is_not_believed_after_a_clean_stop() -> None:
    """The end of the old log was never synced.

    After a loss of power it was damaged, counted by the metadata, and the copy was a stray.
    """
    node = filled()
    node.files.fail_next("rename", error=errno.EMFILE, containing="/first/a-0")
    moved(node)
    run(node.manager.close)
    assert [node.files.exists(path / ".kafka_cleanshutdown") for path in BOTH] == [False, True]
    log = without_power(node).manager.logs[A]
    assert (log.home.path, log.log_end_offset) == (SECOND, 7)


@pytest.mark.parametrize("is_later", [False, True])
def test_a_copy_does_not_stay_beside_a_log_of_a_later_leader_epoch(*, is_later: bool) -> None:
    """It replaced a log that had begun anew, was shorter, and was the one that the metadata named."""
    node = filled()
    node.files.fail_next("rename", containing="/first/a-0")
    moved(node)
    node.manager.release()
    node.files.remove_tree(FIRST / "a-0")
    alone = Node(node.files, dirs=(FIRST,))
    run(alone.manager.load)
    log = alone.manager.create_log(A, ID_A, alone.config)
    log.append_as_leader(validated(batch(1)), leader_epoch=int(is_later), now_ms=NOW_MS)
    run(alone.manager.close)
    again = Node(node.files, dirs=BOTH)
    run(again.manager.load)
    log = again.manager.logs[A]
    assert (log.home.path, log.log_end_offset) == ((FIRST, 1) if is_later else (SECOND, 7))
    assert not is_marked(again)
    again.manager.release()


@pytest.mark.parametrize("of_old_topic", [FIRST, SECOND])
def test_a_topic_that_was_made_again_while_its_directory_was_offline_does_not_stop_a_start(
    of_old_topic: Path,
) -> None:
    """The directory is back with the disk, and with the log of the deleted topic.

    That log may have more records.
    """
    of_new_topic = FIRST if of_old_topic == SECOND else SECOND
    files = MemoryFiles()
    for path, topic_id, count in ((of_old_topic, ID_A, 5), (of_new_topic, ID_B, 2)):
        node = Node(files, dirs=(path,))
        run(node.manager.load)
        node.manager.create_log(A, topic_id, node.config)
        node.append(A, count)
        run(node.manager.close)
    again = Node(files, dirs=BOTH)
    run(again.manager.load)
    again.manager.unserved.settle_rivals(
        lambda log: log.topic_id == ID_B, lambda _log: again.manager.directory_ids[of_old_topic]
    )
    log = again.manager.create_log(A, ID_B, again.config)
    assert (log.home.path, log.log_end_offset) == (of_new_topic, 2)
    assert next(
        name for name in files.list_directory(of_old_topic) if name.startswith("a-0")
    ).endswith("-stray")
    run(again.manager.close)
    assert files.open_count == 0


def test_a_copy_of_a_topic_that_is_gone_is_thrown_away() -> None:
    node = filled()
    node.manager.delete_log(A)
    name = f"a-0.{'0a' * 16}-future"
    node.files.make_directory(SECOND / name)
    node.files.write_atomically(SECOND / name / future_logs.MOVED_HERE, b"")
    again = killed_and_started(node)
    assert not copies(again.files, SECOND)
    assert again.manager.futures.unfinished == {}


def test_a_producer_whose_batches_retention_took_is_remembered() -> None:
    """Its last batch, sent again, was appended once more."""
    node = filled()
    log = node.manager.logs[A]
    log.advance_log_start_offset(7)
    log.apply_retention(NOW_MS, 7)
    [log] = moved(node)
    repeated = log.append_as_leader(
        validated(idempotent(7, 6, value=b"6")), leader_epoch=0, now_ms=NOW_MS
    )
    assert (repeated.is_duplicate, repeated.base_offset, log.log_end_offset) == (True, 6, 7)


def test_a_topic_that_is_made_again_is_not_taken_for_one_that_lived_where_it_moves() -> None:
    node = filled()
    trio.run(node.manager.logs[A].sync)
    node.manager.checkpoint_writer.write_recovery_points(node.manager.directories[0])
    moved(node)
    node.manager.logs[A].truncate_to(2)
    [log] = moved_to(node, FIRST)
    assert killed_and_started(node).manager.logs[A].log_end_offset == log.log_end_offset == 2


def moved_to(node: Node, path: Path) -> list[Log]:
    replaced: list[Log] = []

    async def main() -> None:
        await node.manager.futures.move(
            node.manager.logs[A], node.manager.placement.find_directory(str(path)), replaced.append
        )

    run(main)
    return replaced
