"""The memory disk keeps the contract of ``Files``.

A crash loses unsynced bytes and nothing more.
"""

import errno
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from log_service.common.env import Files
from tests.helpers.files_contract import FilesContract
from tests.sim import Crashed, MemoryFiles, VirtualClock
from tests.sim.disk import Disk

PATH = Path("/log/0.log")


def mounted(**options: bool) -> MemoryFiles:
    files = MemoryFiles(Disk(**options))
    files.make_directory(PATH.parent)
    files.sync_directory(Path("/"))
    return files


class TestMemoryFiles(FilesContract):
    @pytest.fixture
    def root(self) -> Path:
        return Path("/data")

    @pytest.fixture
    def files(self, root: Path) -> Files:
        files = MemoryFiles()
        files.make_directory(root)
        return files


def outcomes_of_a_crash(seeds: int = 60) -> set[bytes]:
    """Contents that crashes leave of three appends, of which the first was synced."""
    found = set()
    for seed in range(seeds):
        files = mounted()
        file = files.open(PATH)
        files.sync_directory(PATH.parent)
        file.append_gathered([b"synced."])
        file.sync_nowait()
        file.append_gathered([b"second."])
        file.append_gathered([b"third."])
        files.crash(Random(seed))
        found.add(files.read_bytes(PATH))
    return found


def test_crash_keeps_what_was_synced_and_a_torn_prefix_of_the_rest() -> None:
    whole = b"synced.second.third."
    found = outcomes_of_a_crash()
    assert all(whole.startswith(content) and len(content) >= 7 for content in found)
    assert {b"synced.", b"synced.second.", whole} <= found
    assert any(len(content) not in {7, 14, 20} for content in found), "some writes are torn"


def test_disk_that_reorders_may_keep_a_later_write_without_an_earlier_one() -> None:
    found = set()
    for seed in range(200):
        files = MemoryFiles(Disk(is_reordering=True))
        file = files.open(Path("/log"))
        files.sync_directory(Path("/"))
        file.append_gathered([b"synced."])
        file.sync_nowait()
        file.append_gathered([b"second."])
        file.append_gathered([b"third."])
        files.crash(Random(seed))
        found.add(files.read_bytes(Path("/log")))
    assert all(content.startswith(b"synced.") for content in found)
    assert {b"synced.", b"synced.second.third.", b"synced." + bytes(7) + b"third."} <= found


def test_same_seed_leaves_the_same_bytes() -> None:
    assert outcomes_of_a_crash(20) == outcomes_of_a_crash(20)


