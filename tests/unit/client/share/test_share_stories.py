"""A share consumer runs in virtual time beside scripted leaders and a coordinator (KIP-932)."""

import logging
from typing import Any

import pytest
import trio

from log_service.client import (
    AcknowledgeType,
    ErrorCode,
    ItemsFailed,
    KafkaError,
    ShareConsumer,
    ShareDeserializationError,
    TopicPartition,
)
from log_service.protocol.api_versions import ApiKey
from tests.sim import World, sim_run
from tests.unit.client.scripted_broker import elect
from tests.unit.client.scripted_queue import LOCK_MS, Leaves, Queue, polled, queues_of_two, tell

WHERE = TopicPartition("t", 0)


def test_what_was_polled_is_accepted_by_the_next_poll() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b"])
        queue.deliver(2, [b"c"], [(2, 2, 3)])
        first = await polled(consumer)
        assert [(record.value, record.delivery_count) for record in first] == [(b"a", 1), (b"b", 1)]
        assert queue.said == []
        second = await polled(consumer)
        assert [(record.value, record.delivery_count) for record in second] == [(b"c", 3)]
        assert queue.said == [(0, 0, 1, (1,))]
        assert queue.acknowledges == []  # it came with the fetch
        assert consumer.acquisition_lock_timeout_ms == LOCK_MS
        assert consumer.assignment == [WHERE]

    tell(story)


def test_a_session_begins_with_a_fetch_and_counts_on() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        await consumer.commit()
        queue.deliver(1, [b"b"])
        await polled(consumer)
        assert queue.epochs[:3] == [0, 1, 2]
        named = [
            [each.partition_index for topic in request.topics for each in topic.partitions]
            for request in queue.fetches
        ]
        assert named[:2] == [[0], []]

    tell(story)


def test_leaving_the_block_accepts_ends_the_session_and_leaves() -> None:
    seen: list[Queue] = []

    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        seen.append(queue)
        queue.deliver(0, [b"a"])
        await polled(consumer)

    tell(story)
    (queue,) = seen
    assert queue.said == [(0, 0, 0, (1,))]
    assert queue.epochs[-1] == -1
    assert queue.coordination.requests[-1].member_epoch == -1


def test_an_exception_accepts_nothing_and_still_ends_the_session() -> None:
    seen: list[Queue] = []

    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        seen.append(queue)
        queue.deliver(0, [b"a", b"b"])
        consumer.reject((await polled(consumer))[1])
        raise Leaves

    tell(story)
    (queue,) = seen
    assert queue.said == [(0, 1, 1, (3,))]  # what was said is said, what is implied is not
    assert queue.epochs[-1] == -1


def test_explicit_acknowledgement_says_nothing_by_itself() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b", b"c", b"d", b"e"])
        records = await polled(consumer)
        await consumer.poll(timeout_ms=500)
        assert queue.said == []
        consumer.accept(records[:2])
        consumer.release(records[2])
        consumer.reject(records[4])
        await consumer.commit()
        assert queue.said == [(0, 0, 2, (1, 1, 2)), (0, 4, 4, (3,))]
        assert consumer.in_hand_count == 1
        consumer.accept(records[3])  # in any order, also after later polls
        await consumer.poll(timeout_ms=500)
        assert queue.said[2:] == [(0, 3, 3, (1,))]

    tell(story, acknowledgement_mode="explicit")


def test_the_last_word_before_it_is_sent_counts() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        (record,) = await polled(consumer)
        consumer.release(record)
        consumer.accept(record)
        await consumer.commit()
        assert queue.said == [(0, 0, 0, (1,))]
        with pytest.raises(KafkaError, match="is not in hand") as caught:
            consumer.reject(record)
        assert caught.value.code is ErrorCode.INVALID_RECORD_STATE

    tell(story)


def test_a_poll_returns_no_more_than_it_is_asked_for() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b", b"c"])
        sizes = [len(await polled(consumer, 2)), len(await polled(consumer, 2))]
        assert sizes == [2, 1]
        assert len(queue.fetches) == 1  # what was acquired is handed out before more is
        assert [request.max_records for request in queue.fetches] == [2]

    tell(story)


