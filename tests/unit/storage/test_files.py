"""The real disk alone has short writes, syncs in threads and leases of descriptors.

It has locks of two kinds.
"""

import errno
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from log_service.common.types import Buffer
from log_service.storage import descriptors
from log_service.storage.descriptors import Descriptor, RealFileSlice
from log_service.storage.files import RealFile, RealFiles


def opened(path: Path, content: bytes = b"") -> RealFile:
    file = RealFiles().open(path / "file")
    assert isinstance(file, RealFile)
    if content:
        file.append_gathered([content])
    return file


def test_a_write_that_fails_halfway_is_cut_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(tmp_path, b"kept")
    write = os.pwritev

    def write_three_bytes(number: int, buffers: Sequence[Buffer], position: int) -> int:
        return write(number, [b"".join(buffers)[:3]], position)

    def disk_full(_number: int, _content: Buffer, _position: int) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", write_three_bytes)
        patched.setattr(os, "pwrite", disk_full)
        with pytest.raises(OSError, match="no space left"):
            file.append_gathered([b"12345", b"6789"])
    assert file.size_bytes == 4
    assert (tmp_path / "file").read_bytes() == b"kept"
    assert file.append_gathered([b"!"]) == 4


def test_a_small_file_that_finds_no_room_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = RealFiles(), tmp_path / "small"
    files.write_atomically(path, b"before")

    def disk_full(_number: int, _buffers: Sequence[Buffer], _position: int) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "pwritev", disk_full)
    monkeypatch.setattr(os, "pwrite", disk_full)
    with pytest.raises(OSError, match="no space left"):
        files.write_atomically(path, b"after")
    assert [found.name for found in tmp_path.iterdir()] == ["small"]
    assert path.read_bytes() == b"before"


def test_a_short_write_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened(tmp_path)
    write = os.pwritev
    monkeypatch.setattr(
        os,
        "pwritev",
        lambda number, buffers, position: write(number, [bytes(buffers[0])[:3]], position),
    )
    file.append_gathered([b"12345", b"6789"])
    assert (tmp_path / "file").read_bytes() == b"123456789"


