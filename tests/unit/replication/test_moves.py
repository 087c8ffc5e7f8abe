"""Replicas move between the log directories of their node.

Topics whose many logs go are removed in turns.
"""

import errno
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId
from log_service.protocol.stored.metadata_records import PartitionRecord, TopicRecord
from log_service.replication.log_deletions import DELETED_AT_ONCE
from log_service.storage.future_logs import COPIED_AT_ONCE, MOVED_HERE
from tests.unit.replication.context import (
    LOG_DIR,
    NODE,
    OTHER_DIR,
    Hearing,
    ReplicaContext,
    key_of,
    run_story,
    running,
    topic_id,
)


async def settled(context: ReplicaContext) -> None:
    while context.logs.futures.logs:  # noqa: ASYNC110 - nothing tells that a copy has gone
        await trio.sleep(0.01)


def test_a_partition_is_served_from_where_it_moved_to() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic()
            told: list[str] = []
            context.replicas.add_listener(Hearing(told))
            context.produce(b"one")
            partition = context.partition()
            assert partition.log is not None
            other = OTHER_DIR if partition.log.home.path == LOG_DIR else LOG_DIR
            context.replicas.move("a", 0, str(other))
            context.produce(b"two")
            await trio.sleep(0.1)
            await settled(context)
            assert partition.log.home.path == other
            assert partition.high_watermark == 2
            assert context.produce(b"three") == 2
            assert told == ["moved a-0"]

    run_story(main)


def test_thousands_of_moves_take_their_turns() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic("wide", partitions=300)
            await trio.sleep(1)
            for index in range(300):
                context.produce(b"value", name="wide", index=index)
                context.replicas.move("wide", index, str(OTHER_DIR))
            moving = {
                log.topic_partition
                for log in context.logs.logs.values()
                if log.home.path == LOG_DIR
            }
            most_waiting = 0
            while any(context.logs.logs[each].home.path == LOG_DIR for each in moving):
                most_waiting = max(most_waiting, len(context.logs.futures.logs))
                await trio.lowlevel.checkpoint()
            assert most_waiting > COPIED_AT_ONCE, "a move that waits for its turn is seen"
            assert {log.home.path for log in context.logs.logs.values()} == {OTHER_DIR}
            assert all(log.log_end_offset == 1 for log in context.logs.logs.values())

    run_story(main)


def test_a_change_of_mind_gives_the_move_up() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic()
            log = context.partition().log
            assert log is not None
            other = OTHER_DIR if log.home.path == LOG_DIR else LOG_DIR
            context.replicas.move("a", 0, str(other))
            context.replicas.move("a", 0, str(log.home.path))
            await trio.sleep(0.1)
            await settled(context)
            assert context.partition().log is log

    run_story(main)


def other_directory(context: ReplicaContext) -> Path:
    log = context.partition().log
    assert log is not None
    return OTHER_DIR if log.home.path == LOG_DIR else LOG_DIR


def test_a_repeated_request_lets_the_move_go_on() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic()
            target = str(other_directory(context))
            context.replicas.move("a", 0, target)
            (scope,) = context.replicas.moves.scopes.values()
            context.replicas.move("a", 0, target)
            assert not scope.cancel_called

    run_story(main)


def test_a_move_that_failed_may_be_asked_for_again() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic()
            context.produce(b"one")
            target = other_directory(context)
            context.files.fail_next("open", error=errno.ENOSPC, containing="-future")
            context.replicas.move("a", 0, str(target))
            await trio.sleep(1)
            assert other_directory(context) == target
            context.replicas.move("a", 0, str(target))
            await trio.sleep(1)
            assert other_directory(context) != target
            assert not context.replicas.moves.scopes

    run_story(main)


