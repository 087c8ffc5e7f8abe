"""Closing many logs at once takes one sync of the file system instead of one of each file.

The promise is not weaker for it.
"""

import errno
import os
import sys
from pathlib import Path
from random import Random

import pytest

from log_service.common.types import TopicId, TopicPartition
from log_service.storage import file_system_sync
from log_service.storage.closing import LEAST_TOGETHER
from log_service.storage.files import RealFiles
from tests.sim.files import MemoryDirectoryLock, MemoryFiles
from tests.unit.storage.managed_logs import FIRST, ID_A, SECOND, Node, run

COUNT = LEAST_TOGETHER + 6
MARKER = ".kafka_cleanshutdown"


def partitions(count: int = COUNT) -> list[TopicPartition]:
    return [TopicPartition("many", index) for index in range(count)]


def with_many_logs(
    count: int = COUNT, *, dirs: tuple[Path, ...] = (FIRST,), topic_id: TopicId = ID_A
) -> Node:
    node = Node(dirs=dirs)
    run(node.manager.load)
    for topic_partition in partitions(count):
        node.manager.create_log(topic_partition, topic_id, node.config)
        node.append(topic_partition, 1 + topic_partition.partition % 5)  # some rolled
    return node


def again(files: MemoryFiles, *, dirs: tuple[Path, ...] = (FIRST,)) -> Node:
    node = Node(files, dirs=dirs)
    run(node.manager.load)
    return node


@pytest.mark.parametrize("seed", range(5))
def test_what_was_closed_together_survives_a_loss_of_power(seed: int) -> None:
    node = with_many_logs()
    syncs = node.files.sync_count
    run(node.manager.close)
    assert node.files.sync_count - syncs < COUNT
    assert node.files.open_count == 0
    node.files.crash(Random(seed))
    found = again(node.files)
    assert found.manager.had_clean_shutdown
    assert {key: log.log_end_offset for key, log in found.manager.logs.items()} == {
        key: 1 + key.partition % 5 for key in partitions()
    }
    assert all(log.leader_epochs.entries == [(0, 0)] for log in found.manager.logs.values())
    assert all(log.recovery_point == log.log_end_offset for log in found.manager.logs.values())


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_of_power_before_the_one_sync_leaves_no_marker(seed: int) -> None:
    node = with_many_logs()

    def lose_power(operation: str, _path: Path) -> None:
        if operation == "sync_file_system":
            node.files.on_operation = lambda _operation, _path: None
            node.files.disk.crash(Random(seed))

    node.files.on_operation = lose_power
    with pytest.raises(BaseException):  # noqa: B017, PT011 - the process is gone
        run(node.manager.close)
    node.files.crash(Random(seed))
    found = again(node.files)
    assert not found.manager.had_clean_shutdown
    assert all(
        log.log_end_offset <= 1 + key.partition % 5 for key, log in found.manager.logs.items()
    )


def test_a_sync_that_fails_counts_against_all_and_leaves_no_marker() -> None:
    node = with_many_logs()
    node.files.fail_next("sync_file_system", error=errno.EIO)
    run(node.manager.close)
    assert not node.files.exists(FIRST / MARKER)
    assert all(node.files.exists(FIRST / str(key) / "sync-failed") for key in partitions())
    assert node.files.open_count == 0


def test_one_log_that_cannot_be_written_costs_its_directory_the_marker() -> None:
    node = with_many_logs()
    node.files.fail_next("open", error=errno.EIO, containing=f"{partitions()[3]}/")
    run(node.manager.close)
    assert not node.files.exists(FIRST / MARKER)


def test_each_directory_is_closed_by_itself() -> None:
    node = with_many_logs(2 * COUNT, dirs=(FIRST, SECOND))
    node.files.fail_next("sync_file_system", error=errno.EIO, containing=str(SECOND))
    run(node.manager.close)
    assert node.files.exists(FIRST / MARKER)
    assert not node.files.exists(SECOND / MARKER)


@pytest.mark.parametrize("count", [LEAST_TOGETHER - 1, COUNT])
def test_few_logs_and_other_file_systems_are_synced_file_by_file(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = with_many_logs(count)
    monkeypatch.setattr(MemoryDirectoryLock, "can_sync_file_system", count < COUNT)
    operations: list[str] = []
    node.files.on_operation = lambda operation, _path: operations.append(operation)
    run(node.manager.close)
    assert "sync_file_system" not in operations
    node.files.on_operation = lambda _operation, _path: None
    node.files.crash(Random(1))
    assert again(node.files).manager.had_clean_shutdown


# Where the promise holds


@pytest.mark.parametrize(
    ("release", "kind", "can"),
    [
        ("6.1.0", "ext4", True),
        ("5.8.0-generic", "xfs", True),
        ("5.7.19", "ext4", False),
        ("6.1.0", "nfs4", False),
        ("6.1.0", "fuse.sshfs", False),
        ("6.1.0", "overlay", False),
    ],
)
def test_only_known_local_file_systems_of_kernels_that_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, kind: str, *, can: bool
) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"29 1 {os.major(device)}:{os.minor(device)} / / rw,relatime shared:1 - {kind} /dev/x rw\n"
    )
    monkeypatch.setattr(file_system_sync, "MOUNTS", mounts)
    monkeypatch.setattr(
        file_system_sync,
        "kernel_version",
        lambda: tuple(int(part) for part in release.split("-", maxsplit=1)[0].split(".")[:2]),
    )
    number = os.open(tmp_path, os.O_RDONLY)
    try:
        assert file_system_sync.can_sync_file_system(number) is (
            can and sys.platform.startswith("linux")
        )
    finally:
        os.close(number)


def test_an_unreadable_list_of_mounts_is_a_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system_sync, "MOUNTS", tmp_path / "nothing")
    lock = RealFiles().lock_directory(tmp_path)
    assert not lock.can_sync_file_system
    lock.release()


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="syncfs is Linux's: nothing was tested here"
)
def test_the_real_sync_returns_and_tells_a_closed_descriptor(tmp_path: Path) -> None:
    number = os.open(tmp_path, os.O_RDONLY)
    file_system_sync.sync_file_system(number)
    os.close(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file_system_sync.sync_file_system(number)
