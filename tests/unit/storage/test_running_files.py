"""The file ``tidelog-running`` decides about the trust of a start after a kill (KIP-966)."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.errors import KafkaError
from log_service.storage.page_cache import page_cache_id
from log_service.storage.running_files import (
    RUNNING_FILE,
    RunningFiles,
    read_running_epoch,
    write_running_epoch,
)
from tests.sim.files import MemoryFiles
from tests.unit.storage.managed_logs import FIRST, ID_A, ID_B, SECOND, SIZE, A, B, Node, run

BOTH = (FIRST, SECOND)
EPOCH = 41
MARKER = ".kafka_cleanshutdown"
ACTIVE = FIRST / "a-0" / "00000000000000000002.log"


def running(*, dirs: tuple[Path, ...] = (FIRST,), files: MemoryFiles | None = None) -> Node:
    """Return a node of a broker that is registered, with three records in each log."""
    node = Node(files, dirs=dirs)
    run(node.manager.load)
    node.manager.note_registered(EPOCH)
    for topic_partition, topic_id in ((A, ID_A), (B, ID_B)):
        node.manager.create_log(topic_partition, topic_id, node.config)
        node.append(topic_partition, 3)
    return node


def killed(node: Node) -> MemoryFiles:
    """End the process; the machine runs on."""
    files = node.files
    files.disk.kill()
    return MemoryFiles(files.disk, rng=Random(7), clock=node.clock)


def started(files: MemoryFiles, *, dirs: tuple[Path, ...] = (FIRST,)) -> Node:
    node = Node(files, dirs=dirs)
    run(node.manager.load)
    return node


def previous_epoch(files: MemoryFiles, *, dirs: tuple[Path, ...] = (FIRST,)) -> int:
    return started(files, dirs=dirs).manager.previous_broker_epoch


def has_file(files: MemoryFiles, *, dirs: tuple[Path, ...] = (FIRST,)) -> list[bool]:
    return [files.exists(directory / RUNNING_FILE) for directory in dirs]


# What a start believes


@pytest.mark.parametrize("dirs", [(FIRST,), BOTH])
def test_a_killed_broker_names_its_epoch_and_recovers_its_logs(dirs: tuple[Path, ...]) -> None:
    node = started(killed(running(dirs=dirs)), dirs=dirs)
    assert node.manager.previous_broker_epoch == EPOCH
    assert not node.manager.had_clean_shutdown
    assert {key: log.log_end_offset for key, log in node.manager.logs.items()} == {A: 3, B: 3}
    assert all(log.recovery_point < 3 for log in node.manager.logs.values())


def test_a_loss_of_power_is_told() -> None:
    files = running().files
    files.disk.sync_all()
    files.crash(Random(1))
    assert previous_epoch(files) == -1
    assert has_file(files) == [False]


def test_what_a_start_does_not_believe_it_removes_durably() -> None:
    """A volume that was tried on another host comes back to the first one."""
    node = running()
    node.files.disk.sync_all()
    first_boot = node.files.disk.boot_count
    files = killed(node)
    files.disk.boot_count = first_boot + 1
    assert previous_epoch(files) == -1
    files.crash(Random(1))
    files.disk.boot_count = first_boot
    assert previous_epoch(files) == -1


def test_several_starts_before_a_registration_lose_nothing() -> None:
    files = killed(running())
    for _ in range(3):
        node = started(files)
        assert node.manager.previous_broker_epoch == EPOCH
        files = killed(node)


def test_a_start_that_dies_leaves_what_the_marker_of_a_clean_stop_said() -> None:
    node = running()
    run(lambda: node.manager.close(broker_epoch=EPOCH))
    assert has_file(node.files) == [False]
    files = killed(started(node.files))
    assert not files.exists(FIRST / MARKER)
    again = started(files)
    assert again.manager.previous_broker_epoch == EPOCH
    assert not again.manager.had_clean_shutdown


def test_the_marker_of_a_clean_stop_goes_before_an_older_file() -> None:
    """As where Apache Kafka ran in between and stopped in order: it does not know the file."""
    node = running()
    run(lambda: node.manager.close(broker_epoch=77))
    write_running_epoch(node.files, FIRST, EPOCH)
    node = started(node.files)
    assert node.manager.previous_broker_epoch == 77
    assert previous_epoch(killed(node)) == 77


def test_a_registration_replaces_the_file() -> None:
    node = started(killed(running()))
    node.manager.note_registered(EPOCH + 1)
    assert previous_epoch(killed(node)) == EPOCH + 1


def test_a_broker_that_never_registered_has_no_file() -> None:
    node = started(MemoryFiles())
    assert has_file(node.files) == [False]
    assert previous_epoch(killed(node)) == -1


def test_a_kill_while_a_broker_stops_leaves_a_marker_in_one_directory_and_the_file_in_the_other() -> (
    None
):
    node = running(dirs=BOTH)
    node.files.fail_next("rename", error=errno.ENOSPC, containing=f"/second/{MARKER}")
    run(lambda: node.manager.close(broker_epoch=EPOCH))
    # A full disk is not a kill, after which the file would be there.
    write_running_epoch(node.files, SECOND, EPOCH)
    node = started(killed(node), dirs=BOTH)
    assert node.manager.previous_broker_epoch == EPOCH
    assert not node.manager.had_clean_shutdown


# What a start does not believe


def test_each_directory_has_to_name_the_epoch() -> None:
    files = killed(running(dirs=BOTH))
    files.remove(SECOND / RUNNING_FILE)
    assert previous_epoch(files, dirs=BOTH) == -1
    assert has_file(files, dirs=BOTH) == [False, False]


def test_each_directory_has_to_name_the_same_epoch() -> None:
    files = killed(running(dirs=BOTH))
    write_running_epoch(files, SECOND, EPOCH - 1)
    assert previous_epoch(files, dirs=BOTH) == -1


def test_a_directory_that_is_new_has_no_file() -> None:
    files = killed(running())
    assert previous_epoch(files, dirs=BOTH) == -1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"brokerEpoch": 41}',
        b'{"brokerEpoch": "x", "pageCacheId": "boot 1"}',
        b'{"pageCacheId": 1}',
    ],
)
def test_a_file_that_says_nothing_is_not_believed(content: bytes) -> None:
    files = killed(running())
    files.write_atomically(FIRST / RUNNING_FILE, content)
    assert previous_epoch(files) == -1


def test_without_an_identity_of_the_page_cache_there_is_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = killed(running())
    monkeypatch.setattr(MemoryFiles, "page_cache_id", lambda _files, _path: None)
    assert read_running_epoch(files, FIRST) is None
    node = started(files)
    assert node.manager.previous_broker_epoch == -1
    node.manager.note_registered(EPOCH)
    assert has_file(files) == [False]


def test_a_write_that_the_kill_cut_off_is_no_loss() -> None:
    files = killed(running())
    files.open(ACTIVE).append_gathered([files.read_bytes(ACTIVE)[: SIZE - 5]])
    node = started(files)
    assert node.manager.previous_broker_epoch == EPOCH
    assert node.manager.logs[A].log_end_offset == 3


@pytest.mark.parametrize("tail", [5, 12, 40])
def test_a_write_may_be_cut_off_anywhere(tail: int) -> None:
    files = killed(running())
    files.open(ACTIVE).append_gathered([files.read_bytes(ACTIVE)[:tail]])
    assert previous_epoch(files) == EPOCH


@pytest.mark.parametrize(
    "damage",
    [
        lambda files: files.open(ACTIVE).append_gathered([bytes(5_000)]),
        lambda files: files.open(ACTIVE).write_at(SIZE - 5, b"\xaa\xaa"),
        lambda files: files.open(FIRST / "a-0" / "00000000000000000000.log").truncate(2 * SIZE - 5),
        lambda files: files.open(FIRST / "a-0" / "sync-failed").close(),
        lambda files: files.write_atomically(FIRST / "recovery-point-offset-checkpoint", b"\xaa"),
    ],
    ids=[
        "zeros at the end",
        "a checksum that does not hold",
        "a hole before the last segment",
        "a failed sync",
        "a checkpoint",
    ],
)
def test_what_no_kill_leaves_is_a_loss_for_good(damage: Callable[[MemoryFiles], None]) -> None:
    """The kernel could not write the process's last bytes.

    No error tells of it, and recovery finds other bytes than were written.
    """
    files = killed(running())
    damage(files)
    node = started(files)
    assert node.manager.previous_broker_epoch == -1
    assert previous_epoch(killed(node)) == -1


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_broker_with_a_damaged_log_does_not_have_everything(*, is_clean: bool) -> None:
    """Else it would stay an eligible leader of a log that is begun anew."""
    node = running()
    run(lambda: node.manager.close(broker_epoch=EPOCH))
    files = node.files
    if not is_clean:
        files.remove(FIRST / MARKER)
        write_running_epoch(files, FIRST, EPOCH)
    files.open(ACTIVE).write_at(0, b"\xaa" * SIZE)
    node = started(files)
    assert A in node.manager.damaged
    assert node.manager.previous_broker_epoch == -1


# A disk that fails


def synced(node: Node) -> None:
    trio.run(node.manager.logs[A].sync)


@pytest.mark.parametrize(
    ("operation", "act"), [("sync", synced), ("append", lambda node: node.append(A))]
)
def test_a_disk_that_fails_takes_the_file_from_all_directories_for_good(
    operation: str, act: Callable[[Node], None]
) -> None:
    node = running(dirs=BOTH)
    node.files.fail_next(operation, containing="a-0")
    with pytest.raises(KafkaError):
        act(node)
    assert has_file(node.files, dirs=BOTH) == [False, False]
    node.manager.note_registered(EPOCH + 1)
    assert has_file(node.files, dirs=BOTH) == [False, False]
    assert previous_epoch(killed(node), dirs=BOTH) == -1


def test_a_full_disk_costs_the_append_and_nothing_that_was_counted() -> None:
    node = running()
    node.files.fail_next("append", error=errno.ENOSPC, containing="a-0")
    with pytest.raises(KafkaError):
        node.append(A)
    assert previous_epoch(killed(node)) == EPOCH


def test_a_node_that_ends_because_of_a_disk_has_no_file() -> None:
    node = running()
    node.manager.note_disk_failed()
    assert previous_epoch(killed(node)) == -1


def test_a_stop_that_cannot_write_its_marker_leaves_no_file() -> None:
    node = running()
    node.files.fail_next("sync", containing=MARKER)
    run(lambda: node.manager.close(broker_epoch=EPOCH))
    assert has_file(node.files) == [False]
    assert previous_epoch(killed(node)) == -1


def test_a_full_disk_has_no_file_and_serves() -> None:
    node = started(MemoryFiles())
    node.files.fail_next("append", error=errno.ENOSPC, containing=RUNNING_FILE)
    node.manager.note_registered(EPOCH)
    assert has_file(node.files) == [False]
    assert not node.manager.directories[0].is_offline


def test_a_full_disk_does_not_stop_a_start_after_a_clean_stop() -> None:
    node = running()
    run(lambda: node.manager.close(broker_epoch=EPOCH))
    node.files.fail_next("append", error=errno.ENOSPC, containing=RUNNING_FILE)
    assert previous_epoch(node.files) == EPOCH


def test_a_file_that_the_disk_does_not_take_takes_the_directory_offline() -> None:
    node = started(MemoryFiles(), dirs=BOTH)
    node.files.fail_next("rename", containing=f"second/{RUNNING_FILE}")
    node.manager.note_registered(EPOCH)
    assert [directory.is_offline for directory in node.manager.directories] == [False, True]
    assert has_file(node.files, dirs=BOTH) == [False, False]


def test_a_file_that_cannot_be_removed_takes_its_directory_offline() -> None:
    files = killed(running(dirs=BOTH))
    files.remove(FIRST / RUNNING_FILE)
    files.fail_next("remove", containing=f"second/{RUNNING_FILE}")
    node = started(files, dirs=BOTH)
    assert [directory.is_offline for directory in node.manager.directories] == [False, True]
    assert node.manager.previous_broker_epoch == -1


def test_a_disk_that_has_failed_and_keeps_the_file_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = running()
    node.files.fail_next("remove", containing=RUNNING_FILE)
    node.manager.note_disk_failed()
    assert "/first keeps tidelog-running" in caplog.text
    assert (
        repr(RunningFiles(node.files, node.manager.directories)) == "<RunningFiles 1 directories>"
    )


def test_the_file_is_json_with_the_epoch_and_the_page_cache() -> None:
    files = MemoryFiles()
    files.make_directory(FIRST)
    write_running_epoch(files, FIRST, EPOCH)
    assert json.loads(files.read_bytes(FIRST / RUNNING_FILE)) == {
        "version": 0,
        "brokerEpoch": 41,
        "pageCacheId": "boot 1",
    }


# The identity of a page cache


def mounts_of(tmp_path: Path, kind: str, device: str | None = None) -> Path:
    number = tmp_path.stat().st_dev
    path = tmp_path / "mounts"
    path.write_text(
        f"27 1 {device or f'{os.major(number)}:{os.minor(number)}'} / / rw,relatime - {kind} /dev/vda rw\n"
    )
    return path


@pytest.fixture
def boot_id(tmp_path: Path) -> Path:
    path = tmp_path / "boot_id"
    path.write_text("a10b5195-acb5-4623-8101-bbad61ac0878\n")
    return path


def test_another_boot_and_another_directory_have_another_page_cache(
    tmp_path: Path, boot_id: Path
) -> None:
    mounts = mounts_of(tmp_path, "ext4")
    here, beside = tmp_path / "here", tmp_path / "beside"
    here.mkdir()
    beside.mkdir()

    def known(path: Path) -> str | None:
        return page_cache_id(path, boot_id=boot_id, mounts=mounts)

    before = known(here)
    assert before is not None
    assert before.startswith("a10b5195-acb5-4623-8101-bbad61ac0878 ")
    assert known(here) == before
    assert known(beside) != before
    here.rename(tmp_path / "away")
    beside.rename(here)
    assert known(here) != before, "a copy that was moved to the place of the original"
    boot_id.write_text("b10b5195-acb5-4623-8101-bbad61ac0878\n")
    assert known(tmp_path / "away") != before


@pytest.mark.parametrize("kind", ["fuse.s3fs", "9p", "nfs4"])
def test_a_file_system_that_may_keep_writes_elsewhere_has_none(
    tmp_path: Path, boot_id: Path, kind: str
) -> None:
    assert page_cache_id(tmp_path, boot_id=boot_id, mounts=mounts_of(tmp_path, kind)) is None


def test_a_system_that_does_not_tell_has_none(tmp_path: Path, boot_id: Path) -> None:
    mounts = mounts_of(tmp_path, "ext4")
    assert page_cache_id(tmp_path, boot_id=tmp_path / "missing", mounts=mounts) is None
    assert page_cache_id(tmp_path, boot_id=boot_id, mounts=tmp_path / "missing") is None
    assert (
        page_cache_id(tmp_path, boot_id=boot_id, mounts=mounts_of(tmp_path, "ext4", "999:1"))
        is None
    )
    boot_id.write_bytes(b"\xff\xff")
    assert page_cache_id(tmp_path, boot_id=boot_id, mounts=mounts) is None
    boot_id.write_bytes(b"\n")
    assert page_cache_id(tmp_path, boot_id=boot_id, mounts=mounts) is None