def test_offsets_without_records_are_gaps_and_records_of_others_are_dropped() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(10, [b"a", b"b", b"c", b"d"], [(11, 11, 1), (13, 15, 2)])
        records = await polled(consumer)
        assert [(record.offset, record.value, record.delivery_count) for record in records] == [
            (11, b"b", 1),
            (13, b"d", 2),
        ]
        await consumer.commit()
        assert sorted(queue.said) == [(0, 11, 11, (1,)), (0, 13, 15, (1, 0, 0))]

    tell(story)


def test_a_batch_that_cannot_be_read_is_released() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b"], is_damaged=True)
        with pytest.raises(KafkaError, match="checksum"):
            await polled(consumer)
        await consumer.poll(timeout_ms=500)
        assert queue.said == [(0, 0, 1, (2,))]

    tell(story)


def test_a_record_that_cannot_be_deserialized_is_released_unless_it_is_rejected() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"1", b"bad", b"3", b"worse"])
        assert [record.value for record in await polled(consumer)] == [1]
        with pytest.raises(ShareDeserializationError) as caught:
            await consumer.poll()
        assert caught.value.record.value == b"bad"
        assert [record.value for record in await polled(consumer)] == [3]
        with pytest.raises(ShareDeserializationError) as caught:
            await consumer.poll()
        consumer.reject(caught.value.record)
        await consumer.commit()
        assert queue.said == [(0, 0, 3, (1, 2, 1, 3))]

    tell(story, value_deserializer=int)


def test_a_lock_is_renewed_and_the_record_stays_in_hand() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        (record,) = await polled(consumer)
        for _ in range(3):
            await trio.sleep(LOCK_MS / 1_000 * 0.7)
            consumer.renew(record)
            await consumer.commit()
        assert [request.is_renew_ack for request in queue.acknowledges] == [True] * 3
        consumer.accept(record)
        await consumer.commit()
        assert [types for *_, types in queue.said] == [(4,), (4,), (4,), (1,)]

    tell(story, acknowledgement_mode="explicit")


def test_an_old_broker_renews_no_locks() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.broker.max_versions = {ApiKey.SHARE_ACKNOWLEDGE: 1, ApiKey.SHARE_FETCH: 1}
        queue.deliver(0, [b"a"])
        (record,) = await polled(consumer)
        consumer.renew(record)
        with pytest.raises(ItemsFailed, match="too old"):
            await consumer.commit()
        consumer.accept(record)
        await consumer.commit()
        assert queue.said == [(0, 0, 0, (1,))]

    tell(story, acknowledgement_mode="explicit")


def test_a_record_whose_lock_ran_out_is_not_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        (record,) = await polled(consumer)
        await trio.sleep(LOCK_MS / 1_000 + 1)
        with pytest.raises(KafkaError, match="is not in hand"):
            consumer.accept(record)
        await consumer.commit()
        assert queue.said == []

    with caplog.at_level(logging.WARNING):
        tell(story)
    assert "the locks of 1 records ran out" in caplog.text


def test_what_waited_longer_than_its_lock_is_not_handed_out() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b"])
        assert len(await polled(consumer, 1)) == 1
        await trio.sleep(LOCK_MS / 1_000 + 1)
        queue.deliver(0, [b"a", b"b"], [(0, 1, 2)])
        assert [record.delivery_count for record in await polled(consumer)] == [2, 2]

    tell(story)


def test_a_refusal_is_told_by_partition_and_to_the_callback() -> None:
    told: list[Any] = []

    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        queue.deliver(0, [b"b", b"c"], partition=1)
        records = await polled(consumer)
        records += await polled(consumer) if len(records) < 3 else []
        consumer.accept(records)
        queue.refusals.append(ErrorCode.INVALID_RECORD_STATE)
        with pytest.raises(ItemsFailed) as caught:
            await consumer.commit()
        assert list(caught.value.errors) == [WHERE]
        assert list(caught.value.results) == [TopicPartition("t", 1)]
        assert [
            (where.partition, offsets, error and error.code) for where, offsets, error in told
        ] == [
            (0, [0], ErrorCode.INVALID_RECORD_STATE),
            (1, [0, 1], None),
        ]

    tell(
        story,
        partition_count=2,
        acknowledgement_mode="explicit",
        on_acknowledged=lambda *args: told.append(args),
    )


