"""Requests wait while dead letters are written, and a letter is tried several times."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest import mock
from uuid import UUID

import trio
import trio.testing

from log_service.broker.share.dead_letter_writer import (
    ATTEMPTS,
    MAX_CONCURRENT_WRITES,
    MAX_WRITES_OF_A_GROUP,
    RETRY_MS,
    DeadLetterWriter,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId, TopicPartition
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.record_states import ArchiveReason
from log_service.coordinator.share.share_state import ShareKey
from log_service.records.builder import build_batch

DEAD = DeadLetterRange(
    first_offset=0, last_offset=0, delivery_count=1, reason=ArchiveReason.REJECTED
)


class SlowTopic(DeadLetterWriter):
    """Writes to the topic ``slow`` only once ``is_quick`` is set."""

    def __init__(self, nursery: trio.Nursery) -> None:
        clock = mock.Mock()
        clock.monotonic_ms.return_value = 0
        nothing: Any = None
        super().__init__(
            clock=clock,
            image=nothing,
            listener_name="",
            pool=nothing,
            run_in_pool=nothing,
            start_task=nursery.start_soon,
            create_topic=None,
        )
        self.is_quick = trio.Event()
        self.running = self.most = 0
        self.done: list[str] = []

    async def _write_range(
        self, partition: Any, topic: str, dead: DeadLetterRange, origin: Any
    ) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        if topic == "slow":
            await self.is_quick.wait()
        self.running -= 1

    def give_up(self, group_id: str, index: int, topic: str) -> None:
        key = ShareKey(group_id=group_id, topic_id=TopicId(UUID(int=1)), partition=index)
        partition: Any = mock.Mock(topic_partition=TopicPartition("t", index))
        self.write(
            key, partition, topic, [DEAD], lambda _: None, lambda _: self.done.append(group_id)
        )


def test_letters_of_one_group_that_cannot_be_written_keep_no_other_group_waiting() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            writer = SlowTopic(nursery)
            for index in range(3 * MAX_CONCURRENT_WRITES):
                writer.give_up("stuck", index, "slow")
            await trio.testing.wait_all_tasks_blocked()
            for index in range(3):
                writer.give_up("other", index, "quick")
            await trio.testing.wait_all_tasks_blocked()
            assert writer.done == ["other"] * 3
            writer.is_quick.set()
        assert len(writer.done) == 3 + 3 * MAX_CONCURRENT_WRITES
        assert writer.most <= MAX_CONCURRENT_WRITES
        assert not writer.writing_groups

    trio.run(main)


def test_a_group_never_has_more_than_its_places_also_while_others_of_it_end() -> None:
    class Passing(SlowTopic):
        async def _write_range(
            self, partition: Any, topic: str, dead: DeadLetterRange, origin: Any
        ) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            await trio.sleep(1 + origin.partition % 3)
            self.running -= 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            writer = Passing(nursery)
            for index in range(12):
                writer.give_up("g", index, "passing")
                await trio.sleep(0.5)
        assert (len(writer.done), writer.most) == (12, MAX_WRITES_OF_A_GROUP)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_many_groups_together_hold_no_more_than_all_places() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            writer = SlowTopic(nursery)
            for index in range(4 * MAX_CONCURRENT_WRITES):
                writer.give_up(f"group-{index}", index, "slow")
            await trio.testing.wait_all_tasks_blocked()
            assert writer.running == MAX_CONCURRENT_WRITES
            writer.is_quick.set()
        assert len(writer.done) == 4 * MAX_CONCURRENT_WRITES

    trio.run(main)


class FailingTopic(DeadLetterWriter):
    """A topic that refuses what comes with the next of ``codes``, and takes it once there are no
    more.
    """

    def __init__(self, nursery: trio.Nursery, *codes: ErrorCode) -> None:
        clock = mock.Mock()
        clock.monotonic_ms.return_value = clock.wall_ms.return_value = 0
        nothing: Any = None

        async def run_in_pool(call: Any) -> Any:
            return call()

        super().__init__(
            clock=clock,
            image=nothing,
            listener_name="",
            pool=nothing,
            run_in_pool=run_in_pool,
            start_task=nursery.start_soon,
            create_topic=None,
        )
        self.codes = list(codes)
        self.tried_at: list[float] = []
        self.told: list[KafkaError | None] = []
        self.safe: list[DeadLetterRange] = []

    async def _produce_once(self, topic: str, source_index: int, batch: bytearray) -> None:
        self.tried_at.append(trio.current_time())
        if self.codes:
            raise KafkaError(self.codes.pop(0), "refused by the test")

    def give_up(self, *, log_start_offset: int = 0, last_offset: int = 2) -> mock.Mock:
        """Write the letters of the first offsets, and return the log that they are read from."""
        records = bytes(
            build_batch([(0, None, b"%d" % number) for number in range(last_offset + 1)])
        )
        log = mock.Mock(log_start_offset=log_start_offset)
        log.read_batches.side_effect = lambda _first, _end: iter([records])
        partition: Any = mock.Mock(topic_partition=TopicPartition("t", 0))
        partition.served_log.return_value = log
        key = ShareKey(group_id="g", topic_id=TopicId(UUID(int=1)), partition=0)
        dead = replace(DEAD, last_offset=last_offset)
        self.write(key, partition, "dead", [dead], self.safe.append, self.told.append)
        return log


def tell(story: Callable[[trio.Nursery], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await story(nursery)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_letter_is_tried_so_often_with_a_pause_between_and_is_safe_with_the_last_try() -> None:
    async def story(nursery: trio.Nursery) -> None:
        writer = FailingTopic(nursery, *[ErrorCode.NOT_LEADER_OR_FOLLOWER] * (ATTEMPTS - 1))
        writer.give_up()
        await trio.sleep(10)
        assert (writer.told, len(writer.safe), len(writer.tried_at)) == ([None], 1, ATTEMPTS)
        pauses = [round(later - earlier, 3) for earlier, later in pairwise(writer.tried_at)]
        assert pauses == [RETRY_MS / 1_000] * (ATTEMPTS - 1)

    tell(story)


def test_letters_that_no_try_could_write_are_not_safe() -> None:
    async def story(nursery: trio.Nursery) -> None:
        writer = FailingTopic(nursery, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 100)
        writer.give_up()
        await trio.sleep(10)
        assert [None if error is None else error.code for error in writer.told] == [
            ErrorCode.NOT_ENOUGH_REPLICAS
        ]
        assert (writer.safe, len(writer.tried_at)) == ([], ATTEMPTS)

    tell(story)


def test_letters_that_are_too_large_together_are_tried_one_by_one_and_one_that_is_too_large_without_its_copy() -> (
    None
):
    async def story(nursery: trio.Nursery) -> None:
        writer = FailingTopic(nursery, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
        writer.give_up()
        await trio.sleep(10)
        assert (writer.told, len(writer.safe)) == ([None], 1)
        assert len(writer.tried_at) == 1 + 2 + 1 + 1, (
            "all three, the first with and without its copy, the others"
        )

    tell(story)


def test_what_the_log_has_deleted_has_no_letter() -> None:
    async def story(nursery: trio.Nursery) -> None:
        writer = FailingTopic(nursery)
        left, gone = writer.give_up(log_start_offset=2), writer.give_up(log_start_offset=3)
        await trio.sleep(1)
        assert left.read_batches.call_args.args == (2, 3)
        assert not gone.read_batches.called
        assert writer.told == [None, None]

    tell(story)
