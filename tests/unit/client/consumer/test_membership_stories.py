"""A member joins again for a reason only. The coordinator does as a test tells it."""

import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio

from log_service.client import (
    Admin,
    ConfigError,
    Consumer,
    ErrorCode,
    ItemsFailed,
    KafkaError,
    OffsetAndMetadata,
    TopicPartition,
)
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from tests.unit.client.consumer_story import tell_consumer_story
from tests.unit.client.scripted_broker import TOPIC_ID
from tests.unit.client.scripted_group import Group

Story = Callable[[Group, Consumer], Awaitable[None]]


def tell(story: Story, **settings: Any) -> None:
    """Run a story with a subscribed consumer."""
    tell_consumer_story(
        story, Group, **{"group_id": "g", "metadata_max_age_ms": 10_000, **settings}
    )


async def poll_until(consumer: Consumer, is_so: Callable[[], bool]) -> None:
    while not is_so():
        await consumer.poll()


async def poll_for(consumer: Consumer, seconds: float) -> None:
    end = trio.current_time() + seconds
    while trio.current_time() < end:
        await consumer.poll()


def test_a_member_that_leads_no_more_leaves_new_partitions_to_who_does() -> None:
    """A member would else ask for a rebalance at every refresh of its metadata, for ever.

    The metadata that it assigned by will never be so again.
    """

    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        group.is_led_by_member = False
        group.beats.append(ErrorCode.REBALANCE_IN_PROGRESS)
        await poll_until(consumer, lambda: len(group.joins) == 2)
        group.broker.grow(3)
        await poll_for(consumer, 100)
        assert len(group.joins) == 2

    tell(story)


def test_a_leader_assigns_anew_when_partitions_come() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        group.broker.grow(3)
        await poll_for(consumer, 100)
        assert len(group.joins) == 2

    tell(story)


def test_a_leader_in_a_rack_assigns_anew_when_replicas_move_to_other_racks() -> None:
    """KIP-881."""

    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        group.broker.rack = "y"
        await poll_for(consumer, 100)
        assert len(group.joins) == 2

    tell(story, client_rack="x")


def test_a_leader_without_a_rack_does_not_care_about_those_of_replicas() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        group.broker.rack = "y"
        await poll_for(consumer, 100)
        assert len(group.joins) == 1

    tell(story)


def test_a_rebalance_that_the_application_asks_for_tells_its_reason() -> None:
    """KIP-568, KIP-800."""

    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        consumer.enforce_rebalance("a new model came")
        await poll_until(consumer, lambda: len(group.joins) == 2)
        assert group.joins[1].reason == "a new model came"
        await consumer.unsubscribe()
        with pytest.raises(ConfigError, match="in no group"):
            consumer.enforce_rebalance()

    tell(story)


def test_two_tasks_do_not_poll_at_once() -> None:
    """Each would take part in the group's rebalance, and get the other one's records."""

    async def story(group: Group, consumer: Consumer) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poll_for, consumer, 10)
            await trio.sleep(1)
            with pytest.raises(KafkaError, match="one poll at a time"):
                await consumer.poll()
        assert consumer.assignment

    tell(story)


def test_a_rebalance_callback_that_polls_is_told_not_to() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        async def poll(partitions: Sequence[TopicPartition]) -> None:
            await consumer.poll()

        await consumer.subscribe(["t"], on_assigned=poll)
        with pytest.raises(KafkaError, match="a callback of its own"):
            await poll_for(consumer, 10)
        await poll_for(consumer, 1)

    tell(story)


@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
)
def test_a_refusal_that_passes_is_told_and_the_next_poll_joins(code: ErrorCode) -> None:
    """An operator grants the right, or the other members leave: a service that polls on needs no
    restart. It asks with pauses.
    """

    async def story(group: Group, consumer: Consumer) -> None:
        group.join_errors.extend([code] * 20)
        started = trio.current_time()
        for _ in range(20):
            with pytest.raises(KafkaError, match=code.name):
                await consumer.poll(timeout_ms=60_000)
        assert trio.current_time() - started > 1
        await poll_until(consumer, lambda: bool(consumer.assignment))

    tell(story)


def test_a_member_whose_name_another_one_has_taken_never_joins_again() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        group.join_errors.append(ErrorCode.FENCED_INSTANCE_ID)
        for _ in range(5):
            with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                await consumer.poll()
        assert len(group.joins) == 1

    tell(story, group_instance_id="i")


