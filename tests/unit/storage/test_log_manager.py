"""The logs of a node: start, new logs, deletion, foreign directories, end."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.types import TopicPartition
from log_service.config.views import LogConfig
from log_service.storage.checkpoints import read_offsets
from log_service.storage.partition_metadata import read_topic_id
from tests.sim.files import MemoryFiles
from tests.unit.storage.context import NOW_MS, idempotent, validated
from tests.unit.storage.managed_logs import FIRST, ID_A, ID_B, SECOND, SIZE, A, B, Node, run


def started(*topics: TopicPartition, dirs: tuple[Path, ...] = (FIRST,), count: int = 1) -> Node:
    """Return a node that was started, with that many records in each log."""
    node = Node(dirs=dirs)
    run(node.manager.load)
    for topic_partition in topics:
        node.manager.create_log(
            topic_partition, ID_A if topic_partition == A else ID_B, node.config
        )
        node.append(topic_partition, count)
    return node


def stopped(*topics: TopicPartition, count: int = 1) -> MemoryFiles:
    node = started(*topics, count=count)
    run(node.manager.close)
    return node.files


def test_a_clean_stop_and_start_keeps_everything_and_scans_nothing() -> None:
    files = stopped(A, B, count=3)
    assert files.open_count == 0
    node = Node(files)
    run(node.manager.load)
    assert node.manager.had_clean_shutdown
    assert {key: log.log_end_offset for key, log in node.manager.logs.items()} == {A: 3, B: 3}
    assert files.open_count == 0
    assert node.manager.logs[A].topic_id == ID_A
    assert node.manager.logs[A].recovery_point == 3


def test_the_marker_is_taken_so_that_a_crash_after_a_clean_stop_is_noticed() -> None:
    files = stopped(A)
    run(Node(files).manager.load)
    files.crash(Random(1))
    node = Node(files)
    run(node.manager.load)
    assert not node.manager.had_clean_shutdown
    assert node.manager.logs[A].log_end_offset == 1


def test_the_broker_epoch_of_a_clean_stop_is_remembered() -> None:
    node = started(A)

    async def main() -> None:
        await node.manager.close(broker_epoch=41)

    run(main)
    again = Node(node.files)
    run(again.manager.load)
    assert again.manager.previous_broker_epoch == 41


def test_a_fresh_directory_counts_as_clean_and_is_formatted() -> None:
    node = started()
    assert node.manager.had_clean_shutdown
    content = node.files.read_bytes(FIRST / "meta.properties")
    assert b"cluster.id=c\nnode.id=1\ndirectory.id=" in content
    assert set(node.manager.directory_ids) == {FIRST}


def test_a_directory_in_use_is_refused_by_name() -> None:
    node = started()
    with pytest.raises(StorageError, match="/first is in use"):
        run(Node(node.files).manager.load)


@pytest.mark.parametrize("other", [{"node_id": 2}, {"cluster_id": "d"}])
def test_a_directory_of_another_node_or_cluster_is_refused(other: dict[str, Any]) -> None:
    files = stopped(A)
    with pytest.raises(StorageError, match="/first belongs to"):
        run(Node(files, **other).manager.load)


def test_a_directory_with_logs_that_names_no_node_is_not_taken() -> None:
    """A node that looks at its directories first does not see one whose disk fails then.

    The node made it its own a moment later.
    """
    files = stopped(A)
    files.remove(FIRST / "meta.properties")
    with pytest.raises(
        StorageError, match=r"/first holds logs such as a-0 but no meta\.properties"
    ):
        run(Node(files).manager.load)
    assert not files.exists(FIRST / "meta.properties")


@pytest.mark.parametrize("name", ["lost+found", "old logs"])
def test_a_fresh_disk_is_taken_whatever_else_lies_there(name: str) -> None:
    """Only root may look into ``lost+found``, which each new file system has.

    A directory with no name of a partition holds no partition's log.
    """

    class Guarded(MemoryFiles):
        def list_directory(self, path: Path) -> list[str]:
            if path.name == "lost+found":
                raise PermissionError(errno.EACCES, "permission denied", str(path))
            return super().list_directory(path)

    files = Guarded()
    files.make_directory(FIRST / name)
    files.write_atomically(FIRST / name / "dmesg.log", b"")
    run(Node(files).manager.load)
    assert files.exists(FIRST / "meta.properties")


def test_a_directory_that_cannot_be_made_is_refused_by_name() -> None:
    node = Node()
    node.files.fail_next("make_directory", error=errno.EACCES, containing="first")
    with pytest.raises(StorageError, match="/first cannot be used"):
        run(node.manager.load)


def test_a_start_that_fails_gives_its_locks_back() -> None:
    files = stopped(A)
    with pytest.raises(StorageError):
        run(Node(files, node_id=2).manager.load)
    run(Node(files).manager.load)


def test_a_directory_without_a_topic_id_gets_the_one_it_is_asked_for() -> None:
    files = stopped(A)
    files.remove(FIRST / "a-0" / "partition.metadata")
    node = Node(files)
    run(node.manager.load)
    assert node.manager.logs[A].topic_id is None
    assert node.manager.create_log(A, ID_A, node.config).topic_id == ID_A
    assert read_topic_id(files, FIRST / "a-0") == ID_A


def test_new_logs_go_where_the_fewest_are() -> None:
    node = started(A, B, dirs=(FIRST, SECOND))
    assert {log.home.path for log in node.manager.logs.values()} == {FIRST, SECOND}


def test_creating_twice_returns_the_same_log_with_the_new_configuration() -> None:
    node = started(A)
    changed = LogConfig(retention_ms=5)
    log = node.manager.create_log(A, ID_A, changed)
    assert log is node.manager.logs[A]
    assert log.config is changed


def test_a_log_of_another_topic_id_is_set_aside_and_left_alone() -> None:
    node = started(A)
    log = node.manager.create_log(A, ID_B, node.config)
    assert (log.log_end_offset, log.topic_id) == (0, ID_B)
    (stray,) = [name for name in node.files.list_directory(FIRST) if name.endswith("-stray")]
    run(node.manager.close)
    again = Node(node.files)
    run(again.manager.load)
    assert list(again.manager.logs) == [A]
    assert again.manager.logs[A].topic_id == ID_B
    assert node.files.exists(FIRST / stray / "00000000000000000000.log")


def test_logs_of_no_known_topic_are_set_aside() -> None:
    node = started(A, B)
    (path,) = node.manager.unserved.set_aside_strays(lambda log: log.topic_id == ID_A)
    assert path.name.startswith("b-1.")
    assert path.name.endswith("-stray")
    assert list(node.manager.logs) == [A]


def test_a_deleted_log_is_renamed_at_once_and_removed_later() -> None:
    node = started(A, count=3)
    assert node.manager.delete_log(A)
    assert not node.manager.delete_log(A)
    assert node.manager.get_log(A) is None
    (name,) = [name for name in node.files.list_directory(FIRST) if name.endswith("-delete")]
    assert name.startswith("a-0.")
    run(lambda: pruned(node, 59_999))
    assert node.files.exists(FIRST / name)
    run(lambda: pruned(node, 60_000))
    assert not node.files.exists(FIRST / name)


async def pruned(node: Node, after_ms: int) -> None:
    await node.manager.removals.run_due(NOW_MS + after_ms)


def test_what_was_deleted_before_a_stop_is_removed_at_the_start() -> None:
    node = started(A)
    node.manager.delete_log(A)
    run(node.manager.close)
    run(Node(node.files).manager.load)
    assert not any(name.endswith("-delete") for name in node.files.list_directory(FIRST))


def test_a_damaged_log_stays_offline_and_the_others_serve() -> None:
    files = stopped(A, B, count=3)
    files.remove(FIRST / ".kafka_cleanshutdown")
    files.open(FIRST / "a-0" / "00000000000000000002.log").write_at(SIZE // 2, b"\xff\xff")
    node = Node(files)
    run(node.manager.load)
    assert list(node.manager.logs) == [B]
    with pytest.raises(KafkaError, match="damaged below offset 3") as caught:
        node.manager.get_log(A)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="damaged below offset 3"):
        node.manager.create_log(A, ID_A, node.config)
    assert node.manager.delete_log(A)
    assert node.manager.create_log(A, ID_A, node.config).log_end_offset == 0


def test_the_metadata_log_and_unknown_directories_are_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = stopped(A)
    files.make_directory(FIRST / "__cluster_metadata-0")
    files.make_directory(FIRST / "photos")
    node = Node(files)
    run(node.manager.load)
    assert list(node.manager.logs) == [A]
    assert "photos" in caplog.text
    assert "__cluster_metadata" not in caplog.text


@pytest.mark.parametrize("seed", range(8))
def test_a_partition_made_again_in_another_directory_is_in_one_after_a_loss_of_power(
    seed: int,
) -> None:
    node = started(A, dirs=(FIRST, SECOND))

    async def main() -> None:
        await node.manager.logs[A].sync()
        node.manager.delete_log(A)
        node.manager.config = replace(node.manager.config, cordoned_log_dirs=(FIRST,))
        node.append(node.manager.create_log(A, ID_B, node.config).topic_partition)
        await node.manager.logs[A].sync()

    run(main)
    node.files.crash(Random(seed))
    again = Node(node.files, dirs=(FIRST, SECOND))
    run(again.manager.load)
    assert (again.manager.logs[A].home.path, again.manager.logs[A].topic_id) == (SECOND, ID_B)


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_a_full_disk_did_not_take_leaves_nothing_behind(seed: int) -> None:
    node = started(dirs=(FIRST, SECOND))
    node.files.fail_next("open", error=errno.ENOSPC, containing=f"{FIRST}/{A}")
    with pytest.raises(KafkaError, match="make room"):
        node.manager.create_log(A, ID_A, node.config)
    node.manager.config = replace(node.manager.config, cordoned_log_dirs=(FIRST,))
    node.append(node.manager.create_log(A, ID_A, node.config).topic_partition)

    async def sync() -> None:
        await node.manager.logs[A].sync()

    run(sync)
    node.files.crash(Random(seed))
    again = Node(node.files, dirs=(FIRST, SECOND))
    run(again.manager.load)
    assert again.manager.logs[A].home.path == SECOND


def test_a_damaged_checkpoint_costs_a_verification_and_not_the_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = stopped(A)
    files.remove(FIRST / "recovery-point-offset-checkpoint")
    files.open(FIRST / "recovery-point-offset-checkpoint").append_gathered([b"junk"])
    node = Node(files)
    run(node.manager.load)
    assert not node.manager.had_clean_shutdown
    assert node.manager.logs[A].log_end_offset == 1
    assert "recovery-point-offset-checkpoint" in caplog.text


def test_log_start_offsets_survive() -> None:
    node = started(A, count=2)
    node.manager.logs[A].advance_log_start_offset(1)
    run(node.manager.close)
    assert read_offsets(node.files, FIRST / "log-start-offset-checkpoint") == {A: 1}
    again = Node(node.files)
    run(again.manager.load)
    assert again.manager.logs[A].log_start_offset == 1


def test_high_watermarks_are_kept_per_directory_and_written_when_they_change() -> None:
    node = started(A, B, dirs=(FIRST, SECOND))

    async def main() -> None:
        await node.manager.save_high_watermarks({A: 1, B: 0})
        count = node.files.sync_count
        await node.manager.save_high_watermarks({A: 1, B: 0})
        assert node.files.sync_count == count

    run(main)
    run(node.manager.close)
    again = Node(node.files, dirs=(FIRST, SECOND))
    run(again.manager.load)
    assert {
        key: again.manager.checkpointed_high_watermark(log)
        for key, log in again.manager.logs.items()
    } == {A: 1, B: 0}


def test_retention_on_request_tells_what_went_and_touches_claimed_logs_only() -> None:
    files = stopped(A, B, count=5)
    node = Node(files)
    run(node.manager.load)
    node.clock.advance(10_000_000_000)
    node.manager.create_log(A, ID_A, LogConfig(segment_bytes=2 * SIZE, retention_ms=1_000))

    async def main() -> None:
        assert await node.manager.apply_retention(["b"]) == {}
        outcomes = await node.manager.apply_retention()
        assert outcomes == {A: (3, 5 * SIZE, 5)}

    run(main)
    assert node.manager.logs[B].log_start_offset == 0


def test_a_failed_directory_is_told_and_leaves_no_marker() -> None:
    node = started(A, B, dirs=(FIRST, SECOND))
    failed: list[Path] = []
    node.manager.watch_directories(lambda path, _error: failed.append(path))
    home = node.manager.logs[A].home.path
    node.files.fail_next("append", error=errno.EIO, containing="a-0")
    with pytest.raises(KafkaError):
        node.append(A)
    node.append(B)
    run(node.manager.close)
    assert failed == [home]
    assert not node.files.exists(home / ".kafka_cleanshutdown")
    assert node.files.exists(node.manager.logs[B].home.path / ".kafka_cleanshutdown")


def test_with_every_directory_offline_nothing_is_created() -> None:
    node = started(A)
    node.manager.directories[0].fail(OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError) as caught:
        node.manager.create_log(B, ID_B, node.config)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_appends_stop_before_the_disk_is_full_and_go_on_when_there_is_room() -> None:
    node = started(A)
    node.files.space = 63 << 20
    home = node.manager.directories[0]
    assert home.check_space()
    with pytest.raises(KafkaError, match="make room"):
        node.append(A)
    node.files.space = 65 << 20
    assert not home.check_space()
    node.append(A)


def test_a_batch_behind_one_that_a_full_disk_did_not_take_is_not_out_of_order() -> None:
    """Its producer sent both at once. It takes out of order for lost records, begins a new epoch,
    and sends again what other logs have.
    """
    node = started(A)
    log = node.manager.logs[A]
    log.append_as_leader(validated(idempotent(7, 0)), leader_epoch=0, now_ms=NOW_MS)
    node.files.space = 0
    for sequence in (1, 2):
        with pytest.raises(KafkaError) as caught:
            log.append_as_leader(validated(idempotent(7, sequence)), leader_epoch=0, now_ms=NOW_MS)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    node.files.space = 1 << 30
    log.home.check_space()
    log.append_as_leader(validated(idempotent(7, 1)), leader_epoch=0, now_ms=NOW_MS)
    log.append_as_leader(validated(idempotent(7, 2)), leader_epoch=0, now_ms=NOW_MS)


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_any_time_leaves_a_node_that_starts_with_all_that_was_synced(seed: int) -> None:
    rng = Random(seed)
    node = started(A, B)
    synced: dict[TopicPartition, int] = {}
    for _ in range(20):
        key = rng.choice([A, B])
        node.append(key, rng.randint(1, 3))
        if rng.random() < 0.3:
            synced[key] = trio.run(node.manager.logs[key].sync)
    if rng.random() < 0.5:
        node.manager.checkpoint_writer.write_recovery_points(node.manager.directories[0])
    node.files.crash(rng)
    again = Node(node.files)
    run(again.manager.load)
    assert again.manager.damaged == {}
    for key, offset in synced.items():
        assert again.manager.logs[key].log_end_offset >= offset


def made_again(save: Callable[[Node], None], *, is_restarted: bool = False) -> Node:
    """Return a node that was killed after a topic had been deleted and made again.

    Of the first one ``save`` wrote a checkpoint.
    """
    node = started(A, count=7)
    run_sync(node, A)
    save(node)
    if is_restarted:
        node.manager.release()
        node = Node(node.files)
        run(node.manager.load)
    node.manager.delete_log(A)
    node.manager.create_log(A, ID_B, node.config)
    node.append(A, 2)
    run_sync(node, A)
    node.manager.release()
    again = Node(node.files)
    run(again.manager.load)
    return again


def run_sync(node: Node, topic_partition: TopicPartition) -> None:
    async def main() -> None:
        await node.manager.logs[topic_partition].sync()

    run(main)


def save_recovery_points(node: Node) -> None:
    node.manager.checkpoint_writer.write_recovery_points(node.manager.directories[0])


def save_start(node: Node) -> None:
    node.manager.logs[A].advance_log_start_offset(5)
    node.manager.checkpoint_writer.write_start_offsets(node.manager.directories[0])


def save_high_watermark(node: Node) -> None:
    node.manager.checkpoint_writer.write_high_watermarks(node.manager.directories[0], {A: 7})


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("save", [save_recovery_points, save_start, save_high_watermark])
def test_a_topic_that_is_made_again_is_not_taken_for_the_one_before(
    save: Callable[[Node], None], is_restarted: bool
) -> None:
    """Recovery would find damage below the old recovery point.

    Or it would begin at the old start and throw everything away.
    """
    again = made_again(save, is_restarted=is_restarted)
    assert not again.manager.damaged
    log = again.manager.logs[A]
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)
    assert again.manager.checkpointed_high_watermark(log) == 0