@pytest.mark.parametrize("is_target_well", [True, False])
def test_a_move_that_a_stop_interrupted_begins_again_where_its_target_is_well(
    *, is_target_well: bool
) -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic(partitions=2)
            context.produce(b"one")
            await context.partition().sync()
            files, target = context.files, other_directory(context)
        copy = target / f"a-0.{'0a' * 16}-future"
        files.make_directory(copy)
        files.write_atomically(copy / MOVED_HERE, b"")
        async with running(files, log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            if not is_target_well:
                next(home for home in context.logs.directories if home.path == target).fail(
                    OSError(errno.EIO, "the disk is gone")
                )
            context.create_topic(partitions=2)
            assert (other_directory(context), context.partition().high_watermark) == (target, 1)
            await trio.sleep(1)
            assert (other_directory(context) != target) is is_target_well
            assert context.produce(b"two") == 1

    run_story(main)


def test_a_topic_that_is_deleted_on_its_way_leaves_nothing() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic()
            context.produce(b"one")
            log = context.partition().log
            assert log is not None
            context.replicas.move("a", 0, str(OTHER_DIR if log.home.path == LOG_DIR else LOG_DIR))
            await trio.lowlevel.checkpoint()
            context.delete_topic()
            await trio.sleep(0.1)
            await settled(context)
            assert key_of() not in context.logs.logs
            await context.logs.removals.run_due(context.env.clock.monotonic_ms() + 120_000)
            names = [
                name for path in (LOG_DIR, OTHER_DIR) for name in context.files.list_directory(path)
            ]
            assert not [name for name in names if name.startswith("a-0")]

    run_story(main)


def test_a_replica_whose_own_directory_is_offline_cannot_move() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic()
            target = other_directory(context)
            next(home for home in context.logs.directories if home.path != target).fail(
                OSError(errno.EIO, "the disk is gone")
            )
            with pytest.raises(KafkaError) as caught:
                context.replicas.move("a", 0, str(target))
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    run_story(main)


def test_what_is_not_there_cannot_move() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic()
            cases = {
                ("a", 0, "/elsewhere"): ErrorCode.LOG_DIR_NOT_FOUND,
                ("a", 9, str(LOG_DIR)): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("b", 0, str(LOG_DIR)): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            for case, code in cases.items():
                with pytest.raises(KafkaError) as caught:
                    context.replicas.move(*case)
                assert caught.value.code == code

    run_story(main)


def test_a_topic_of_thousands_of_partitions_goes_in_turns() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("wide", partitions=1_000)
            await trio.sleep(1)
            assert len(context.logs.logs) == 1_000
            context.delete_topic("wide")
            assert not context.replicas.partitions, "nothing is served any more"
            left = [len(context.logs.logs)]
            while context.logs.logs:
                await trio.lowlevel.checkpoint()
                left.append(len(context.logs.logs))
            assert left[0] == 1_000 - DELETED_AT_ONCE
            # Two turns of the other task, at most.
            assert max(before - after for before, after in pairwise(left)) <= 2 * DELETED_AT_ONCE

    run_story(main)


def test_a_topic_may_come_back_while_the_logs_of_the_old_one_go() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("wide", partitions=300)
            await trio.sleep(1)
            context.produce(b"old", name="wide", index=299)
            context.delete_topic("wide")
            context.create_topic("wide", partitions=300, identity=TopicId(UUID(int=77)))
            await trio.sleep(1)
            assert len(context.replicas.partitions) == len(context.logs.logs) == 300
            assert context.partition("wide", 299).log_start_offset == 0
            assert context.produce(b"new", name="wide", index=299) == 0
            assert not [
                name for name in context.files.list_directory(LOG_DIR) if name.endswith("-stray")
            ]

    run_story(main)


def test_what_is_left_of_a_deleted_topic_goes_before_a_stop() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("wide", partitions=300)
            await trio.sleep(1)
            context.delete_topic("wide")
            context.replicas.deletions.finish()
            assert not context.logs.logs

    run_story(main)


def assign(context: ReplicaContext, directory_id: UUID, name: str = "a") -> None:
    """Create a topic whose one replica the controller assigned to a directory."""
    identity = topic_id(name)
    record = PartitionRecord(
        topic_id=identity,
        partition_id=0,
        replicas=[NODE],
        isr=[NODE],
        leader=NODE,
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_id],
    )
    context.publish(TopicRecord(name=name, topic_id=identity), record)


def test_a_log_begins_in_the_directory_to_which_the_controller_assigned_it() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.logs.directory_ids.update({LOG_DIR: UUID(int=501), OTHER_DIR: UUID(int=502)})
            for number, name in enumerate("abcd"):
                assign(context, UUID(int=501 + number // 2), name)
            homes = [
                log.home.path for name in "abcd" if (log := context.partition(name).log) is not None
            ]
            assert homes == [LOG_DIR, LOG_DIR, OTHER_DIR, OTHER_DIR]
            assign(context, UUID(int=1), "anywhere")
            assert not context.partition("anywhere").is_offline

    run_story(main)


def test_a_log_whose_directory_may_have_failed_begins_nowhere_else() -> None:
    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.logs.directory_ids.update({LOG_DIR: UUID(int=501), OTHER_DIR: UUID(int=502)})
            context.create_topic("seed", partitions=2)
            failed = next(home for home in context.logs.directories if home.path == OTHER_DIR)
            failed.fail(OSError(errno.EIO, "the disk is gone"))
            assign(context, UUID(int=502), "a")
            assert context.partition("a").is_offline
            assign(context, UUID(int=501), "b")
            assert not context.partition("b").is_offline
            assign(context, UUID(int=1), "c")
            assert context.partition("c").log is not None

    run_story(main)
