"""Opening a log after a crash: what is cut, what is refused, what is built again."""

from functools import partial
from random import Random

import pytest
import trio

from log_service.common.errors import KafkaError, StorageError
from log_service.common.types import TopicId
from log_service.storage.recovery import OpenedFrom, open_log
from tests.sim.disk import Crashed
from tests.unit.storage.context import NOW_MS, PARTITION, LogContext, batch, idempotent

SIZE = len(batch(1))
ACTIVE = "00000000000000000000.log"


def damage(context: LogContext, position: int, name: str = ACTIVE) -> None:
    context.files.open(context.directory / name).write_at(position, b"\xaa\xaa\xaa")


def test_a_whole_log_is_kept_and_its_indexes_built_again() -> None:
    context = LogContext(index_interval_bytes=1)
    context.append_records(*[1] * 10)
    before = (
        list(context.log.segments.active.offset_index),
        list(context.log.segments.active.time_index),
    )
    context.open()
    assert context.log.log_end_offset == 10
    assert (
        list(context.log.segments.active.offset_index),
        list(context.log.segments.active.time_index),
    ) == before


def test_a_torn_tail_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    context = LogContext()
    context.append_records(1, 1, 1)
    context.files.open(context.directory / ACTIVE).truncate(3 * SIZE - 1)
    context.open(recovery_point=2)
    assert (context.log.log_end_offset, context.log.size_bytes) == (2, 2 * SIZE)
    assert f"cut {SIZE - 1} bytes" in caplog.text
    assert context.append(batch(1)).base_offset == 2


def test_a_tail_that_was_never_written_is_cut() -> None:
    context = LogContext()
    context.append_records(1, 1)
    context.files.open(context.directory / ACTIVE).append_gathered([bytes(5_000)])
    context.open(recovery_point=2)
    assert context.log.size_bytes == 2 * SIZE


def test_what_follows_a_torn_batch_goes_with_it() -> None:
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    damage(context, SIZE + 70, "00000000000000000002.log")
    context.open(recovery_point=2)
    assert context.segment_offsets() == [0, 2]
    assert context.log.log_end_offset == 3
    assert not any(name.startswith("00000000000000000004") for name in context.names())


@pytest.mark.parametrize("recovery_point", [2, 3])
def test_damage_below_the_recovery_point_refuses_the_log_and_changes_nothing(
    recovery_point: int,
) -> None:
    context = LogContext()
    context.append_records(1, 1, 1)
    damage(context, SIZE + 70)
    content = context.files.read_bytes(context.directory / ACTIVE)
    with pytest.raises(StorageError, match="damaged below offset"):
        context.open(recovery_point=recovery_point)
    assert context.files.read_bytes(context.directory / ACTIVE) == content


def test_a_log_shorter_than_its_recovery_point_is_refused() -> None:
    context = LogContext()
    context.append_records(1, 1, 1)
    context.files.open(context.directory / ACTIVE).truncate(SIZE)
    with pytest.raises(StorageError, match="it ends at 1"):
        context.open(recovery_point=3)


def test_a_directory_that_lost_its_segments_is_refused() -> None:
    context = LogContext()
    context.append_records(1)
    context.files.remove(context.directory / ACTIVE)
    with pytest.raises(StorageError, match=r"and not 0{20}\.log"):
        context.open(recovery_point=1)


def test_segments_below_the_recovery_point_are_not_read() -> None:
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    damage(context, SIZE + 70)
    context.open(recovery_point=4)
    assert context.log.log_end_offset == 6


def remove_segment(context: LogContext, base_offset: int, *suffixes: str) -> None:
    for suffix in suffixes:
        context.files.remove(context.directory / f"{base_offset:020d}{suffix}")