def test_what_a_leader_cannot_store_now_is_said_again() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        queue.refusals.extend(
            [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        )
        await consumer.commit()
        assert queue.said == [(0, 0, 0, (1,))] * 3

    tell(story)


@pytest.mark.parametrize(
    "code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH]
)
def test_a_lost_session_begins_anew_and_what_was_in_hand_comes_again(code: ErrorCode) -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b"])
        (record,) = await polled(consumer, 1)
        queue.session_errors.append(code)
        consumer.accept(record)
        with pytest.raises(ItemsFailed) as caught:
            await consumer.commit()
        assert caught.value.errors[WHERE].code is code
        queue.deliver(0, [b"a", b"b"], [(0, 1, 2)])
        # B of the old session is not handed out.
        assert [record.delivery_count for record in await polled(consumer)] == [
            2,
            2,
        ]
        assert queue.epochs[-1] == 0

    tell(story)


def test_a_broken_connection_ends_the_session() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        queue.broker.go_down(0.5)
        await trio.sleep(1)
        with pytest.raises(ItemsFailed) as caught:
            await consumer.commit()
        assert caught.value.errors[WHERE].code is ErrorCode.NETWORK_EXCEPTION
        queue.deliver(0, [b"a"], [(0, 0, 2)])
        assert [record.delivery_count for record in await polled(consumer)] == [2]
        assert queue.epochs[-1] == 0

    tell(story)


def test_a_cancelled_poll_loses_nothing() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        await consumer.poll(timeout_ms=1_000)
        with trio.move_on_after(0.1):
            await consumer.poll(timeout_ms=10_000)
        queue.deliver(0, [b"a"])  # the fetch is under way still
        await trio.sleep(2)
        assert [record.value for record in await polled(consumer)] == [b"a"]

    tell(story)


def test_records_that_were_put_back_come_next_in_the_same_delivery() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b", b"c"])
        records = await polled(consumer)
        consumer.put_back(records[1:])
        assert [record.value for record in await polled(consumer)] == [b"b", b"c"]
        assert len(queue.fetches) == 1

    tell(story)


def test_a_loop_accepts_a_record_when_it_asks_for_the_next() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b", b"c"])
        async for record in consumer:
            if record.value == b"b":
                break
        assert consumer.in_hand_count == 1
        raise Leaves

    seen: list[Queue] = []

    async def noted(queue: Queue, consumer: ShareConsumer) -> None:
        seen.append(queue)
        await story(queue, consumer)

    tell(noted)
    assert seen[0].said == [(0, 0, 0, (1,))]


def test_a_partition_that_went_to_others_is_forgotten_and_what_waits_is_released() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a", b"b"], partition=1)
        (record,) = await polled(consumer, 1)
        queue.coordination.assigned = [0]
        await trio.sleep(6)
        assert consumer.assignment == [WHERE]
        assert (1, 1, 1, (2,)) in queue.said
        consumer.accept(record)  # it is in hand still
        await consumer.commit()
        assert (1, 0, 0, (1,)) in queue.said
        await consumer.poll(timeout_ms=600)
        assert [each.partitions for each in queue.fetches[-1].forgotten_topics_data] == [
            [1]
        ] or queue.session == {0}

    tell(story, partition_count=2)


def test_a_forgotten_member_joins_again_with_its_id() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        queue.coordination.beats.append(ErrorCode.UNKNOWN_MEMBER_ID)
        await trio.sleep(10)
        queue.deliver(1, [b"b"])
        assert [record.value for record in await polled(consumer)] == [b"b"]
        joins = [request for request in queue.coordination.requests if request.member_epoch == 0]
        assert len(joins) == 2
        assert len({request.member_id for request in queue.coordination.requests}) == 1
        assert joins[1].subscribed_topic_names == ["t"]

    tell(story)


def test_a_subscription_is_told_once_and_when_it_changes() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        await trio.sleep(11)
        await consumer.subscribe(["t", "u"])
        await trio.sleep(1)
        told = [request.subscribed_topic_names for request in queue.coordination.requests]
        assert told[0] == ["t"]
        assert [names for names in told if names] == [["t"], ["t", "u"]]

    tell(story)


@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.GROUP_MAX_SIZE_REACHED]
)
def test_a_refused_member_is_told(code: ErrorCode) -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.coordination.beats.append(code)
        with pytest.raises(KafkaError) as caught:
            await polled(consumer)
        assert caught.value.code is code
        queue.deliver(0, [b"a"])
        assert len(await polled(consumer)) == 1  # it may pass

    tell(story)


