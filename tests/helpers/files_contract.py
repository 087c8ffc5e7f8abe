"""The contract of every ``Files``, as tests: inherit ``FilesContract`` and give it a file system.

The class with the tests of one implementation provides the fixtures ``files`` and ``root`` (an
existing, empty directory).
"""

import functools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from log_service.common.env import Files

T = TypeVar("T")


def run(function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run an async function to its end."""
    return trio.run(function, *arguments)


class FilesContract:
    """Tests for one open file, for names, for leases and for operations that may wait."""

    @pytest.fixture
    def path(self, root: Path) -> Path:
        return root / "00000000000000000000.log"

    def test_appends_return_where_they_begin(self, files: Files, path: Path) -> None:
        file = files.open(path)
        assert file.append_gathered([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 0
        assert file.append_gathered([b"gh"]) == 6
        assert file.append_gathered([]) == 8
        assert (file.size_bytes, file.path, files.size_bytes(path)) == (8, path, 8)
        assert file.read(0, 100) == b"abcdefgh"
        file.close()

    def test_append_of_more_buffers_than_one_system_call_takes(
        self, files: Files, path: Path
    ) -> None:
        file = files.open(path)
        buffers = [bytes([number % 256]) for number in range(3_000)]
        file.append_gathered(buffers)
        assert file.read(0, 3_000) == b"".join(buffers)
        file.close()

    def test_reads_stop_at_the_end(self, files: Files, path: Path) -> None:
        file = files.open(path)
        file.append_gathered([b"abcdef"])
        buffer = bytearray(b"......")
        assert file.read_into(2, memoryview(buffer)[:3]) == 3
        assert buffer == b"cde..."
        assert file.read_into(4, buffer) == 2
        assert file.read_into(6, buffer) == 0
        assert file.read(4, 10) == b"ef"
        assert file.read(100, 10) == b""
        file.close()

    def test_existing_bytes_can_be_overwritten_and_appends_go_on_at_the_end(
        self, files: Files, path: Path
    ) -> None:
        file = files.open(path)
        file.append_gathered([b"abcdef"])
        file.write_at(1, b"XY")
        file.append_gathered([b"gh"])
        assert file.read(0, 10) == b"aXYdefgh"
        file.close()

    def test_truncated_file_goes_on_at_its_new_end(self, files: Files, path: Path) -> None:
        file = files.open(path)
        file.append_gathered([b"abcdef"])
        file.truncate(2)
        assert file.size_bytes == 2
        assert file.append_gathered([b"Z"]) == 2
        assert file.read(0, 10) == b"abZ"
        file.close()

    def test_file_opened_again_has_its_bytes_and_grows_at_the_end(
        self, files: Files, path: Path
    ) -> None:
        first = files.open(path)
        first.append_gathered([b"abc"])
        first.close()
        second = files.open(path, create=False)
        assert second.size_bytes == 3
        assert second.append_gathered([b"d"]) == 3
        assert files.read_bytes(path) == b"abcd"
        second.close()

    def test_missing_files_are_named(self, files: Files, root: Path) -> None:
        missing = root / "missing"
        with pytest.raises(FileNotFoundError, match="missing"):
            files.open(missing, create=False)
        with pytest.raises(FileNotFoundError, match="missing"):
            files.read_bytes(missing)
        with pytest.raises(FileNotFoundError, match="missing"):
            files.open(missing / "below")
        with pytest.raises(FileNotFoundError):
            files.rename(missing, root / "other")
        files.remove(missing)
        files.remove_tree(missing)
        assert files.list_directory(missing) == []
        assert not files.exists(missing)
        assert not files.is_directory(missing)

    def test_directories_are_made_listed_and_removed(self, files: Files, root: Path) -> None:
        nested = root / "orders-0" / "deeper"
        files.make_directory(nested)
        files.make_directory(nested)
        files.write_atomically(nested / "b", b"1")
        files.write_atomically(nested / "a", b"2")
        assert files.list_directory(nested) == ["a", "b"]
        assert files.list_directory(root) == ["orders-0"]
        assert files.is_directory(nested)
        assert not files.is_directory(nested / "a")
        assert files.exists(nested / "a")
        files.remove_tree(root / "orders-0")
        assert files.list_directory(root) == []
        assert not files.exists(nested)

    def test_small_files_are_replaced_whole(self, files: Files, root: Path) -> None:
        path = root / "checkpoint"
        files.write_atomically(path, b"a longer first version")
        files.write_atomically(path, b"second")
        assert files.read_bytes(path) == b"second"
        assert files.list_directory(root) == ["checkpoint"]

    def test_open_files_follow_renames_of_files_and_directories(
        self, files: Files, root: Path
    ) -> None:
        directory, renamed = root / "orders-0", root / "orders-0.deleted"
        files.make_directory(directory)
        file = files.open(directory / "0.log")
        file.append_gathered([b"abc"])
        files.rename(directory / "0.log", directory / "0.log.deleted")
        assert file.path == directory / "0.log.deleted"
        files.rename(directory, renamed)
        assert file.path == renamed / "0.log.deleted"
        file.append_gathered([b"d"])
        assert files.read_bytes(renamed / "0.log.deleted") == b"abcd"
        assert files.list_directory(root) == ["orders-0.deleted"]
        file.close()

    def test_rename_replaces_a_file(self, files: Files, root: Path) -> None:
        files.write_atomically(root / "old", b"old")
        files.write_atomically(root / "new", b"new")
        files.rename(root / "new", root / "old")
        assert files.list_directory(root) == ["old"]
        assert files.read_bytes(root / "old") == b"new"

    def test_removed_file_is_still_read_by_who_has_it_open(self, files: Files, path: Path) -> None:
        file = files.open(path)
        file.append_gathered([b"abc"])
        files.remove(path)
        assert not files.exists(path)
        assert file.read(0, 3) == b"abc"
        file.close()

    def test_leased_slice_outlives_close_and_removal(self, files: Files, path: Path) -> None:
        file = files.open(path)
        file.append_gathered([b"abcdef"])
        leased = file.slice(2, 3)
        file.close()
        file.close()
        files.remove(path)
        assert len(leased) == 3
        assert leased.read() == b"cde"
        assert leased.read() == b"cde"
        leased.release()
        leased.release()

    def test_leased_slice_keeps_its_bytes_although_the_file_is_cut_and_goes_on(
        self, files: Files, path: Path
    ) -> None:
        file = files.open(path)
        file.append_gathered([b"abcdef"])
        leased = file.slice(2, 4)
        file.truncate(3)
        file.append_gathered([b"XYZ"])
        assert leased.read() == b"cdef"
        assert file.read(0, 10) == b"abcXYZ"
        leased.release()
        file.append_gathered([b"!"])
        assert files.read_bytes(path) == b"abcXYZ!"
        file.close()

    def test_slice_of_more_than_there_is_is_an_error(self, files: Files, path: Path) -> None:
        file = files.open(path)
        file.append_gathered([b"abcdef"])
        leased = file.slice(2, 5)
        with pytest.raises(OSError, match=r".+"):
            leased.read()
        leased.release()
        file.close()

    def test_modification_time_is_of_this_era(self, files: Files, path: Path) -> None:
        files.write_atomically(path, b"x")
        assert files.modified_ms(path) > 1_600_000_000_000

    def test_free_space_is_told(self, files: Files, root: Path) -> None:
        assert files.free_bytes(root) > 1_000_000

    def test_the_page_cache_of_a_directory_stays_the_same(
        self, files: Files, root: Path, path: Path
    ) -> None:
        before = files.page_cache_id(root)
        files.write_atomically(path, b"x")
        assert files.page_cache_id(root) == before
        with pytest.raises(FileNotFoundError):
            files.page_cache_id(root / "missing")

    def test_directory_lock_is_exclusive_until_released(self, files: Files, root: Path) -> None:
        lock = files.lock_directory(root)
        with pytest.raises(BlockingIOError):
            files.lock_directory(root)
        lock.release()
        lock.release()
        files.lock_directory(root).release()
        assert files.exists(root / ".lock")

    def test_syncs_of_files_and_directories_succeed(
        self, files: Files, root: Path, path: Path
    ) -> None:
        async def main() -> None:
            file = files.open(path)
            file.append_gathered([b"abc"])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(file.sync)
                nursery.start_soon(file.sync)
                file.append_gathered([b"def"])
            file.sync_nowait()
            files.sync_directory(root)
            assert files.read_bytes(path) == b"abcdef"
            file.close()

        run(main)

    def test_closing_lets_a_sync_under_way_finish(self, files: Files, path: Path) -> None:
        async def main() -> None:
            file = files.open(path)
            file.append_gathered([b"abc"])
            with trio.CancelScope() as scope:
                scope.cancel()
                await file.sync()
            file.close()
            assert files.read_bytes(path) == b"abc"

        run(main)

    def test_pool_returns_results_and_raises_errors(self, files: Files) -> None:
        async def main() -> None:
            assert await files.run_in_pool(functools.partial(int, "7")) == 7
            with pytest.raises(ValueError, match="seven"):
                await files.run_in_pool(functools.partial(int, "seven"))

        run(main)

    def test_work_in_the_pool_is_done_although_no_task_waits(
        self, files: Files, root: Path
    ) -> None:
        def work() -> None:
            time.sleep(0.02)
            files.write_atomically(root / "done", b"yes")

        async def main() -> None:
            with trio.move_on_after(0.005):
                await files.run_in_pool(work)
            with trio.fail_after(10):
                while not files.exists(root / "done"):  # noqa: ASYNC110 - the pool tells no task
                    await trio.sleep(0.001)

        run(main)
