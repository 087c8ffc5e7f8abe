"""Indexes of large segments turn out damaged or gone when a read needs them.

They are built again in the pool, not on the event loop.
"""

from pathlib import Path

import pytest
import trio

from log_service.common.errors import KafkaError
from log_service.config.views import LogConfig
from log_service.storage import segment as segment_module
from log_service.storage.log_reader import NOTHING, LogSlice
from tests.unit.storage.context import NOW_MS, LogContext, batch
from tests.unit.storage.upkeep_story import SIZE, Story, play

CONFIG = LogConfig(segment_bytes=6 * SIZE, index_interval_bytes=1)


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "SLOWLY_REBUILT_BYTES", SIZE)


def read(node: Story, offset: int) -> LogSlice:
    found = node.log.read(
        offset, max_bytes=SIZE, upper_offset=node.log.log_end_offset, is_one_batch_guaranteed=True
    )
    if found.file_slice is not None:
        found.file_slice.release()
    return found


async def lose_index(node: Story, content: bytes | None = None) -> None:
    """Let two segments stand and the index of the older be gone, or hold ``content``."""
    while len(node.log.segments) < 3:
        node.append()
    await trio.sleep(1)  # what rolled is synced
    first = node.log.segments[0]
    first.unload()
    node.files.remove(first.path(".index"))
    if content is not None:
        node.files.open(first.path(".index")).append_gathered([content])


@pytest.mark.parametrize("content", [None, b"", b"x", bytes(64)])
def test_a_reader_finds_nothing_until_they_are_built_in_the_pool(content: bytes | None) -> None:
    async def story(node: Story) -> None:
        await lose_index(node, content)
        before = node.log.segments[0].size_bytes
        appended: list[str] = []
        node.files.on_operation = lambda operation, path: (
            appended.append(operation) if path.name.endswith("index.tmp") else None
        )
        assert read(node, 3) is NOTHING
        assert read(node, 3) is NOTHING
        assert not appended
        await trio.sleep(1)
        assert appended.count("sync") == 2
        assert read(node, 3).position == 3 * SIZE
        assert node.log.segments[0].size_bytes == before
        assert node.files.exists(node.log.segments[0].path(".index"))

    play(story, CONFIG)


def test_who_reads_elsewhere_does_not_wait() -> None:
    async def story(node: Story) -> None:
        await lose_index(node)
        assert read(node, 7).position == SIZE
        assert read(node, 12).position == 0

    play(story, CONFIG)


def test_retention_waits_until_it_is_known_how_old_a_segment_is() -> None:
    async def story(node: Story) -> None:
        await lose_index(node)
        later_ms = node.manager.env.clock.wall_ms() + 8 * 86_400_000
        assert node.log.apply_retention(later_ms, node.log.log_end_offset).segments_deleted == 0
        await trio.sleep(1)
        assert node.log.apply_retention(later_ms, node.log.log_end_offset).segments_deleted > 0

    play(story, CONFIG)


def test_a_rebuild_that_fails_is_told_to_who_reads_next(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Story) -> None:
        await lose_index(node)
        path = node.log.segments[0].path()
        node.files.open(path).write_at(2 * SIZE, bytes(SIZE))
        assert read(node, 1) is NOTHING
        await trio.sleep(1)
        assert "could not be built again" in caplog.text
        assert read(node, 1).position == SIZE
        with pytest.raises(KafkaError):
            read(node, 3)

    play(story, CONFIG)


def test_a_file_that_is_gone_too_is_told() -> None:
    async def story(node: Story) -> None:
        await lose_index(node)
        node.files.remove(node.log.segments[0].path())
        assert read(node, 1) is NOTHING
        await trio.sleep(1)
        with pytest.raises(KafkaError, match="no such file"):
            read(node, 1)

    play(story, CONFIG)


def test_who_reads_while_they_are_built_does_not_take_a_part_for_all() -> None:
    """Another thread noted a part of the index, which ended the segment for readers.

    They stepped over the rest, and lookups by time missed it.
    """
    context = LogContext(segment_bytes=40_000, index_interval_bytes=1)
    for index in range(300):
        context.append(batch(timestamp=NOW_MS + index, value=b"x" * 400))
    first = context.log.segments[0]
    last = context.log.segments[1].base_offset - 1
    first.unload()
    context.files.remove(first.path(".index"))
    found: list[object] = []
    is_nested = False

    def look(operation: str, path: Path) -> None:
        nonlocal is_nested
        if operation == "read" and path == first.path() and not is_nested:
            is_nested = True
            found.append(context.base_offsets(last, max_bytes=1))
            found.append(context.log.offset_for_timestamp(NOW_MS + last).offset)  # type: ignore[union-attr]  # there is one
            is_nested = False

    segment_module.SLOWLY_REBUILT_BYTES = 1 << 30
    context.files.on_operation = look
    first.rebuild_indexes()
    assert len(found) > 2
    assert found == [[last], last] * (len(found) // 2)