def test_an_unauthorized_topic_is_told() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(KafkaError) as caught:
            await polled(consumer)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    tell(story)


def test_a_member_that_does_not_poll_leaves_and_joins_again() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        await trio.sleep(25)
        assert queue.coordination.requests[-1].member_epoch == -1
        queue.deliver(0, [b"a"], [(0, 0, 2)])
        assert len(await polled(consumer)) == 1

    tell(story, max_poll_interval_ms=10_000)


def test_what_is_subscribed_while_an_idle_member_leaves_is_what_it_joins_with() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        await consumer.poll()
        beat = queue.broker.other[ApiKey.SHARE_GROUP_HEARTBEAT]
        is_leaving = trio.Event()

        async def beat_slowly(request: Any, version: int) -> Any:
            if request.member_epoch == -1:
                is_leaving.set()
                await trio.sleep(1)
            return await beat(request, version)

        queue.broker.other[ApiKey.SHARE_GROUP_HEARTBEAT] = beat_slowly
        await is_leaving.wait()
        await consumer.subscribe(["u"])
        await consumer.poll(timeout_ms=3_000)
        assert queue.coordination.requests[-1].subscribed_topic_names == ["u"]

    tell(story, max_poll_interval_ms=10_000)


def test_one_poll_at_a_time_and_none_when_closed() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.poll, None, 5_000)
            await trio.sleep(1)
            with pytest.raises(KafkaError, match="one poll at a time"):
                await consumer.poll()
            consumer.wakeup()
        kept.append(consumer)

    kept: list[ShareConsumer] = []
    tell(story)
    with pytest.raises(KafkaError, match="closed"):
        kept[0].commit_soon()


def test_of_two_polls_that_begin_together_one_is_refused() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        refused: list[KafkaError] = []

        async def poll() -> None:
            try:
                await consumer.poll()
            except KafkaError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(poll)
            nursery.start_soon(poll)
        assert [error.code for error in refused] == [ErrorCode.INVALID_REQUEST]

    tell(story)


def test_unsubscribing_acknowledges_and_another_subscription_is_another_member() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        await consumer.unsubscribe()
        assert queue.said == [(0, 0, 0, (1,))]
        assert queue.coordination.requests[-1].member_epoch == -1
        queue.deliver(1, [b"b"])
        await consumer.subscribe(["t"])
        assert [record.value for record in await polled(consumer)] == [b"b"]
        assert len({request.member_id for request in queue.coordination.requests}) == 2

    tell(story)


@pytest.mark.parametrize("api", [ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_GROUP_HEARTBEAT])
def test_unsubscribing_that_is_cancelled_still_leaves_and_another_subscription_reads(
    api: ApiKey,
) -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"])
        await polled(consumer)
        respond = queue.broker.other[api]

        async def respond_slowly(request: Any, version: int) -> Any:
            await trio.sleep(2)
            return await respond(request, version)

        queue.broker.other[api] = respond_slowly
        with trio.move_on_after(1):
            await consumer.unsubscribe()
        assert queue.epochs[-1] == -1
        assert queue.coordination.requests[-1].member_epoch == -1
        queue.broker.other[api] = respond
        queue.deliver(1, [b"b"])
        await consumer.subscribe(["t"])
        with trio.fail_after(100):
            assert [record.value for record in await polled(consumer)] == [b"b"]

    tell(story)


