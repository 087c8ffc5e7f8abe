"""Loads of a coordinator's shard that fail, in a time that passes when the test says so."""

import errno
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.config.views import GroupConfig
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.shards import DAMAGE_ADVICE, MAX_RELOAD_MS, RELOAD_MS
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.records.batch import CorruptBatch
from tests.unit.coordinator.memory_log import (
    CLIENT,
    MemoryLog,
    StoppedClock,
    commit,
    commit_error,
    fetch,
    run_inline,
    with_leader,
)

NO_DESCRIPTOR = OSError(errno.EMFILE, "too many open files")


@dataclass
class FailingLog(MemoryLog):
    """A log whose reads fail after its first batches, one for each of ``errors``."""

    errors: list[Exception] = field(default_factory=list)
    load_count: int = 0

    def read_batches(self) -> Iterator[bytes]:
        self.load_count += 1
        yield from self.batches
        if self.errors:
            raise self.errors.pop(0)


@dataclass
class MovedClock(StoppedClock):
    now_ms: int = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


@dataclass
class ReloadStory:
    """A coordinator whose time passes when the test says so."""

    clock: MovedClock = field(default_factory=MovedClock)
    timers: TimerQueue = field(default_factory=TimerQueue)

    def tell(self, story: Callable[[GroupService], Awaitable[None]]) -> None:
        async def main() -> None:
            groups = GroupService(
                clock=self.clock,
                rng=Random(1),
                config=GroupConfig(offsets_topic_partitions=1),
                timers=self.timers,
                run_in_pool=run_inline,
            )
            async with trio.open_nursery() as nursery:
                await nursery.start(groups.run)
                await story(groups)
                nursery.cancel_scope.cancel()

        trio.run(main)

    async def wait(self, milliseconds: int = 0) -> None:
        self.clock.now_ms += milliseconds
        self.timers.fire_due(self.clock.now_ms)
        await trio.testing.wait_all_tasks_blocked()


def test_a_failed_load_is_repeated_while_the_partition_is_led() -> None:
    log = FailingLog()
    with_leader(log, lambda groups: commit(groups, 42, []))
    log.errors = [NO_DESCRIPTOR] * 2
    replies: list[Any] = []
    world = ReloadStory()

    async def story(groups: GroupService) -> None:
        groups.lead(log)
        await world.wait()
        await world.wait(RELOAD_MS - 1)
        commit(groups, 1, replies)
        await world.wait(1)
        commit(groups, 1, replies)
        await world.wait(2 * RELOAD_MS)
        fetch(groups, replies, "g")

    world.tell(story)
    assert [commit_error(reply) for reply in replies[:2]] == [ErrorCode.NOT_COORDINATOR] * 2
    assert replies[2][0].topics[0].partitions[0].committed_offset == 42
    assert log.load_count == 4


def test_a_failed_load_leaves_nothing_to_the_next_one() -> None:
    log = FailingLog()
    with_leader(log, lambda groups: commit(groups, 42, []))
    log.errors = [NO_DESCRIPTOR]
    replies: list[Any] = []
    world = ReloadStory()

    async def story(groups: GroupService) -> None:
        groups.lead(log)
        await world.wait()
        log.batches.clear()
        await world.wait(RELOAD_MS)
        groups.list_groups(ListGroupsRequest(), CLIENT, replies.append)

    world.tell(story)
    assert replies[0].groups == []


@pytest.mark.parametrize("is_led_again", [False, True])
def test_a_failed_load_is_not_repeated_once_leadership_has_moved(is_led_again: bool) -> None:
    log = FailingLog(errors=[NO_DESCRIPTOR])
    other = FailingLog(leader_epoch=2)
    world = ReloadStory()

    async def story(groups: GroupService) -> None:
        groups.lead(log)
        await world.wait()
        if is_led_again:
            groups.lead(other)
        else:
            groups.resign(0)
        await world.wait(10 * MAX_RELOAD_MS)

    world.tell(story)
    assert (log.load_count, other.load_count) == (1, is_led_again)


def test_the_pauses_between_loads_double_up_to_the_longest() -> None:
    log = FailingLog(errors=[NO_DESCRIPTOR] * 9)
    pauses_s: list[int] = []
    world = ReloadStory()

    async def story(groups: GroupService) -> None:
        groups.lead(log)
        await world.wait()
        for load_count in range(2, 10):
            pauses_s.append(0)
            while log.load_count < load_count:
                await world.wait(1_000)
                pauses_s[-1] += 1

    world.tell(story)
    assert pauses_s == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_pauses_between_loads_are_bounded_and_each_kind_of_error_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[Exception] = [NO_DESCRIPTOR] * 30
    errors += [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no segment")] * 30
    log = FailingLog(errors=list(errors))
    world = ReloadStory()

    async def story(groups: GroupService) -> None:
        groups.lead(log)
        for _ in errors:
            await world.wait(MAX_RELOAD_MS)
        await world.wait(MAX_RELOAD_MS)
        assert groups.shards.shard(0) is not None

    world.tell(story)
    logged = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(logged) == 2
    assert "__consumer_offsets-0" in logged[0]
    assert "too many open files" in logged[0]
    assert "no segment" in logged[1]


def test_a_damaged_log_is_logged_with_its_remedy(caplog: pytest.LogCaptureFixture) -> None:
    log = FailingLog(errors=[CorruptBatch("no header"), OSError(errno.ENOENT, "no file")])
    world = ReloadStory()

    async def story(groups: GroupService) -> None:
        groups.lead(log)
        await world.wait()
        await world.wait(RELOAD_MS)

    world.tell(story)
    logged = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert [DAMAGE_ADVICE in each for each in logged] == [True, False]
