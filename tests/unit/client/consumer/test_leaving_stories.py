"""A consumer that gives up its subscription has left, and can subscribe again.

It gives up for another subscription, or while something goes wrong.
"""

import re
from collections.abc import Sequence

import pytest
import trio

from log_service.client import Consumer, ErrorCode, KafkaError, TopicPartition
from log_service.protocol.api_versions import ApiKey
from tests.unit.client.leaving_group import LeavingGroup, poll_until_assigned, tell


@pytest.mark.parametrize("slow", [ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_whose_unsubscribing_is_cancelled_has_left_and_reads_what_it_subscribes_next(
    protocol: str, slow: ApiKey
) -> None:
    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        await poll_until_assigned(consumer)
        await consumer.seek(TopicPartition("t", 0), 5)
        group.slow = slow
        with trio.move_on_after(1) as unsubscribing:
            await consumer.unsubscribe()
        assert unsubscribing.cancelled_caught or slow is ApiKey.LEAVE_GROUP
        assert (group.left_count, consumer.assignment, consumer.subscription) == (
            1,
            [],
            frozenset(),
        )
        await consumer.subscribe(["t"])
        await poll_until_assigned(consumer)

    tell(story, group_protocol=protocol)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_whose_callback_fails_while_it_unsubscribes_has_left(protocol: str) -> None:
    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        def fail(_partitions: object) -> None:
            raise ValueError("the state of the partitions cannot be stored")

        await consumer.subscribe(["t"], on_revoked=fail)
        await poll_until_assigned(consumer)
        with pytest.raises(ValueError, match="cannot be stored"):
            await consumer.unsubscribe()
        assert (group.left_count, consumer.assignment, consumer.subscription) == (
            1,
            [],
            frozenset(),
        )
        await consumer.subscribe(["t"])
        await poll_until_assigned(consumer)

    tell(story, group_protocol=protocol)


@pytest.mark.parametrize("is_pattern", [False, True], ids=["names", "pattern"])
@pytest.mark.parametrize("slow", [ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_one_task_subscribes_while_another_unsubscribes_is_read(
    protocol: str, slow: ApiKey, is_pattern: bool
) -> None:
    """The end of the unsubscribing wiped it."""

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        await poll_until_assigned(consumer)
        await consumer.seek(TopicPartition("t", 0), 5)
        group.slow = slow
        assigned: list[Sequence[TopicPartition]] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.unsubscribe)
            await trio.sleep(1)
            await consumer.subscribe(
                re.compile("t") if is_pattern else ["t"], on_assigned=assigned.append
            )
            assert await consumer.poll(timeout_ms=500) == []
        assert (group.left_count, consumer.subscription) == (1, frozenset({"t"}))
        group.slow = None
        await poll_until_assigned(consumer)
        assert assigned == [[TopicPartition("t", 0)]]

    tell(story, group_protocol=protocol)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_last_of_two_that_unsubscribe_leaves_nothing_subscribed(protocol: str) -> None:
    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        await poll_until_assigned(consumer)
        group.slow = ApiKey.LEAVE_GROUP
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.unsubscribe)
            await trio.sleep(0.5)
            await consumer.subscribe(["t"])
            nursery.start_soon(consumer.unsubscribe)
        assert (consumer.assignment, consumer.subscription) == ([], frozenset())
        consumer.assign([TopicPartition("t", 0)])

    tell(story, group_protocol=protocol)


def test_a_commit_does_not_wait_for_the_epoch_of_a_member_whose_consumer_unsubscribes() -> None:
    """It waited for a heartbeat in a task of its own, and held up all commits of the consumer
    (KIP-848).
    """

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        await poll_until_assigned(consumer)
        group.commit_error, group.are_beats_lost = ErrorCode.STALE_MEMBER_EPOCH, True
        heard: list[KafkaError | None] = []
        consumer.commit_soon(
            {TopicPartition("t", 0): 5}, lambda _offsets, error: heard.append(error)
        )
        await trio.sleep(1)
        assert heard == []
        await consumer.unsubscribe()
        await trio.sleep(1)
        assert [error and error.code for error in heard] == [ErrorCode.STALE_MEMBER_EPOCH]

    tell(story, group_protocol="consumer", enable_auto_commit=False)


def test_another_subscription_gives_up_what_the_one_before_was_assigned() -> None:
    """The names of those topics went with the subscription before, and polls failed (KIP-848)."""

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        await poll_until_assigned(consumer)
        given_up: list[Sequence[TopicPartition]] = []
        group.told = []
        await consumer.subscribe(["another"], on_revoked=given_up.append)
        with trio.fail_after(100):
            while consumer.assignment:
                await consumer.poll()
        assert given_up == [[TopicPartition("t", 0)]]

    tell(story, group_protocol="consumer")


def test_a_consumer_that_leaves_while_it_joins_is_no_member() -> None:
    """The group knew it already, and waited for its session to end (KIP-848)."""

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        group.slow = ApiKey.CONSUMER_GROUP_HEARTBEAT
        await consumer.poll(timeout_ms=1_000)
        await consumer.unsubscribe()
        assert group.epochs == [0, -1]

    tell(story, group_protocol="consumer")


def test_a_consumer_that_leaves_does_not_join_again_meanwhile() -> None:
    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        await poll_until_assigned(consumer)
        group.refused = trio.Event()
        await consumer.subscribe(["t", "u"])
        await group.refused.wait()
        await trio.sleep(0.01)  # the next heartbeat is due after the pause behind an error
        group.slow = ApiKey.LEAVE_GROUP
        await consumer.unsubscribe()
        assert group.epochs[-1] == -1

    tell(story, group_protocol="consumer")


def test_a_consumer_that_leaves_while_its_group_rebalances_does_not_join_again() -> None:
    """The coordinator ends a join that waits when its member leaves. The others waited for the new
    member until its session ended.
    """

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        await poll_until_assigned(consumer)
        group.rejoined, group.slow = trio.Event(), ApiKey.LEAVE_GROUP
        consumer.enforce_rebalance()
        while not group.rejoined.is_set():
            await consumer.poll(timeout_ms=100)
        count = len(group.joins)
        await consumer.unsubscribe()
        assert (group.left_count, len(group.joins)) == (1, count)

    tell(story)


def test_a_poll_that_gives_up_partitions_takes_none_after_another_task_has_unsubscribed() -> None:
    """The poll took over its old assignment and gave it up once more.

    The consumer had left that group.
    """

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        both = [TopicPartition("t", 0), TopicPartition("t", 1)]
        given_up: list[Sequence[TopicPartition]] = []
        is_giving_up = trio.Event()

        async def give_up(partitions: Sequence[TopicPartition]) -> None:
            given_up.append(partitions)
            is_giving_up.set()
            await trio.sleep(5)

        group.assigned = both
        await consumer.subscribe(["t"], on_revoked=give_up)
        while consumer.assignment != both:
            await consumer.poll()
        group.assigned = both[:1]
        consumer.enforce_rebalance()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.poll, None, 20_000)
            await is_giving_up.wait()
            with trio.move_on_after(1):
                await consumer.unsubscribe()
        assert (given_up, consumer.assignment) == ([both[1:], both], [])

    tell(story, partition_count=2, partition_assignment_strategy=("cooperative-sticky",))