def test_a_segment_above_the_recovery_point_that_never_was_durable_ends_the_log() -> None:
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    remove_segment(context, 2, ".index", ".timeindex", ".log")
    context.open(recovery_point=1)
    assert context.segment_offsets() == [0]
    assert context.log.log_end_offset == 2
    assert context.append(batch(1)).base_offset == 2


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("base_offset", [2, 4])
def test_a_segment_whose_index_is_there_vanished_and_is_named(
    base_offset: int, *, is_clean: bool
) -> None:
    """Files of batches are created first and removed last.

    An index alone means that its records were taken away.
    """
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    if is_clean:
        trio.run(context.log.close)
    remove_segment(context, base_offset, ".log")
    with pytest.raises(
        StorageError, match=rf"not {base_offset:020d}\.log, with the records from {base_offset} on"
    ):
        context.open(recovery_point=1, is_clean=is_clean)


def test_an_index_before_the_first_segment_is_left_of_retention_and_goes() -> None:
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    remove_segment(context, 0, ".log")
    context.open(recovery_point=3)
    assert context.segment_offsets() == [2, 4]
    assert not any(name.startswith("0" * 20) for name in context.names())


def test_a_log_that_was_closed_further_on_than_it_ends_is_refused() -> None:
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    trio.run(context.log.close)
    remove_segment(context, 4, ".index", ".timeindex", ".log")
    with pytest.raises(StorageError, match="up to which it was synced: it ends at 4"):
        context.open(recovery_point=6, is_clean=True)


def test_a_read_does_not_step_over_a_segment_that_vanished() -> None:
    """A start looks into no older segment of a log that was closed in order.

    The reader that comes there gets the error.
    """
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    trio.run(context.log.close)
    remove_segment(context, 2, ".index", ".timeindex", ".log")
    context.open(recovery_point=6, is_clean=True)
    read = partial(context.log.read, max_bytes=1_000, upper_offset=6, is_one_batch_guaranteed=True)
    for offset in (2, 3):
        with pytest.raises(KafkaError, match=f"no segment for offsets {offset} to 3"):
            read(offset)
    assert context.files.lease_count == 0
    read(1).file_slice.release()  # type: ignore[union-attr]  # there is one
    assert read(4).segment_base_offset == 4


def test_offsets_that_go_back_end_the_log() -> None:
    context = LogContext()
    context.append_records(1, 1)
    context.files.open(context.directory / ACTIVE).append_gathered([batch(1, base_offset=0)])
    context.open(recovery_point=2)
    assert context.log.log_end_offset == 2


def test_leader_epochs_are_found_in_the_batches() -> None:
    context = LogContext()
    context.append_records(2, leader_epoch=3)
    context.append_records(2, leader_epoch=5)
    assert "leader-epoch-checkpoint" not in context.names()
    context.open()
    assert context.log.leader_epochs.entries == [(3, 0), (5, 2)]


def test_epochs_of_a_tail_that_was_cut_go_with_it() -> None:
    context = LogContext()
    context.append_records(1, leader_epoch=3)
    context.append_records(1, leader_epoch=5)
    context.log.leader_epochs.maybe_write()
    context.files.open(context.directory / ACTIVE).truncate(SIZE + 5)
    context.open()
    assert context.log.leader_epochs.entries == [(3, 0)]


def test_after_a_clean_stop_nothing_is_verified() -> None:
    context = LogContext(segment_bytes=2 * SIZE)
    context.append_records(*[1] * 6)
    trio.run(context.log.close)
    damage(context, 70)
    context.open(is_clean=True)
    assert (context.log.log_end_offset, context.log.recovery_point) == (6, 6)
    assert context.files.open_count <= 2  # the two that this test left open


def test_a_clean_stop_leaves_whole_indexes_and_a_snapshot() -> None:
    context = LogContext()
    context.append(idempotent(7, 0, 3))
    trio.run(context.log.close)
    assert context.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
    ]
    content = context.files.read_bytes(context.directory / "00000000000000000000.timeindex")
    assert content == (NOW_MS + 2).to_bytes(8, "big") + (2).to_bytes(4, "big")


