"""The partitions of a node: what an image makes of them, who is told, what is written down."""

import errno
from pathlib import Path
from uuid import UUID

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from log_service.config.views import LogConfig
from log_service.protocol.stored.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from log_service.replication.partition import Partition
from log_service.replication.replica_listener import ReplicaListener
from log_service.replication.replica_manager import OPENED_AT_ONCE
from log_service.storage.checkpoints import write_offsets
from tests.sim import MemoryFiles, VirtualClock
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


class Waiting:
    """An operation that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def is_ready(self, key: TopicPartition) -> bool:
        self.asked += 1
        return False

    def on_ready(self) -> None: ...

    def on_expired(self) -> None: ...


def code_of_find(
    context: ReplicaContext, topic: str, index: int, identity: UUID = NO_TOPIC_ID
) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        context.replicas.find(topic, identity, index)
    return caught.value.code


def test_a_partition_is_found_by_name_and_by_id() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a", partitions=2)
            by_name = context.replicas.find("a", UUID(int=0), 1)
            assert context.replicas.find("", topic_id("a"), 1) is by_name
            assert by_name.topic_partition == ("a", 1)

    run_story(main)


def test_what_is_not_here_is_told_apart() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            elsewhere = TopicId(UUID(int=9))
            context.publish(
                TopicRecord(name="far", topic_id=elsewhere),
                PartitionRecord(
                    topic_id=elsewhere,
                    partition_id=0,
                    replicas=[2],
                    isr=[2],
                    leader=2,
                    leader_epoch=0,
                    partition_epoch=0,
                ),
            )
            assert code_of_find(context, "z", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert code_of_find(context, "a", 5) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert code_of_find(context, "", 0, UUID(int=77)) is ErrorCode.UNKNOWN_TOPIC_ID
            assert (
                code_of_find(context, "", 5, topic_id("a")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            assert code_of_find(context, "far", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_story(main)


def test_a_deleted_topic_leaves_nothing_that_serves() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            context.produce(b"one")
            partition = context.partition()
            context.delete_topic()
            assert code_of_find(context, "a", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert not partition.is_leader
            names = context.files.list_directory(LOG_DIR)
            assert "a-0" not in names
            assert any(name.endswith("-delete") for name in names)

    run_story(main)


def test_a_recreated_topic_begins_anew_under_its_new_id() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            context.produce(b"old")
            context.delete_topic()
            context.create_topic("a", identity=TopicId(UUID(int=4242)))
            assert context.partition().high_watermark == 0
            assert context.produce(b"new") == 0
            assert code_of_find(context, "", 0, topic_id("a")) is ErrorCode.UNKNOWN_TOPIC_ID

    run_story(main)


def test_configuration_takes_effect_on_open_logs() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            context.configure("max.message.bytes", "80")
            with pytest.raises(KafkaError) as caught:
                context.produce(b"x" * 100)
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
            context.configure("max.message.bytes", None)
            context.produce(b"x" * 100)

    run_story(main)


def test_records_that_waited_for_a_sync_are_released_when_the_policy_is_dropped() -> None:
    async def main() -> None:
        async with running() as context:
            context.files.sync_seconds = (1_000, 1_000)
            context.create_topic("a", flush_messages="1")
            context.produce(b"one")
            assert context.partition().high_watermark == 0
            context.configure("flush.messages", None)
            assert context.partition().high_watermark == 1

    run_story(main)


def test_an_append_that_waits_for_this_replica_alone_is_released_when_the_policy_is_dropped() -> (
    None
):
    async def main() -> None:
        async with running() as context:
            context.files.sync_seconds = (1_000, 1_000)
            context.create_topic(
                "a", flush_messages="1", replicas=(NODE, NodeId(2)), isr=(NODE, NodeId(2))
            )
            waiting = Waiting()
            context.produce(b"one")
            context.replicas.delayed_produces.watch(waiting, [key_of("a")], 1_000_000)
            context.configure("flush.messages", None)
            assert context.partition().acknowledgement(0, 1, needs_all=False) is ErrorCode.NONE
            assert waiting.asked == 1

    run_story(main)


def test_a_partition_that_is_deleted_while_it_is_synced_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with running() as context:
            context.files.sync_seconds = (1, 1)
            context.create_topic("a", flush_messages="1")
            context.produce(b"one")
            await trio.sleep(0.5)
            context.produce(b"two")
            context.delete_topic("a")
            await trio.sleep(100)

    run_story(main)
    assert caplog.messages == []


def test_an_append_that_comes_when_the_node_is_cancelled_is_not_safe_and_no_error() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a", flush_messages="1")
            context.nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked()
                context.produce(b"late")
                await wait_all_tasks_blocked()
                assert context.partition().high_watermark == 0

    run_story(main)


def test_all_that_wait_are_asked_once_after_a_whole_request() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a", partitions=3)
            fetch, produce = Waiting(), Waiting()
            context.replicas.delayed_fetches.watch(
                fetch, [key_of(index=index) for index in range(3)], 10_000
            )
            context.replicas.delayed_produces.watch(produce, [key_of(index=0)], 10_000)
            marks: list[int] = []
            context.partition(index=0).high_watermark_listeners.add(
                lambda partition: marks.append(partition.high_watermark)
            )
            context.produce(b"one", index=0)
            assert (fetch.asked, produce.asked, marks) == (1, 1, [1])
            context.produce(b"one", index=2)
            assert (fetch.asked, produce.asked, marks) == (2, 1, [1])

    run_story(main)


def test_leadership_that_comes_and_goes_is_told() -> None:
    async def main() -> None:
        async with running() as context:
            told: list[str] = []
            context.replicas.add_listener(Hearing(told))
            context.create_topic("a")
            context.elect(1)
            context.elect(-1)
            context.elect(-1)
            context.elect(1)
            context.delete_topic()
            assert told == [
                "led a-0 in 0",
                "led a-0 in 1",
                "lost a-0",
                "led a-0 in 4",
                "lost a-0",
                "deleted a-0",
            ]

    run_story(main)


def test_high_watermarks_are_written_down_and_come_back() -> None:
    async def main() -> None:
        files = MemoryFiles(clock=VirtualClock())
        async with running(files) as context:
            context.create_topic("a", partitions=2)
            context.produce(b"one", b"two", index=1)
            await trio.sleep(6)
            assert (
                "a 1 2"
                in context.files.read_bytes(LOG_DIR / "replication-offset-checkpoint").decode()
            )
        async with running(files) as context:
            assert [
                context.logs.checkpointed_high_watermark(log)
                for _, log in sorted(context.logs.logs.items())
            ] == [0, 2]
            context.create_topic("a", partitions=2)
            assert context.partition(index=1).high_watermark == 2

    run_story(main)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_high_watermark_comes_back_from_the_directory_that_holds_the_log(
    *, is_first: bool
) -> None:
    """The high watermark in another directory, of an earlier log of that name, won.

    Records that were not safe were handed out.
    """

    async def main() -> None:
        files = MemoryFiles(clock=VirtualClock())
        held, other = (LOG_DIR, OTHER_DIR) if is_first else (OTHER_DIR, LOG_DIR)
        async with running(files, log_dirs=(held,)) as context:
            context.create_topic("a")
            context.produce(b"one")
            await context.replicas.checkpoint_high_watermarks()
            context.produce(b"two")
        files.make_directory(other)
        write_offsets(files, other / "replication-offset-checkpoint", {TopicPartition("a", 0): 2})
        async with running(files, log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic("a", replicas=(NODE, NodeId(2)), isr=(NODE, NodeId(2)))
            assert context.partition().high_watermark == 1

    run_story(main)


def test_high_watermarks_that_did_not_move_are_not_written_again() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            context.produce(b"one")
            await trio.sleep(6)
            context.files.remove(LOG_DIR / "replication-offset-checkpoint")
            await trio.sleep(60)
            assert not context.files.exists(LOG_DIR / "replication-offset-checkpoint")

    run_story(main)


def test_a_log_that_cannot_be_opened_is_an_offline_partition() -> None:
    async def main() -> None:
        async with running() as context:
            context.files.fail_next("open", containing="a-0", count=100)
            context.create_topic("a")
            partition = context.partition()
            assert partition.is_offline
            with pytest.raises(KafkaError) as caught:
                context.produce(b"one")
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert partition.log_start_offset == -1

    run_story(main)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.ENFILE])
def test_a_log_that_found_no_room_or_no_descriptor_is_begun_once_there_is_some(error: int) -> None:
    async def main() -> None:
        async with running() as context:
            context.files.fail_next("open", error=error, containing="a-", count=4)
            context.create_topic("a", partitions=3)
            assert all(context.partition(index=index).is_offline for index in range(3))
            await trio.sleep(6)
            assert context.partition().is_offline
            await trio.sleep(6)
            for index in range(3):
                assert context.produce(b"one", index=index) == 0

    run_story(main)


def test_a_partition_that_moves_away_is_dropped_here() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            context.publish(
                PartitionChangeRecord(
                    topic_id=topic_id("a"), partition_id=0, replicas=[2], isr=[2], leader=2
                )
            )
            assert code_of_find(context, "a", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_story(main)


def test_retention_goes_as_far_as_the_high_watermark() -> None:
    async def main() -> None:
        config = LogConfig(flush_messages=1, segment_bytes=1 << 20, retention_bytes=1)
        async with running(config=config) as context:
            context.create_topic("a")
            context.produce(b"x" * 900_000)
            await trio.sleep(1)
            context.files.sync_seconds = (1_000, 1_000)
            context.produce(b"y" * 900_000)
            partition = context.partition()
            assert partition.high_watermark == 1
            outcomes = await context.logs.apply_retention()
            assert outcomes[key_of()].log_start_offset == 1
            assert context.files.exists(Path(LOG_DIR / "a-0"))

    run_story(main)


def test_a_large_topic_is_opened_in_turns_and_on_demand() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("wide", partitions=500)
            assert len(context.replicas.partitions) == OPENED_AT_ONCE
            assert context.produce(b"one", name="wide", index=499) == 0
            assert context.replicas.find("", topic_id("wide"), 400).is_leader
            assert len(context.replicas.partitions) == OPENED_AT_ONCE + 2
            await trio.sleep(1)
            assert len(context.replicas.partitions) == 500
            assert context.produce(b"two", name="wide", index=499) == 1

    run_story(main)


def test_partitions_that_this_node_leads_are_opened_before_those_that_it_follows() -> None:
    """Others wait for a leader."""

    class Opened(ReplicaListener):
        def on_opened(self, partition: Partition) -> None:
            opened.append(partition.topic_partition.partition)

    opened: list[int] = []

    async def main() -> None:
        async with running() as context:
            context.replicas.add_listener(Opened())
            places = [
                PartitionRecord(
                    topic_id=topic_id("a"),
                    partition_id=index,
                    replicas=[1, 2],
                    isr=[1, 2],
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for index, leader in enumerate((2, 1, 2, 1))
            ]
            context.publish(TopicRecord(name="a", topic_id=topic_id("a")), *places)
            assert opened == [1, 3, 0, 2]

    run_story(main)


def test_a_large_topic_may_be_deleted_before_it_is_open() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("wide", partitions=500)
            context.delete_topic("wide")
            await trio.sleep(1)
            assert not context.replicas.partitions

    run_story(main)


def test_the_logs_of_a_topic_that_is_deleted_before_it_is_open_go_too() -> None:
    async def main() -> None:
        files = MemoryFiles(clock=VirtualClock())
        async with running(files) as before:
            before.create_topic("wide", partitions=100)
            await trio.sleep(1)
            assert len(before.logs.logs) == 100
        async with running(files) as context:
            context.create_topic("wide", partitions=100)
            context.delete_topic("wide")
            await trio.sleep(1)
            assert not context.logs.logs

    run_story(main)


def test_a_replica_that_moves_away_before_it_is_open_is_not_opened_and_its_log_goes() -> None:
    async def main() -> None:
        files = MemoryFiles(clock=VirtualClock())
        async with running(files) as before:
            before.create_topic("wide", partitions=100)
            await trio.sleep(1)
        async with running(files) as context:
            context.create_topic("wide", partitions=100)
            assert ("wide", 99) not in context.replicas.partitions
            context.publish(
                PartitionChangeRecord(
                    topic_id=topic_id("wide"), partition_id=99, replicas=[2], isr=[2], leader=2
                )
            )
            await trio.sleep(1)
            assert sorted(context.replicas.partitions) == [("wide", index) for index in range(99)]
            assert sorted(context.logs.logs) == [("wide", index) for index in range(99)]
            assert code_of_find(context, "wide", 99) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_story(main)


def test_a_partition_whose_leader_changes_before_it_is_open_opens_as_the_newest_image_says() -> (
    None
):
    async def main() -> None:
        async with running() as context:
            context.create_topic("wide", partitions=100)
            context.elect(1, "wide", 98)
            context.elect(-1, "wide", 99)
            await trio.sleep(1)
            last, lost = context.partition("wide", 98), context.partition("wide", 99)
            assert (last.is_leader, last.leader_epoch, lost.is_leader, lost.leader_epoch) == (
                True,
                1,
                False,
                1,
            )
            assert len(context.replicas.partitions) == 100

    run_story(main)


def test_the_disk_syncs_for_no_record_whose_topic_does_not_ask_for_it() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            context.create_topic("b", flush_messages="1")
            await trio.sleep(1)
            for name in ("a", "b"):
                before = context.files.sync_count
                context.produce(b"one", name=name)
                await trio.sleep(0.1)
                assert (context.files.sync_count > before) is (name == "b")

    run_story(main)


def test_any_number_of_rooms_listen_and_one_that_goes_takes_no_other_with_it() -> None:
    async def main() -> None:
        async with running() as context:
            told: list[str] = []
            context.replicas.add_listener(Hearing(told, "1: "))
            second = context.replicas.add_listener(Hearing(told, "2: "))
            context.create_topic("a")
            second.cancel()
            context.delete_topic()
            assert told == ["1: led a-0 in 0", "2: led a-0 in 0", "1: lost a-0", "1: deleted a-0"]

    run_story(main)


def test_a_partition_that_was_not_led_is_deleted_without_a_loss() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic("a")
            context.elect(-1)
            told: list[str] = []
            context.replicas.add_listener(Hearing(told))
            context.publish(
                PartitionChangeRecord(
                    topic_id=topic_id("a"), partition_id=0, replicas=[2], isr=[2], leader=2
                )
            )
            assert told == ["deleted a-0"]

    run_story(main)


class Mistaken(ReplicaListener):
    """A room with a bug."""

    def on_led(self, partition: Partition) -> None:
        raise LookupError("led")

    def on_high_watermark(self, partition: Partition) -> None:
        raise LookupError("high watermark")


@pytest.mark.parametrize("event", ["led", "high watermark"])
def test_a_bug_of_a_listener_fails_the_node_and_nothing_else(event: str) -> None:
    async def main() -> None:
        async with running() as context:
            told: list[str] = []
            context.create_topic("a")
            if event == "led":
                context.replicas.add_listener(Mistaken())
                context.replicas.add_listener(Hearing(told))
                context.create_topic("b")
                assert told == ["led b-0 in 0"]
            else:
                context.partition().high_watermark_listeners.add(Mistaken().on_high_watermark)
                assert context.produce(b"one") == 0
                assert context.partition().high_watermark == 1
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        run_story(main)
    assert caught.group_contains(LookupError, match=event)


def test_a_partition_that_came_while_the_node_runs_begins_its_log_whatever_its_epoch() -> None:
    """A partition that was there when the node started may have its log in an unreadable place.

    It does not begin anew.
    """

    async def main() -> None:
        files = MemoryFiles(clock=VirtualClock())
        async with running(files, log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic("old", partitions=2)
            homes = {context.partition("old", index).log.directory.parent for index in range(2)}  # type: ignore[union-attr]
            assert homes == {LOG_DIR, OTHER_DIR}
        files.fail_next("stat", containing=f"{OTHER_DIR}/old", count=100)
        async with running(files, log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic("old", partitions=2)
            assert sorted(context.partition("old", index).is_offline for index in range(2)) == [
                False,
                True,
            ]
            identity = topic_id("new")
            context.publish(
                TopicRecord(name="new", topic_id=identity),
                PartitionRecord(
                    topic_id=identity,
                    partition_id=0,
                    replicas=[1],
                    isr=[1],
                    leader=1,
                    leader_epoch=0,
                    partition_epoch=0,
                ),
                PartitionChangeRecord(topic_id=identity, partition_id=0, leader=1),
            )
            assert context.partition("new").leader_epoch == 1
            assert context.produce(b"one", name="new") == 0

    run_story(main)


def test_a_directory_that_fails_ends_every_wait_in_it() -> None:
    """Also of partitions that did not meet the failure themselves."""

    async def main() -> None:
        async with running(log_dirs=(LOG_DIR, OTHER_DIR)) as context:
            context.create_topic(partitions=4)
            told: list[str] = []
            context.replicas.add_listener(Hearing(told))
            waiting = [Waiting() for _ in range(4)]
            for index, operation in enumerate(waiting):
                context.replicas.delayed_fetches.watch(operation, [key_of(index=index)], 1_000_000)
            homes = [
                log.home
                for index in range(4)
                if (log := context.partition(index=index).log) is not None
            ]
            failed = homes[0]
            failed.fail(OSError(errno.EIO, "the disk is gone"))
            await trio.sleep(0.01)
            assert [operation.asked > 0 for operation in waiting] == [
                home is failed for home in homes
            ]
            assert sorted(told) == sorted(
                f"lost a-{index}" for index in range(4) if homes[index] is failed
            )
            assert 0 < len(told) < 4

    run_story(main)
