"""Durability: what a sync covers, how callers share one, what a failed one means."""

import errno
from random import Random

import pytest
import trio
from trio.testing import MockClock

from log_service.common.errors import ErrorCode, KafkaError
from tests.unit.storage.context import NOW_MS, LogContext, batch

SIZE = len(batch(1))


async def sync_or_note(context: LogContext, refusals: list[str]) -> None:
    try:
        await context.log.sync()
    except KafkaError as error:
        refusals.append(error.code.name)


def test_a_sync_moves_the_recovery_point_to_the_end() -> None:
    context = LogContext()
    context.append_records(2)
    assert context.log.recovery_point == 0
    assert trio.run(context.log.sync) == 2
    assert context.log.recovery_point == 2


def test_a_second_sync_without_appends_touches_nothing() -> None:
    context = LogContext()
    context.append_records(2)
    trio.run(context.log.sync)
    count = context.files.sync_count
    trio.run(context.log.sync)
    assert context.files.sync_count == count


def test_appends_during_a_sync_wait_for_the_next() -> None:
    context = LogContext()
    context.files.sync_seconds = (0.1, 0.1)

    async def main() -> None:
        context.append_records(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.log.sync)
            await trio.sleep(0.05)
            context.append_records(1)
        assert context.log.recovery_point == 1
        assert await context.log.sync() == 2

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_rolled_segment_is_synced_with_its_indexes_before_the_point_passes_it() -> None:
    context = LogContext(segment_bytes=2 * SIZE, index_interval_bytes=1)
    context.append_records(*[1] * 5)
    assert trio.run(context.log.sync_rolled) == 4
    context.files.crash()
    context.open(recovery_point=4)
    assert context.segment_offsets()[:2] == [0, 2]
    assert [len(segment.offset_index) for segment in list(context.log.segments)[:2]] == [1, 1]
    assert context.files.read_bytes(context.directory / "00000000000000000000.index") != b""


@pytest.mark.parametrize("seed", range(8))
def test_a_segment_that_rolls_with_all_records_synced_leaves_whole_indexes(seed: int) -> None:
    context = LogContext(index_interval_bytes=1)
    context.append_records(1, 1, 1)
    trio.run(context.log.sync)
    context.log.roll()
    context.files.crash(Random(seed))
    context.open(recovery_point=3)
    oldest = context.log.segments[0]
    assert (len(oldest.offset_index), oldest.max_timestamp, oldest.max_timestamp_offset) == (
        2,
        NOW_MS,
        0,
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_segment_that_rolls_while_it_is_synced_leaves_whole_indexes(seed: int) -> None:
    context = LogContext(index_interval_bytes=1)
    context.files.sync_seconds = (0.1, 0.1)

    async def main() -> None:
        context.append_records(1, 1, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.log.sync)
            await trio.sleep(0.05)
            context.log.roll()
            context.append_records(1)
        await context.log.sync()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert context.log.recovery_point == 4
    context.files.crash(Random(seed))
    context.open(recovery_point=4)
    oldest = context.log.segments[0]
    assert (len(oldest.offset_index), oldest.max_timestamp, oldest.max_timestamp_offset) == (
        2,
        NOW_MS,
        0,
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_sync_waits_for_the_names_that_another_is_making_durable(seed: int) -> None:
    """Two syncs ran at once, after a roll.

    The second found nothing left to do but its own file, whose name was not durable yet.
    """
    context = LogContext()

    async def main() -> None:
        context.append_records(1)
        await context.log.sync()
        context.files.pool_seconds = (0.1, 0.1)
        context.log.roll()
        context.append_records(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.log.sync_rolled)
            await trio.sleep(0.05)
            assert await context.log.sync() == 2
            context.files.crash(Random(seed))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert context.open(recovery_point=1).log_end_offset == 2


def test_a_sync_that_waited_for_one_that_failed_fails_too() -> None:
    context = LogContext()
    refusals: list[str] = []

    async def main() -> None:
        context.append_records(1)
        context.files.pool_seconds = (0.1, 0.1)
        context.files.fail_next("sync_directory")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync_or_note, context, refusals)
            await trio.sleep(0.05)
            nursery.start_soon(sync_or_note, context, refusals)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert refusals == ["KAFKA_STORAGE_ERROR"] * 2
    assert context.log.recovery_point == 0


@pytest.mark.parametrize("is_rolled", [False, True])
def test_a_sync_that_came_while_another_failed_does_not_end_as_if_all_were_well(
    is_rolled: bool,
) -> None:
    """The operating system reports a failed write once.

    A second sync of the same file at that time succeeds.
    """
    context = LogContext()
    refusals: list[str] = []

    async def main() -> None:
        context.append_records(1)
        await context.log.sync()
        context.files.sync_seconds = context.files.pool_seconds = (0.1, 0.1)
        context.append_records(1)
        context.files.fail_next("sync", containing=".log")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sync_or_note, context, refusals)
            await trio.sleep(0.05)
            if is_rolled:
                context.log.roll()
            context.append_records(1)
            nursery.start_soon(sync_or_note, context, refusals)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert refusals == ["KAFKA_STORAGE_ERROR"] * 2
    assert context.log.recovery_point == 1


def test_one_sync_serves_everybody_who_came_while_another_was_under_way() -> None:
    context = LogContext()

    async def main() -> None:
        context.append_records(1)
        await context.log.sync()
        context.files.sync_seconds = (0.1, 0.1)
        context.append_records(1)
        before = context.files.sync_count
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.log.sync)
            await trio.sleep(0.05)
            for _ in range(5):
                context.append_records(1)
                nursery.start_soon(context.log.sync)
        assert context.files.sync_count == before + 2

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert context.log.recovery_point == 7


