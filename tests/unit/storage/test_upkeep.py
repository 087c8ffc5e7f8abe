"""Periodic work on virtual time: when it is due, and that an idle node does nothing."""

import pytest
import trio

from log_service.config.views import FOREVER_MS, LogConfig
from log_service.storage.checkpoints import read_offsets
from log_service.storage.segment_indexes import SegmentIndexes
from tests.unit.storage.context import idempotent
from tests.unit.storage.upkeep_story import ROOT, SIZE, A, Story, play


def test_retention_runs_at_its_interval_and_files_go_after_the_delay() -> None:
    async def story(node: Story) -> None:
        node.append()
        node.append()
        await trio.sleep(12)
        assert node.log.log_start_offset == 2
        assert any(name.endswith(".deleted") for name in node.files.list_directory(ROOT / "a-0"))
        await trio.sleep(60)
        assert not any(
            name.endswith(".deleted") for name in node.files.list_directory(ROOT / "a-0")
        )

    play(story, LogConfig(retention_ms=1_000), retention_check_interval_ms=10_000)


def test_recovery_points_are_written_when_they_changed() -> None:
    async def story(node: Story) -> None:
        node.append()
        await node.log.sync()
        await trio.sleep(12)
        assert read_offsets(node.files, ROOT / "recovery-point-offset-checkpoint") == {A: 1}
        count = node.files.sync_count
        await trio.sleep(100)
        assert node.files.sync_count == count

    play(story, flush_offset_checkpoint_interval_ms=10_000)


def test_logs_are_flushed_after_flush_ms() -> None:
    async def story(node: Story) -> None:
        node.append()
        await trio.sleep(4)
        assert node.log.recovery_point == 0
        await trio.sleep(4)
        assert node.log.recovery_point == 1

    play(story, LogConfig(flush_ms=5_000), flush_scheduler_interval_ms=1_000)


def test_segments_that_rolled_are_synced_in_the_background() -> None:
    async def story(node: Story) -> None:
        for _ in range(3):
            node.append()
        await trio.sleep(0.1)
        assert node.log.recovery_point == 2

    play(story, LogConfig(segment_bytes=SIZE))


def test_producers_expire() -> None:
    async def story(node: Story) -> None:
        node.append(idempotent(7, 0))
        await trio.sleep(700)
        assert len(node.log.producer_state) == 0

    play(story, producer_id_expiration_ms=60_000)


def test_idle_files_are_closed() -> None:
    async def story(node: Story) -> None:
        node.append()
        assert node.files.open_count == 1
        await trio.sleep(700)
        assert node.files.open_count == 0

    play(story)


@pytest.mark.parametrize("end", ["roll", "close"])
def test_a_segment_that_ends_after_a_rest_leaves_its_largest_timestamp(end: str) -> None:
    """Retention and questions for a time go by it, after the next start too."""

    async def story(node: Story) -> None:
        node.append()
        node.log.segments.active.finish_indexes()  # as before a stop in order; the segment goes on after the next start
        await trio.sleep(10)
        node.append()
        last = node.log.segments.active.max_timestamp
        await trio.sleep(700)
        assert node.files.open_count == 0
        if end == "roll":
            assert node.log.roll()
        else:
            await node.log.close()
        read_anew = SegmentIndexes(node.files, ROOT / "a-0", 0, LogConfig())
        read_anew.load(2 * SIZE)
        assert (read_anew.max_timestamp, read_anew.max_timestamp_offset) == (last, 1)

    play(story)


def test_a_full_disk_is_looked_at_until_there_is_room() -> None:
    async def story(node: Story) -> None:
        node.files.space = 1
        node.manager.directories[0].check_space()
        await trio.sleep(1)
        node.files.space = 1 << 30
        await trio.sleep(5)
        node.append()

    play(story)


def test_a_failing_checkpoint_takes_the_directory_offline_and_the_task_goes_on() -> None:
    async def story(node: Story) -> None:
        node.append()
        await node.log.sync()
        node.files.fail_next("open", containing="recovery-point")
        await trio.sleep(30)
        assert node.manager.directories[0].is_offline

    play(story, flush_offset_checkpoint_interval_ms=10_000)


def test_a_deleted_log_goes_without_waiting_for_another_deadline() -> None:
    async def story(node: Story) -> None:
        node.manager.delete_log(A)
        await trio.sleep(61)
        assert [name for name in node.files.list_directory(ROOT) if name.endswith("-delete")] == []

    play(story, retention_check_interval_ms=FOREVER_MS)