@pytest.mark.parametrize(
    "settings",
    [{"request_timeout_ms": 5_000}, {"session_timeout_ms": 45_000}],
    ids=["by request", "by session"],
)
def test_a_coordinator_that_says_nothing_any_more_is_looked_for_again(
    settings: dict[str, int],
) -> None:
    """A broker that hangs takes connections all the same, and another one coordinates the group by
    then.
    """

    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        before_count = group.find_count
        group.beats.append(None)
        await poll_for(consumer, 25)
        assert group.find_count > before_count
        assert len(group.joins) == 1

    tell(story, enable_auto_commit=False, **settings)


def test_a_commit_ends_by_its_deadline_also_behind_one_that_no_task_waits_for() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        group.broker.other[ApiKey.OFFSET_COMMIT] = silent
        consumer.commit_soon({TopicPartition("t", 0): 4})
        await trio.sleep(1)
        started = trio.current_time()
        with pytest.raises(KafkaError, match="no response within"):
            await consumer.commit({TopicPartition("t", 0): 5})
        assert trio.current_time() - started < 6

    tell(story, default_api_timeout_ms=5_000, enable_auto_commit=False)


def test_a_commit_does_not_wait_for_the_epoch_of_a_member_that_leaves() -> None:
    """The commit asked for a heartbeat, and the member left instead.

    It had not polled for too long (KIP-848).
    """

    async def beat(request: Any, version: int) -> ConsumerGroupHeartbeatResponse:
        await trio.lowlevel.checkpoint()
        topics = [ResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[0])]
        return ConsumerGroupHeartbeatResponse(
            member_epoch=min(request.member_epoch + 1, 1),
            heartbeat_interval_ms=60_000,
            assignment=Assignment(topic_partitions=topics),
        )

    async def story(group: Group, consumer: Consumer) -> None:
        group.broker.other[ApiKey.CONSUMER_GROUP_HEARTBEAT] = beat
        await poll_until(consumer, lambda: bool(consumer.assignment))
        await trio.sleep(11)
        group.commit_error = ErrorCode.STALE_MEMBER_EPOCH
        started = trio.current_time()
        with pytest.raises(KafkaError) as refused:
            await consumer.commit({TopicPartition("t", 0): 5})
        assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH
        assert trio.current_time() - started < 5

    tell(story, group_protocol="consumer", max_poll_interval_ms=10_000, enable_auto_commit=False)


@pytest.mark.parametrize("interval_ms", [600_000, 500], ids=["on giving up", "every interval"])
def test_automatic_commits_leave_out_topics_that_were_deleted(interval_ms: int) -> None:
    """The coordinator says that trying again may help, which holds the group up.

    The metadata says that the topic is gone.
    """

    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        await consumer.seek(TopicPartition("t", 0), 7)
        group.broker.topics.clear()
        group.commit_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        started = trio.current_time()
        group.beats.append(ErrorCode.REBALANCE_IN_PROGRESS)
        await poll_until(consumer, lambda: len(group.joins) >= 2)
        assert trio.current_time() - started < 5
        assert len(group.commits) <= 1, "tried again with metadata that does not have the topic"

    tell(story, auto_commit_interval_ms=interval_ms)


def test_a_commit_that_the_application_asks_for_leaves_nothing_out() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        await poll_until(consumer, lambda: bool(consumer.assignment))
        group.broker.topics.clear()
        group.commit_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await consumer.commit({TopicPartition("t", 0): 5})

    tell(story, default_api_timeout_ms=5_000, auto_commit_interval_ms=600_000)


def test_an_offset_that_is_the_position_is_committed_with_the_leader_epoch_of_what_was_read() -> (
    None
):
    """KIP-320: who reads on there knows by it of a leader that has not heard of its successor."""

    async def story(group: Group, consumer: Consumer) -> None:
        partition = TopicPartition("t", 0)
        await poll_until(consumer, lambda: bool(consumer.assignment))
        await consumer.seek(partition, 7, leader_epoch=2)
        told: list[int | OffsetAndMetadata] = [7, 6, OffsetAndMetadata(offset=7, leader_epoch=1)]
        for offset in told:
            await consumer.commit({partition: offset})
        committed = [commit.topics[0].partitions[0] for commit in group.commits]
        assert [(each.committed_offset, each.committed_leader_epoch) for each in committed] == [
            (7, 2),
            (6, -1),
            (7, 1),
        ]

    tell(story, enable_auto_commit=False)