def test_a_response_that_acquires_nonsense_ends_the_session() -> None:
    async def story(queue: Queue, consumer: ShareConsumer) -> None:
        queue.deliver(0, [b"a"], [(0, 2**62, 1)])
        queue.deliver(0, [b"a"])
        assert [record.value for record in await polled(consumer)] == [b"a"]
        assert [epoch for epoch in queue.epochs if epoch == 0] == [0, 0]

    tell(story)


# Several leaders


def tell_of_two(story: Any, **settings: Any) -> None:
    async def main(world: World) -> None:
        one, two = queues_of_two(world, 2)
        elect([one.broker, two.broker], 2, 1)
        async with trio.open_nursery() as nursery:
            await nursery.start(one.broker.run)
            await nursery.start(two.broker.run)
            async with ShareConsumer(
                "broker:9092", group_id="q", env=world.client_env(), **settings
            ) as consumer:
                await consumer.subscribe(["t"])
                with trio.fail_after(1_000):
                    await story(one, two, consumer)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


def test_each_leader_has_a_session_and_hears_of_its_own_records() -> None:
    async def story(one: Queue, two: Queue, consumer: ShareConsumer) -> None:
        one.deliver(0, [b"a"])
        two.deliver(0, [b"b"], partition=1)
        values: list[bytes] = []
        while len(values) < 2:
            values += [record.value for record in await consumer.poll()]
        await consumer.commit()
        assert sorted(values) == [b"a", b"b"]
        assert (one.said, two.said) == ([(0, 0, 0, (1,))], [(1, 0, 0, (1,))])

    tell_of_two(story)


def test_a_partition_that_moved_is_read_of_its_new_leader() -> None:
    async def story(one: Queue, two: Queue, consumer: ShareConsumer) -> None:
        one.deliver(0, [b"a"])
        (record,) = await polled(consumer)
        elect([one.broker, two.broker], 2, 0)
        one.error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        one.refusals.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        consumer.accept(record)
        with pytest.raises(ItemsFailed):
            await consumer.commit()
        two.deliver(0, [b"a"])
        assert [record.value for record in await polled(consumer)] == [b"a"]
        assert two.session == {0, 1}

    tell_of_two(story)


def test_with_record_limit_one_leader_is_asked_at_a_time() -> None:
    async def story(one: Queue, two: Queue, consumer: ShareConsumer) -> None:
        await consumer.poll(timeout_ms=3_000)
        assert {request.share_acquire_mode for request in one.fetches + two.fetches} == {1}
        assert abs(len(one.fetches) - len(two.fetches)) <= 1
        one.deliver(0, [b"a", b"b"])
        two.deliver(0, [b"c", b"d"], partition=1)
        assert len(await polled(consumer, 2)) == 2
        # Nothing was acquired in vain.
        assert sum(len(queue.scripts[0]) + len(queue.scripts[1]) for queue in (one, two)) == 1

    tell_of_two(story, share_acquire_mode="record_limit")


def test_a_leader_that_dies_does_not_keep_the_others_back() -> None:
    async def story(one: Queue, two: Queue, consumer: ShareConsumer) -> None:
        two.deliver(0, [b"b"], partition=1)
        assert len(await polled(consumer)) == 1
        elect([one.broker, two.broker], 1, 1)
        two.broker.go_down(10_000)
        one.deliver(0, [b"b"], [(0, 0, 1)], partition=1)
        assert [(record.partition, record.value) for record in await polled(consumer)] == [
            (1, b"b")
        ]

    tell_of_two(story)


def test_kinds_are_kafkas_numbers() -> None:
    assert [kind.value for kind in AcknowledgeType] == [1, 2, 3, 4]
