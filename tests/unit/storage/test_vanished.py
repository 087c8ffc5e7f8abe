"""Somebody removes files that a node has open: what was acknowledged stays, and it is said."""

import errno
from pathlib import Path

import pytest
import trio

from log_service.common.errors import KafkaError
from log_service.storage.files import RealFiles
from log_service.storage.log import Log
from log_service.storage.vanished import restore_vanished
from tests.unit.storage.context import LogContext, batch
from tests.unit.storage.upkeep_story import Story, play

SIZE = len(batch(1))


@pytest.fixture(params=["memory", "disk"])
def context(request: pytest.FixtureRequest, tmp_path: Path) -> LogContext:
    """A log of three segments with two records each, over either kind of files."""
    place = (RealFiles(), tmp_path) if request.param == "disk" else (None, Path("/logs"))
    made = LogContext(*place, segment_bytes=2 * SIZE)
    made.append_records(*[1] * 6)
    return made


def restore(log: Log) -> None:
    trio.run(restore_vanished, log.files, [log])


def remove(context: LogContext, base_offset: int) -> None:
    context.files.remove(context.directory / f"{base_offset:020d}.log")


def held(context: LogContext) -> list[int]:
    return [offset for offset, _ in context.all_values()]


@pytest.mark.parametrize("base_offset", [0, 2, 4])
def test_a_segment_that_vanished_while_open_is_there_again(
    context: LogContext, base_offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = context.all_values()
    remove(context, base_offset)
    restore(context.log)
    assert f"{base_offset:020d}.log vanished" in caplog.text
    assert not [name for name in context.names() if name.endswith(".tmp")]
    context.append_records(1)
    assert context.all_values()[:6] == before
    context.open(recovery_point=6)
    assert context.all_values()[:6] == before
    assert held(context) == list(range(7))


def test_the_active_segment_rolls_so_that_appends_go_on_meanwhile(context: LogContext) -> None:
    remove(context, 4)
    log = context.log
    exists = context.files.exists

    def exists_after_an_append(path: Path) -> bool:
        if path.name == f"{4:020d}.log" and log.log_end_offset < 9:
            context.append_records(1)
        return bool(exists(path))

    context.files.exists = exists_after_an_append
    restore(log)
    context.files.exists = exists
    assert context.segment_offsets()[:3] == [0, 2, 4]
    assert log.log_end_offset > 6
    assert held(context) == list(range(log.log_end_offset))
    end = log.log_end_offset
    restore(log)
    context.open()
    assert held(context) == list(range(end))


def test_an_empty_active_segment_is_there_again(context: LogContext) -> None:
    context.log.roll()
    remove(context, 6)
    restore(context.log)
    context.append_records(1)
    context.open()
    assert held(context) == list(range(7))


def test_a_read_that_is_under_way_ends(context: LogContext) -> None:
    leased = context.log.read(4, max_bytes=1 << 20, upper_offset=6, is_one_batch_guaranteed=True)
    assert leased.file_slice is not None
    remove(context, 4)
    restore(context.log)
    assert len(leased.file_slice.read()) == 2 * SIZE
    leased.file_slice.release()


def test_without_its_directory_a_log_takes_no_more(context: LogContext) -> None:
    """Otherwise the log would acknowledge records that it cannot keep."""
    context.files.remove_tree(context.directory)
    restore(context.log)
    assert context.log.home.is_offline
    with pytest.raises(KafkaError, match="the directory of a partition vanished"):
        context.append_records(1)


def test_a_disk_without_room_costs_nothing_and_is_tried_again() -> None:
    context = LogContext(segment_bytes=1 << 20)
    context.append_records(*[1] * 6, size_bytes=1_000)
    remove(context, 0)
    context.files.space, space = 2_000, context.files.space
    restore(context.log)
    assert not context.log.home.is_offline
    assert not [name for name in context.names() if name.endswith(".tmp")]
    context.files.space = space
    restore(context.log)
    context.open()
    assert held(context) == list(range(6))


@pytest.mark.parametrize("operation", ["append", "sync", "rename"])
def test_a_disk_that_fails_meanwhile_is_offline(operation: str) -> None:
    context = LogContext()
    context.append_records(1, 1)
    remove(context, 0)
    context.files.fail_next(operation, error=errno.EIO, containing=".log.tmp")
    restore(context.log)
    assert context.log.home.is_offline


def test_a_log_that_is_deleted_meanwhile_does_not_come_back() -> None:
    context = LogContext()
    context.append_records(1, 1)
    remove(context, 0)

    def delete(operation: str, path: Path) -> None:
        if operation == "sync" and path.suffix == ".tmp":
            context.log.close_files()

    context.files.on_operation = delete
    restore(context.log)
    assert not [name for name in context.names() if ".log" in name and name.startswith("0" * 20)]


def test_a_segment_that_retention_takes_meanwhile_does_not_come_back() -> None:
    context = LogContext(segment_bytes=2 * SIZE, retention_bytes=SIZE)
    context.append_records(*[1] * 6)
    context.all_values()
    remove(context, 0)

    def retain(operation: str, path: Path) -> None:
        if operation == "sync" and path.suffix == ".tmp":
            context.log.apply_retention(context.clock.now_ms, 6)

    context.files.on_operation = retain
    restore(context.log)
    assert context.segment_offsets() == [4]
    assert not [name for name in context.names() if name in {f"{0:020d}.log", f"{0:020d}.log.tmp"}]


def test_what_cannot_be_looked_at_is_not_taken_for_gone(context: LogContext) -> None:
    def refuse(_path: Path) -> bool:
        raise PermissionError(errno.EACCES, "permission denied")

    context.files.exists = refuse
    restore(context.log)
    assert not context.log.home.is_offline
    assert context.segment_offsets() == [0, 2, 4]


def test_a_running_node_looks_by_itself() -> None:
    async def story(node: Story) -> None:
        node.append()
        node.files.remove(node.log.segments.active.path())
        node.append()
        await trio.sleep(11)
        assert [node.files.exists(segment.path()) for segment in node.log.segments] == [True, True]

    play(story)


def test_a_node_that_stops_looks_once_more() -> None:
    async def story(node: Story) -> None:
        node.append()
        node.files.remove(node.log.segments.active.path())
        path = node.log.segments.active.path()
        await node.manager.close()
        assert node.files.size_bytes(path) == SIZE

    play(story)