def test_deleting_many_groups_takes_no_longer_than_deleting_one() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        group.broker.other[ApiKey.DELETE_GROUPS] = silent
        async with Admin(
            "broker:9092", env=group.broker.world.client_env("admin"), default_api_timeout_ms=5_000
        ) as admin:
            started = trio.current_time()
            with pytest.raises(ItemsFailed) as failed:
                await admin.delete_groups(["a", "b", "c"])
            assert trio.current_time() - started < 6
        assert list(failed.value.errors) == ["a", "b", "c"]

    tell(story)


async def silent(request: Any, version: int) -> None:
    await trio.sleep_forever()


async def _follow_refused(group: Group, consumer: Consumer, *topics: str) -> None:
    """Be a follower, which asks for metadata only where it has to."""
    group.is_led_by_member = False
    group.broker.refused_topics = dict.fromkeys(topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    await consumer.subscribe(["t", *topics])


def test_a_loop_hears_of_a_refused_topic_as_soon_as_the_cluster_says_so() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        await _follow_refused(group, consumer, "secret")
        with (
            trio.fail_after(15),
            pytest.raises(KafkaError, match=r"'secret'.*TOPIC_AUTHORIZATION_FAILED"),
        ):
            await anext(consumer)

    tell(story)


def test_all_refused_topics_are_told_together() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        await _follow_refused(group, consumer, "secret", "hidden")
        with pytest.raises(KafkaError) as caught:
            await poll_for(consumer, 60)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert "'hidden'" in str(caught.value)
        assert "'secret'" in str(caught.value)

    tell(story)


def test_a_loop_reads_a_topic_that_matches_its_pattern_as_soon_as_the_cluster_tells_of_it() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        group.broker.topics, group.assigned = set(), []
        await consumer.subscribe(re.compile("t"))
        await poll_for(consumer, 20)
        group.broker.topics = {"t"}
        with trio.move_on_after(30):
            await anext(consumer)
        assert consumer.subscription == {"t"}

    tell(story)


def test_subscribing_to_a_topic_that_there_cannot_be_changes_nothing() -> None:
    async def story(group: Group, consumer: Consumer) -> None:
        with pytest.raises(KafkaError, match="1 to"):
            await consumer.subscribe(["u", ""])
        assert consumer.subscription == {"t"}

    tell(story)


def test_subscribing_to_a_pattern_that_is_cancelled_changes_nothing() -> None:
    """It read by the pattern from the next change of the cluster on."""

    async def story(group: Group, consumer: Consumer) -> None:
        async def respond_slowly(request: Any, version: int) -> Any:
            await trio.sleep(2)
            return await group.broker.respond_to_metadata(request)

        await poll_until(consumer, lambda: bool(consumer.assignment))
        group.broker.other[ApiKey.METADATA] = respond_slowly
        with trio.move_on_after(1) as subscribing:
            await consumer.subscribe(re.compile("another"))
        assert subscribing.cancelled_caught
        group.broker.grow(2)
        await poll_for(consumer, 20)
        assert consumer.subscription == {"t"}
        assert consumer.assignment == [TopicPartition("t", 0)]
        asked = [request for api, request in group.broker.requests if api is ApiKey.METADATA]
        assert [topic.name for topic in asked[-1].topics] == ["t"]

    tell(story)


@pytest.mark.parametrize("is_raising", [False, True], ids=["cancelled", "raising"])
def test_what_a_poll_that_ended_early_did_not_give_up_the_next_one_does(is_raising: bool) -> None:
    """The group tells an assignment once.

    A member that forgot it would read partitions that others wait for.
    """

    async def story(group: Group, consumer: Consumer) -> None:
        both = [TopicPartition("t", 0), TopicPartition("t", 1)]
        asked: list[Sequence[TopicPartition]] = []

        async def give_up(partitions: Sequence[TopicPartition]) -> None:
            asked.append(partitions)
            if len(asked) == 1:
                if is_raising:
                    raise OSError("its store does not respond")
                await trio.sleep(60)

        group.assigned = both
        await consumer.subscribe(["t"], on_revoked=give_up)
        await poll_until(consumer, lambda: consumer.assignment == both)
        group.assigned = both[:1]
        group.beats.append(ErrorCode.REBALANCE_IN_PROGRESS)
        with contextlib.suppress(OSError), trio.move_on_after(20):
            await poll_for(consumer, 60)
        assert consumer.assignment == both
        await poll_until(consumer, lambda: len(group.joins) == 3)
        assert consumer.assignment == both[:1]
        assert asked == [both[1:]] * 2

    tell(story, partition_count=2, partition_assignment_strategy=("cooperative-sticky",))
