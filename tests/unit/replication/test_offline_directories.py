"""A replica's log directory is offline at a start (KIP-858).

A stale log of it is in another directory.
"""

import errno
from pathlib import Path
from uuid import UUID

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.metadata.partition import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from log_service.protocol.stored.metadata_records import PartitionRecord, TopicRecord
from log_service.storage.checkpoints import read_offsets
from log_service.storage.rivals import FoundLog
from tests.sim import MemoryFiles, VirtualClock
from tests.unit.replication.context import (
    LOG_DIR,
    NODE,
    OTHER_DIR,
    ReplicaContext,
    key_of,
    run_story,
    running,
    topic_id,
)

BOTH = (LOG_DIR, OTHER_DIR)
THIRD_DIR = Path("/data/third")
UNKNOWN = UUID(int=777)


def publish(context: ReplicaContext, directory_id: UUID) -> None:
    """Hand out an image that has the replica in a directory."""
    record = PartitionRecord(
        topic_id=topic_id("a"),
        partition_id=0,
        replicas=[NODE],
        isr=[NODE],
        leader=NODE,
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_id],
    )
    context.publish(TopicRecord(name="a", topic_id=topic_id("a")), record)


async def written(files: MemoryFiles, path: Path, *values: bytes) -> UUID:
    """Leave a log of the partition in a directory, closed in order, and return the directory's id."""
    async with running(files, log_dirs=(path,)) as context:
        publish(context, UNASSIGNED_DIRECTORY)
        context.produce(*values)
        await context.replicas.checkpoint_high_watermarks()
        await context.logs.close()
        return context.logs.directory_ids[path]


async def two_logs(*, is_loaded_late: bool) -> tuple[MemoryFiles, UUID, UUID]:
    """Write a stale log in the first directory, and the newer one in the other, which fails.

    Return their ids, too.
    """
    files = MemoryFiles(clock=VirtualClock())
    stale_id = await written(files, LOG_DIR, b"stale")
    newer_id = await written(files, OTHER_DIR, b"one", b"two")
    if is_loaded_late:  # its meta.properties could be read
        files.fail_next("read", containing=str(OTHER_DIR / "recovery-point"))
    else:
        files.disk.failed = OTHER_DIR
    return files, stale_id, newer_id


def settle(context: ReplicaContext, directory_id: UUID) -> None:
    def assigned(_log: FoundLog) -> UUID:
        return directory_id

    context.logs.unserved.settle_rivals(lambda _log: True, assigned)


def content(files: MemoryFiles, path: Path) -> dict[str, bytes]:
    return {name: files.read_bytes(path / name) for name in files.list_directory(path)}


@pytest.mark.parametrize("is_loaded_late", [False, True])
def test_a_stale_log_is_not_served_while_the_directory_that_counts_is_offline(
    caplog: pytest.LogCaptureFixture, *, is_loaded_late: bool
) -> None:
    """It was, and the controller was told that it is the one that counts."""

    async def main() -> None:
        files, _, newer_id = await two_logs(is_loaded_late=is_loaded_late)
        before = content(files, LOG_DIR / "a-0")
        async with running(files, log_dirs=BOTH) as context:
            settle(context, newer_id)
            publish(context, newer_id)
            assert context.partition().log is None
            with pytest.raises(KafkaError) as caught:
                context.produce(b"new")
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            context.create_topic("b")
            context.produce(b"new", name="b")
            await trio.sleep(60)
            await context.logs.apply_retention()
            await context.replicas.checkpoint_high_watermarks()
            await context.logs.close()
        assert content(files, LOG_DIR / "a-0") == before
        assert read_offsets(files, LOG_DIR / "replication-offset-checkpoint") == {
            key_of(): 1,
            key_of("b"): 1,
        }
        assert (
            f"a-0 is offline: the metadata has it in log directory {newer_id}, which is not online"
            in caplog.text
        )
        files.disk.failed = None
        async with running(files, log_dirs=BOTH) as context:
            settle(context, newer_id)
            publish(context, newer_id)
            log = context.partition().served_log()
            assert (log.home.path, log.log_end_offset) == (OTHER_DIR, 2)

    run_story(main)


@pytest.mark.parametrize(
    "named", [UNKNOWN, LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, None]
)
@pytest.mark.parametrize("is_offline", [False, True])
def test_a_log_is_served_unless_it_may_lie_in_a_directory_that_is_offline(
    named: UUID | None, *, is_offline: bool
) -> None:
    async def main() -> None:
        files = MemoryFiles(clock=VirtualClock())
        own_id = await written(files, LOG_DIR, b"one")
        async with running(files, log_dirs=BOTH) as context:
            await context.logs.close()
        if is_offline:
            files.disk.failed = OTHER_DIR
        async with running(files, log_dirs=BOTH) as context:
            publish(context, own_id if named is None else named)
            is_elsewhere = is_offline and named in {UNKNOWN, LOST_DIRECTORY}
            assert context.partition().is_offline == is_elsewhere
            if not is_elsewhere:
                assert context.produce(b"two") == 1

    run_story(main)


def test_two_stale_logs_stay_where_they_are_while_the_directory_that_counts_is_offline() -> None:
    """The start was refused, because the metadata named neither."""

    async def main() -> None:
        files, _, newer_id = await two_logs(is_loaded_late=False)
        await written(files, THIRD_DIR, b"stale", b"too")
        async with running(files, log_dirs=(*BOTH, THIRD_DIR)) as context:
            settle(context, newer_id)
            publish(context, newer_id)
            assert context.partition().is_offline
            await context.logs.close()
        assert [
            end
            for path in (LOG_DIR, THIRD_DIR)
            for end in read_offsets(files, path / "replication-offset-checkpoint").values()
        ] == [
            1,
            2,
        ]
        files.disk.failed = None
        async with running(files, log_dirs=(*BOTH, THIRD_DIR)) as context:
            settle(context, newer_id)
            publish(context, newer_id)
            assert context.partition().served_log().home.path == OTHER_DIR
            assert all("a-0" not in files.list_directory(path) for path in (LOG_DIR, THIRD_DIR))

    run_story(main)


def test_a_stale_log_goes_with_its_topic() -> None:
    async def main() -> None:
        files, _, newer_id = await two_logs(is_loaded_late=False)
        async with running(files, log_dirs=BOTH) as context:
            publish(context, newer_id)
            context.delete_topic()
            await trio.sleep(1)
            assert TopicPartition("a", 0) not in context.logs.logs
            assert "a-0" not in files.list_directory(LOG_DIR)

    run_story(main)


def test_a_stale_log_is_not_served_where_the_other_one_fails_before_they_are_settled() -> None:
    async def main() -> None:
        files, _, newer_id = await two_logs(is_loaded_late=False)
        files.disk.failed = None
        async with running(files, log_dirs=BOTH) as context:
            next(home for home in context.logs.directories if home.path == OTHER_DIR).fail(
                OSError(errno.EROFS, "read-only")
            )
            settle(context, newer_id)
            publish(context, newer_id)
            assert context.partition().is_offline
        assert all("a-0" in files.list_directory(path) for path in BOTH)

    run_story(main)
