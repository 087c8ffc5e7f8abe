"""A start builds the missing indexes of many logs with one sync for all.

Indexes are missing where only the files of batches were copied.
"""

import errno
from pathlib import Path
from random import Random

import pytest

from log_service.common.errors import StorageError
from log_service.common.types import TopicPartition
from log_service.storage.segment_indexes import LEAST_TOGETHER
from tests.sim.disk import Crashed
from tests.sim.files import MemoryDirectoryLock, MemoryFiles
from tests.unit.storage.crashing_files import CrashingFiles
from tests.unit.storage.managed_logs import FIRST, ID_A, SIZE, Node, run

COUNT = LEAST_TOGETHER // 2 + 3
"""Logs of two segments or more, with two indexes each."""


def without_indexes(count: int = COUNT) -> tuple[MemoryFiles, dict[Path, bytes]]:
    """Return the disk of a node that was stopped, and what its indexes held before they were
    removed.
    """
    node = Node()
    run(node.manager.load)
    for index in range(count):
        node.manager.create_log(TopicPartition("many", index), ID_A, node.config)
        node.append(TopicPartition("many", index), 3)
    run(node.manager.close)
    files = node.files
    paths = [path for path in all_paths(files) if path.suffix in {".index", ".timeindex"}]
    held = {
        path: files.read_bytes(path) for path in paths if files.size_bytes(path.with_suffix(".log"))
    }
    for path in paths:
        files.remove(path)
        files.sync_directory(path.parent)
    assert len(held) == 4 * count
    return files, held


def all_paths(files: MemoryFiles) -> list[Path]:
    logs = [FIRST / name for name in files.list_directory(FIRST) if name.startswith("many")]
    return [log / name for log in logs for name in files.list_directory(log)]


def start(files: MemoryFiles) -> Node:
    node = Node(files)
    run(node.manager.load)
    return node


def operations(files: MemoryFiles) -> list[tuple[str, Path]]:
    seen: list[tuple[str, Path]] = []
    files.on_operation = lambda operation, path: seen.append((operation, path))
    return seen


def test_many_missing_indexes_cost_one_sync() -> None:
    files, held = without_indexes()
    seen = operations(files)
    node = start(files)
    syncs = [operation for operation, _ in seen if operation.startswith("sync")]
    assert syncs.count("sync_file_system") == 1
    assert len(syncs) < 5
    assert {path: files.read_bytes(path) for path in held} == held
    assert not [path for path in all_paths(files) if path.suffix == ".tmp"]
    assert {log.log_end_offset for log in node.manager.logs.values()} == {3}
    assert files.open_count == 0


@pytest.mark.parametrize(("count", "can_sync"), [(2, True), (COUNT, False)])
def test_few_or_on_another_file_system_are_synced_one_by_one(
    count: int, monkeypatch: pytest.MonkeyPatch, *, can_sync: bool
) -> None:
    monkeypatch.setattr(MemoryDirectoryLock, "can_sync_file_system", can_sync)
    files, held = without_indexes(count)
    seen = operations(files)
    start(files)
    assert sorted(path for operation, path in seen if operation == "sync") == sorted(
        path.with_name(f"{path.name}.tmp") for path in held
    )
    assert {path: files.read_bytes(path) for path in held} == held


@pytest.mark.parametrize("is_reordering", [False, True])
@pytest.mark.parametrize("can_sync", [False, True])
def test_a_loss_of_power_at_any_operation_leaves_whole_indexes_or_none(
    monkeypatch: pytest.MonkeyPatch, *, is_reordering: bool, can_sync: bool
) -> None:
    monkeypatch.setattr(MemoryDirectoryLock, "can_sync_file_system", can_sync)
    files, _ = without_indexes()
    seen = operations(files)
    start(files)
    last = len(seen)
    crash_count = 0
    points = [*range(1, last, last // 12), *range(last - 150, last + 40, 10)]
    for countdown in points:
        files, held = without_indexes()
        files.disk.is_reordering = is_reordering
        crashing = CrashingFiles(files.disk, rng=Random(countdown))
        crashing.countdown = countdown
        try:
            start(crashing)
        except* Crashed:
            crash_count += 1
        crashing.countdown = -1
        files.disk.crash(Random(countdown))
        again = MemoryFiles(files.disk, rng=Random(countdown))
        for path in [path for path in held if again.exists(path)]:
            assert again.read_bytes(path) == held[path], path
        run(start(again).manager.close)
        assert {path: again.read_bytes(path) for path in held} == held
    assert 20 < crash_count < len(points)


@pytest.mark.parametrize("operation", ["sync_file_system", "rename"])
def test_a_failure_to_put_them_in_place_is_the_disk_s(operation: str) -> None:
    files, held = without_indexes()
    files.fail_next(
        operation,
        error=errno.EIO,
        containing="first" if operation == "sync_file_system" else "many-7",
    )
    with pytest.raises(StorageError, match=r"none of the log directories.*injected failure"):
        start(files)
    run(start(files).manager.close)
    assert {path: files.read_bytes(path) for path in held} == held


def test_readers_find_with_them_what_they_found_before() -> None:
    files, _ = without_indexes()
    node = start(files)
    seen = operations(files)
    log = node.manager.logs[TopicPartition("many", 0)]
    found = log.read(1, max_bytes=1 << 20, upper_offset=3, is_one_batch_guaranteed=True)
    assert (found.position, found.size_bytes) == (SIZE, SIZE)
    assert not [operation for operation, _ in seen if operation in {"append", "rename", "sync"}]