def test_leader_epochs_and_topic_id_are_durable_with_the_first_sync() -> None:
    context = LogContext()
    context.append_records(1, leader_epoch=4)
    trio.run(context.log.sync)
    context.files.crash()
    assert context.files.read_bytes(context.directory / "leader-epoch-checkpoint") == b"0\n1\n4 0\n"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_is_final(error: int) -> None:
    context = LogContext()
    context.append_records(1)
    context.files.fail_next("sync", error=error, containing=".log")
    failures: list[OSError] = []
    context.log.home.on_failed = lambda _directory, failure: failures.append(failure)
    with pytest.raises(KafkaError) as caught:
        trio.run(context.log.sync)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(failures) == 1
    assert context.log.recovery_point == 0
    with pytest.raises(KafkaError):
        trio.run(context.log.sync)
    with pytest.raises(KafkaError):
        context.append_records(1)


def test_a_full_disk_that_does_not_take_the_leader_epochs_costs_one_sync() -> None:
    context = LogContext()
    context.append_records(1, leader_epoch=4)
    context.files.fail_next("append", error=errno.ENOSPC, containing="leader-epoch-checkpoint")
    with pytest.raises(KafkaError, match="make room"):
        trio.run(context.log.sync)
    assert not context.log.home.is_offline
    assert context.log.recovery_point == 0
    assert trio.run(context.log.sync) == 1
    context.files.crash()
    assert context.files.read_bytes(context.directory / "leader-epoch-checkpoint") == b"0\n1\n4 0\n"


@pytest.mark.parametrize("seed", range(4))
def test_what_a_failed_sync_left_in_memory_is_written_again_by_the_next_start(seed: int) -> None:
    """The next sync would succeed without writing: the pages count as written. The process starts
    again, the machine does not.
    """
    context = LogContext(segment_bytes=3 * SIZE, index_interval_bytes=1)
    context.append_records(1)
    trio.run(context.log.sync)
    context.append_records(1, 1, 1)
    context.files.fail_next("sync", containing=".log")
    with pytest.raises(KafkaError):
        trio.run(context.log.sync)
    context.log.close_files()
    assert "sync-failed" in context.names()
    context.open(recovery_point=1)
    assert trio.run(context.log.sync) == 4
    assert "sync-failed" not in context.names()
    context.files.crash(Random(seed))
    assert context.open(recovery_point=4).log_end_offset == 4


def test_what_is_written_again_is_found_by_time_after_it_rolled() -> None:
    context = LogContext(index_interval_bytes=1)
    context.append_records(1, 1)
    context.files.fail_next("sync", containing=".log")
    with pytest.raises(KafkaError):
        trio.run(context.log.sync)
    context.open().roll()
    context.append_records(1)
    oldest = context.log.segments[0]
    assert (oldest.max_timestamp, list(oldest.time_index)) == (NOW_MS, [(NOW_MS, 0)])
    context.reopen_clean()
    assert context.log.segments[0].max_timestamp == NOW_MS


def test_a_sync_that_fails_again_keeps_the_marker() -> None:
    context = LogContext()
    context.append_records(1)
    context.files.fail_next("sync", containing=".log", count=2)
    with pytest.raises(KafkaError):
        trio.run(context.log.sync)
    with pytest.raises(OSError, match="injected"):
        context.open()
    assert "sync-failed" in context.names()
    assert context.open().log_end_offset == 1
    assert "sync-failed" not in context.names()


def test_missing_descriptors_do_not_cost_the_directory() -> None:
    context = LogContext(segment_bytes=SIZE)
    context.append_records(1, 1)
    context.log.unload_idle()
    context.log.unload_idle()
    context.files.fail_next("open", error=errno.EMFILE)
    with pytest.raises(KafkaError):
        trio.run(context.log.sync)
    assert not context.log.home.is_offline
    assert trio.run(context.log.sync) == 2
    assert context.log.leader_epochs.is_dirty is False


def test_a_truncation_during_a_sync_keeps_the_point_down() -> None:
    context = LogContext()
    context.files.sync_seconds = (0.1, 0.1)

    async def main() -> None:
        context.append_records(1, 1, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.log.sync)
            await trio.sleep(0.05)
            context.log.truncate_to(1)
            context.append_records(1, 1, 1)
        assert context.log.recovery_point == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_closing_a_log_of_a_failed_directory_only_closes_it() -> None:
    context = LogContext()
    context.append_records(1)
    context.log.home.fail(OSError(errno.EIO, "broken"))
    trio.run(context.log.close)
    assert context.log.is_closed
    assert "leader-epoch-checkpoint" not in context.names()


def test_a_log_that_is_closing_takes_nothing_more() -> None:
    context = LogContext()
    context.files.sync_seconds = (0.1, 0.1)

    async def main() -> None:
        context.append_records(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.log.close)
            await trio.sleep(0.05)
            with pytest.raises(KafkaError):
                context.append_records(1)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    context.open(is_clean=True)
    assert context.log.log_end_offset == 1


def test_closing_twice_is_closing_once() -> None:
    context = LogContext()
    context.append_records(1)
    trio.run(context.log.close)
    trio.run(context.log.close)
    assert context.files.open_count == 0


def test_a_segment_that_was_begun_and_not_written_to_before_a_clean_stop_keeps_its_name() -> None:
    """Closing wrote nothing, as no offset had changed.

    Records that were appended to that segment after the start were lost with its name.
    """
    context = LogContext()
    context.append_records(2)
    context.reopen_clean()
    context.log.roll()
    context.reopen_clean()
    context.append_records(1)
    assert trio.run(context.log.sync) == 3
    context.files.crash()
    context.open(recovery_point=3)
    assert context.log.log_end_offset == 3