def test_more_buffers_than_the_system_takes_at_once(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.append_gathered([b"%04d" % number for number in range(3_000)])
    assert file.size_bytes == 12_000
    assert file.read(11_996, 4) == b"2999"


class Gate:
    """Stands in for fdatasync: waits until it is opened, counts, and may fail."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.count = 0
        self.is_over = False
        self.error: OSError | None = None

    def sync(self, _number: int) -> None:
        self.count += 1
        assert self.opened.wait(5)
        self.is_over = True
        if self.error is not None:
            raise self.error


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate()
    monkeypatch.setattr(descriptors, "sync_descriptor", made.sync)
    return made


def test_a_cancelled_caller_waits_for_its_sync(tmp_path: Path, gate: Gate) -> None:
    file = opened(tmp_path, b"x")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:

                async def cancel() -> None:
                    await wait_all_tasks_blocked()
                    scope.cancel()
                    await wait_all_tasks_blocked()
                    assert not gate.is_over, (
                        "another sync could begin beside it, and would not hear of its failure"
                    )
                    gate.opened.set()

                nursery.start_soon(cancel)
                await file.sync()
            assert gate.is_over

    trio.run(main)


def test_a_failed_sync_is_final_for_the_file(tmp_path: Path, gate: Gate) -> None:
    file = opened(tmp_path, b"x")
    gate.error = OSError(errno.EIO, "input/output error")
    gate.opened.set()

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(OSError, match="a sync failed"):
                await file.sync()

    trio.run(main)
    assert gate.count == 1
    with pytest.raises(OSError, match="a sync failed"):
        file.append_gathered([b"y"])
    with pytest.raises(OSError, match="a sync failed"):
        file.sync_nowait()


def test_a_file_closed_during_its_sync_keeps_the_descriptor_until_then(
    tmp_path: Path, gate: Gate
) -> None:
    file = opened(tmp_path, b"x")
    number = file.slice(0, 1).fileno()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(file.sync)
            await wait_all_tasks_blocked()
            file.close()
            os.fstat(number)
            gate.opened.set()

    trio.run(main)


def test_a_lease_keeps_the_descriptor_open(tmp_path: Path) -> None:
    file = opened(tmp_path, b"0123456789")
    leased = file.slice(2, 5)
    number = leased.fileno()
    assert leased.position == 2
    file.close()
    (tmp_path / "file").unlink()
    assert leased.read() == b"23456"
    leased.release()
    leased.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    with pytest.raises(OSError, match="closed"):
        file.slice(0, 1)
    with pytest.raises(OSError, match="closed"):
        file.read(0, 1)


def test_a_slice_longer_than_the_file_says_so(tmp_path: Path) -> None:
    leased = opened(tmp_path, b"0123456789").slice(5, 10)
    with pytest.raises(OSError, match="5 of 10 bytes"):
        leased.read()
    leased.release()


def test_leases_may_come_and_go_in_threads(tmp_path: Path) -> None:
    number = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    descriptor = Descriptor(number)

    def lease_often() -> None:
        for _ in range(2_000):
            RealFileSlice(descriptor, 0, 0).release()

    threads = [threading.Thread(target=lease_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert descriptor.lease_count == 0
    descriptor.close()


def test_truncation_under_a_lease_copies_what_is_kept(tmp_path: Path) -> None:
    file = opened(tmp_path, b"0123456789")
    leased = file.slice(0, 10)
    file.truncate(4)
    file.append_gathered([b"abc"])
    assert leased.read() == b"0123456789"
    assert (tmp_path / "file").read_bytes() == b"0123abc"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    leased.release()


def test_open_files_follow_renames_of_files_and_directories(tmp_path: Path) -> None:
    files = RealFiles()
    (tmp_path / "a").mkdir()
    file = files.open(tmp_path / "a" / "log")
    files.rename(tmp_path / "a" / "log", tmp_path / "a" / "log.deleted")
    assert file.path == tmp_path / "a" / "log.deleted"
    files.rename(tmp_path / "a", tmp_path / "b")
    assert file.path == tmp_path / "b" / "log.deleted"
    file.close()


def test_a_lock_excludes_this_process_and_others(tmp_path: Path) -> None:
    files = RealFiles()
    lock = files.lock_directory(tmp_path)
    with pytest.raises(BlockingIOError):
        files.lock_directory(tmp_path)
    program = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"  # what Java does
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / ".lock")], check=False, capture_output=True
    )
    assert b"BlockingIOError" in done.stderr
    lock.release()
    lock.release()
    files.lock_directory(tmp_path).release()


def test_work_in_the_pool_is_done_although_its_caller_was_cancelled(tmp_path: Path) -> None:
    files = RealFiles(pool_threads=1)
    done: list[int] = []

    async def main() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await files.run_in_pool(lambda: done.append(1))

    trio.run(main)
    assert done == [1]


def test_an_error_in_the_pool_reaches_its_caller_and_gives_the_thread_back() -> None:
    files = RealFiles(pool_threads=1)

    def fail() -> None:
        raise OSError(errno.EIO, "the disk failed")

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(OSError, match="the disk failed"):
                await files.run_in_pool(fail)

    trio.run(main)


def test_no_more_calls_run_at_once_than_the_pool_has_threads() -> None:
    files = RealFiles(pool_threads=2)
    gate, started, lock = threading.Semaphore(0), threading.Semaphore(0), threading.Lock()
    running, most = [0], [0]

    def work() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        started.release()
        gate.acquire()
        with lock:
            running[0] -= 1

    def wait_for_two() -> None:
        started.acquire()
        started.acquire()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(files.run_in_pool, work)
            await wait_all_tasks_blocked()
            await trio.to_thread.run_sync(wait_for_two)
            gate.release(5)

    trio.run(main)
    assert (running[0], most[0]) == (0, 2)


def test_free_bytes_are_those_of_the_file_system(tmp_path: Path) -> None:
    assert RealFiles().free_bytes(tmp_path) > 0


def calls_during(function: Callable[[], object]) -> int:
    """Return how many Python functions ``function`` calls.

    A collection of garbage, whose callbacks would count, waits.
    """
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_renaming_a_directory_costs_the_same_however_many_files_are_open(tmp_path: Path) -> None:
    """A topic of thousands of partitions was deleted in minutes, in which nothing else ran.

    Each rename looked at every open file.
    """
    files = RealFiles(pool_threads=1)
    for index in range(100):
        files.make_directory(tmp_path / f"a-{index}")
    taken = [files.open(tmp_path / "a-1" / "0.log")]
    among_few = calls_during(lambda: files.rename(tmp_path / "a-1", tmp_path / "a-1.deleted"))
    taken += [files.open(tmp_path / f"a-{index}" / "0.log") for index in range(2, 100)]
    among_many = calls_during(lambda: files.rename(tmp_path / "a-2", tmp_path / "a-2.deleted"))
    assert among_many == among_few
    assert [file.path.parent.name for file in taken[:3]] == ["a-1.deleted", "a-2.deleted", "a-3"]
    for file in taken:
        file.close()


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            RealFiles().read_bytes(path)