def test_missing_index_files_are_built_again_at_the_start() -> None:
    context = LogContext(segment_bytes=10 * SIZE, index_interval_bytes=1)
    context.append_records(*[1] * 15)
    trio.run(context.log.close)
    for name in ("00000000000000000000.index", "00000000000000000000.timeindex"):
        context.files.remove(context.directory / name)
    context.open(is_clean=True)
    assert "00000000000000000000.index" in context.names()
    assert context.base_offsets(5, max_bytes=1) == [5]


def test_leftovers_go() -> None:
    context = LogContext()
    context.append_records(1)
    for name in ("00000000000000000007.log.deleted", "00000000000000000009.log.cleaned", "x.tmp"):
        context.files.open(context.directory / name).append_gathered([b"x"])
    context.open()
    assert [name for name in context.names() if not name.startswith("00000000000000000000")] == []


def test_a_start_offset_behind_the_end_begins_there() -> None:
    context = LogContext()
    context.append_records(1, 1)
    context.files.open(context.directory / ACTIVE).truncate(SIZE)
    context.open(log_start_offset=2)
    assert (context.log.log_start_offset, context.log.log_end_offset) == (2, 2)
    assert context.segment_offsets() == [2]


def test_another_topic_id_is_refused() -> None:
    context = LogContext()
    first, second = TopicId(__import__("uuid").UUID(int=1)), TopicId(__import__("uuid").UUID(int=2))
    opened = open_log(
        context.files,
        context.clock,
        context.directory,
        PARTITION,
        context.config,
        topic_id=first,
        known=OpenedFrom(),
    )
    assert opened.topic_id == first
    assert context.open().topic_id == first
    with pytest.raises(StorageError, match="topic id"):
        open_log(
            context.files,
            context.clock,
            context.directory,
            PARTITION,
            context.config,
            topic_id=second,
            known=OpenedFrom(),
        )


@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_crash_leaves_recovers_to_a_prefix_with_all_that_was_synced(seed: int) -> None:
    rng = Random(seed)
    context = LogContext(
        segment_bytes=rng.choice([200, 500, 5_000]), index_interval_bytes=rng.choice([1, 100, 4096])
    )
    written: list[bytes] = []
    synced_count = 0
    for number in range(rng.randint(1, 40)):
        value = b"%d" % number * rng.randint(1, 30)
        context.append(idempotent(7, number, value=value), leader_epoch=number // 7)
        written.append(value)
        if rng.random() < 0.15:
            synced_count = trio.run(context.log.sync)
    for _ in range(rng.randint(1, 3)):  # a crash in the middle of a recovery, too
        context.files.crash(rng)
        try:
            context.open(recovery_point=synced_count)
            if rng.random() < 0.5:
                synced_count = trio.run(context.log.sync)
        except Crashed:
            continue
    values = context.all_values()
    assert [value for _, value in values] == written[: len(values)]
    assert len(values) >= synced_count
    assert context.log.log_end_offset == len(values)
    for segment in context.log.segments:
        believed = list(segment.offset_index)
        segment.rebuild_indexes()
        assert believed == list(segment.offset_index)
    if values:
        assert context.append(
            idempotent(7, len(values) - 1, value=written[len(values) - 1])
        ).is_duplicate
    assert context.append(idempotent(7, len(values))).base_offset == len(values)


def test_a_producer_without_records_that_a_crash_forgot_does_not_come_back() -> None:
    """The next clean start read its sequence from a snapshot that a stop before had left."""
    context = LogContext(segment_bytes=400, index_interval_bytes=1, retention_ms=1_000)
    context.append(bytes(idempotent(9, 0)), leader_epoch=0)
    context.reopen_clean()
    context.log.advance_log_start_offset(1)
    context.reopen_clean()
    known = {"recovery_point": context.log.recovery_point, "log_start_offset": 1}
    context.files.crash(Random(0))
    context.open(**known)
    forgotten = context.log.producer_state.get(9)
    context.reopen_clean()
    assert context.log.producer_state.get(9) == forgotten