def test_sync_covers_what_was_written_before_it_began() -> None:
    async def main() -> None:
        files = mounted()
        files.sync_seconds = (0.01, 0.01)
        file = files.open(PATH)
        files.sync_directory(PATH.parent)
        file.append_gathered([b"covered"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(file.sync)
            await trio.sleep(0.005)
            file.append_gathered([b" not"])
        assert trio.current_time() == pytest.approx(0.01)
        files.crash(_AlwaysLose())
        assert files.read_bytes(PATH) == b"covered"

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_truncation_and_overwriting_survive_only_when_synced() -> None:
    files = mounted()
    file = files.open(PATH)
    files.sync_directory(PATH.parent)
    file.append_gathered([b"abcdef"])
    file.sync_nowait()
    file.truncate(3)
    file.write_at(0, b"X")
    files.crash(_AlwaysLose())
    assert files.read_bytes(PATH) == b"abcdef"
    file = files.open(PATH)
    file.truncate(3)
    file.write_at(0, b"X")
    file.sync_nowait()
    files.crash(_AlwaysLose())
    assert files.read_bytes(PATH) == b"Xbc"


def test_names_are_durable_only_after_a_sync_of_their_directory() -> None:
    files = mounted()
    file = files.open(PATH)
    file.append_gathered([b"abc"])
    file.sync_nowait()
    files.crash(_AlwaysLose())
    assert not files.exists(PATH)

    files.write_atomically(PATH, b"abc")
    files.rename(PATH, PATH.with_name("1.log"))
    files.crash(_AlwaysLose())
    assert files.list_directory(PATH.parent) == ["0.log"]

    files.remove(PATH)
    files.crash(_AlwaysLose())
    assert files.read_bytes(PATH) == b"abc"
    files.remove(PATH)
    files.sync_directory(PATH.parent)
    files.crash(_AlwaysLose())
    assert files.list_directory(PATH.parent) == []


def test_names_may_be_durable_at_once() -> None:
    files = mounted(are_names_durable=True)
    files.open(PATH).close()
    files.crash(_AlwaysLose())
    assert files.exists(PATH)


def test_rename_is_atomic_whatever_a_crash_leaves() -> None:
    found = set()
    for seed in range(30):
        files = mounted()
        files.write_atomically(PATH, b"abc")
        files.make_directory(Path("/other"))
        files.sync_directory(Path("/"))
        files.rename(PATH, Path("/other/0.log"))
        files.crash(Random(seed))
        found.add((files.exists(PATH), files.exists(Path("/other/0.log"))))
    assert found == {(True, False), (False, True)}


def test_another_disk_is_empty_and_what_was_open_is_dead() -> None:
    files = MemoryFiles()
    for path in (Path("/data/a"), Path("/data2/b")):
        files.make_directory(path.parent)
        files.write_atomically(path, b"kept")
    space = files.space
    files.disk.wipe(Path("/data2"))
    with pytest.raises(Crashed):
        files.exists(Path("/data/a"))
    again = MemoryFiles(files.disk)
    assert again.read_bytes(Path("/data/a")) == b"kept"
    assert again.list_directory(Path("/data2")) == []
    assert again.space == space + 4
    files.disk.wipe()
    assert not MemoryFiles(files.disk).exists(Path("/data"))


def test_dead_node_cannot_write() -> None:
    files = mounted()
    dead = MemoryFiles(files.disk)
    file = dead.open(PATH)
    leased = file.slice(0, 0)
    files.crash(Random(1))
    for act in (
        lambda: file.append_gathered([b"x"]),
        file.sync_nowait,
        leased.read,
        lambda: dead.open(PATH),
    ):
        with pytest.raises(Crashed):
            act()
    file.close()
    leased.release()
    assert (files.open_count, files.lease_count) == (0, 0)


def test_sync_under_way_at_a_crash_makes_nothing_durable() -> None:
    async def main() -> None:
        files = mounted()
        files.sync_seconds = (1.0, 1.0)
        file = files.open(PATH)
        files.sync_directory(PATH.parent)
        file.append_gathered([b"abc"])

        async def sync() -> None:
            with pytest.raises(Crashed):
                await file.sync()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync)
            await trio.sleep(0.5)
            files.crash(_AlwaysLose())
        assert files.read_bytes(PATH) == b""

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_full_disk_takes_nothing_of_an_append_and_room_comes_back() -> None:
    files = mounted()
    files.space = 10
    file = files.open(PATH)
    file.append_gathered([b"12345678"])
    with pytest.raises(OSError, match="no space left") as raised:
        file.append_gathered([b"123"])
    assert raised.value.errno == errno.ENOSPC
    assert file.size_bytes == 8
    file.truncate(5)
    assert files.free_bytes(PATH) == 5
    files.remove(PATH)
    assert files.space == 10


def test_failed_sync_loses_what_it_should_have_written() -> None:
    files = mounted()
    file = files.open(PATH)
    files.sync_directory(PATH.parent)
    file.append_gathered([b"lost"])
    files.fail_next("sync", containing=".log")
    with pytest.raises(OSError, match="injected") as raised:
        file.sync_nowait()
    assert raised.value.errno == errno.EIO
    file.append_gathered([b"kept"])
    file.sync_nowait()
    files.crash(_AlwaysLose())
    assert files.read_bytes(PATH) == b"\0\0\0\0kept"


def test_injected_failures_are_counted_and_aimed() -> None:
    files = mounted()
    files.fail_next("append", error=errno.EROFS, containing="0.log", count=2)
    other, file = files.open(PATH.with_name("1.index")), files.open(PATH)
    other.append_gathered([b"unharmed"])
    for _ in range(2):
        with pytest.raises(OSError, match="injected"):
            file.append_gathered([b"x"])
    assert file.append_gathered([b"x"]) == 0


def test_files_are_dated_by_the_clock_of_their_node() -> None:
    async def main() -> None:
        clock = VirtualClock(epoch_ms=1_000, skew_ms=5)
        files = MemoryFiles(clock=clock)
        files.write_atomically(Path("/a"), b"x")
        await trio.sleep(2)
        files.write_atomically(Path("/b"), b"x")
        assert (files.modified_ms(Path("/a")), files.modified_ms(Path("/b"))) == (1_005, 3_005)

    trio.run(main, clock=MockClock(autojump_threshold=0))


class _AlwaysLose(Random):
    """The worst crash: nothing that was not durable survives."""

    def randint(self, a: int, b: int) -> int:
        return a
