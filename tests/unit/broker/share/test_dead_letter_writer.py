"""Who waits for whom while dead letters are written."""

from typing import Any
from unittest import mock
from uuid import UUID

import trio
import trio.testing

from log_service.broker.share.dead_letters import MAX_CONCURRENT_WRITES, DeadLetterWriter
from log_service.common.types import TopicId, TopicPartition
from log_service.coordinator.share.in_flight import DeadLetterRange
from log_service.coordinator.share.record_states import ArchiveReason
from log_service.coordinator.share.share_state import ShareKey

DEAD = DeadLetterRange(first_offset=0, last_offset=0, delivery_count=1, reason=ArchiveReason.REJECTED)


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

    async def _write_range(self, partition: Any, topic: str, dead: DeadLetterRange, origin: Any) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        if topic == "slow":
            await self.is_quick.wait()
        self.running -= 1

    def give_up(self, group_id: str, index: int, topic: str) -> None:
        key = ShareKey(group_id=group_id, topic_id=TopicId(UUID(int=1)), partition=index)
        partition: Any = mock.Mock(topic_partition=TopicPartition("t", index))
        self.write(key, partition, topic, [DEAD], lambda _: None, lambda _: self.done.append(group_id))


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
        assert not writer._of_groups

    trio.run(main)


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
