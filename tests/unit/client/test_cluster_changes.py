"""A cluster that changes under its clients: leaders move, brokers die, hang or leave. What is asked
of whom is counted, in virtual time.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from log_service.client import Consumer, ErrorCode, KafkaError, Producer, TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from log_service.protocol.messages.fetch import LeaderIdAndEpoch as FetchLeader
from log_service.protocol.messages.fetch import NodeEndpoint as FetchEndpoint
from log_service.protocol.messages.metadata import MetadataResponse
from log_service.records.builder import build_batch
from tests.sim import World, sim_run
from tests.unit.client.scripted_broker import PORT, TOPIC_ID, ScriptedBroker, clustered, elect

Story = Callable[[World, list[ScriptedBroker], Producer], Awaitable[None]]
FIRST, SECOND = "broker", "second"


def tell(story: Story, **settings: Any) -> None:
    """Run a story of one producer and two brokers, 1 and 2. The first leads the one partition."""

    async def main(world: World) -> None:
        brokers = [ScriptedBroker(world), ScriptedBroker(world, node_id=2, host=SECOND)]
        clustered(*brokers)
        async with trio.open_nursery() as nursery:
            for broker in brokers:
                await nursery.start(broker.run)
            async with Producer(
                f"{FIRST}:{PORT}", env=world.client_env(), **{"linger_ms": 0, **settings}
            ) as producer:
                with trio.fail_after(1_000):
                    await story(world, brokers, producer)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


def count(brokers: list[ScriptedBroker], key: ApiKey) -> int:
    return sum(broker.count(key) for broker in brokers)


async def deliver(producer: Producer, value: bytes) -> float:
    """Deliver one record, and return how many seconds that took."""
    began = trio.current_time()
    await (await producer.send("t", value)).wait()
    return trio.current_time() - began


async def hang(request: Any, version: int) -> Any:
    await trio.sleep_forever()


# Leaders that move (KIP-951)


def test_a_record_follows_its_leader_at_once_and_nobody_is_asked_for_metadata() -> None:
    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        await deliver(producer, b"1")
        asked = count(brokers, ApiKey.METADATA)
        elect(brokers, 2)
        assert await deliver(producer, b"2") < 0.05, "a pause before a retry is 80 ms at least"
        assert (count(brokers, ApiKey.METADATA), brokers[1].count(ApiKey.PRODUCE)) == (asked, 1)
        assert brokers[0].logs[0].values == [b"1", b"2"]

    tell(story)


def test_a_leader_that_came_after_the_last_refresh_is_reached_by_the_address_in_the_response() -> (
    None
):
    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        brokers[0].brokers = brokers[:1]
        await deliver(producer, b"1")
        assert list(producer.cluster.view.nodes) == [1]
        brokers[0].brokers = brokers
        elect(brokers, 2)
        assert await deliver(producer, b"2") < 0.05
        assert count(brokers, ApiKey.METADATA) == 1

    tell(story)


def test_without_a_name_beside_the_error_the_cluster_is_asked_who_leads() -> None:
    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        await deliver(producer, b"1")
        brokers[0].is_leader_told = False
        elect(brokers, 2)
        await deliver(producer, b"2")
        assert count(brokers, ApiKey.METADATA) == 2

    tell(story)


@pytest.mark.parametrize("pause_s", [0.0, 3.0], ids=["others hang with it", "others go elsewhere"])
def test_a_record_that_a_hung_leader_has_taken_is_there_once_however_many_follow_it(
    pause_s: float,
) -> None:
    """The new leader holds the record, and remembers the last five batches of a producer.

    The batches that the old one owes go there before all else.
    """
    values = [b"first", b"owed", *(b"%d" % number for number in range(20))]

    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        await deliver(producer, b"first")
        brokers[0].script.append(ScriptedBroker.IGNORE)
        owed = await producer.send("t", b"owed")
        await trio.sleep(0.1)
        elect(brokers, 2)
        await trio.sleep(pause_s)
        for value in values[2:]:
            await producer.send("t", value)
            await trio.sleep(0.2)
        assert owed.is_done, "the request that hangs is over after 30 s: nothing waits for that"
        await producer.flush()
        assert brokers[0].logs[0].values == values
        assert {header.producer_epoch for header in brokers[0].logs[0].headers} == {0}

    tell(story, request_timeout_ms=30_000)


def test_a_leader_whose_log_was_cut_meanwhile_is_not_given_the_second_batch_first() -> None:
    """After an unclean election the connection stays.

    The state of the producer at its other end does not.
    """

    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        first, second = brokers
        await deliver(producer, b"1")
        elect(brokers, 2)
        second.script.append(ScriptedBroker.DROP)
        await producer.send("t", b"2")
        await trio.sleep(0.01)
        elect(brokers, 1)
        first.forget_producers()
        first.delay_s = 0.5
        first.script.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await trio.sleep(0.3)
        assert first.count(ApiKey.PRODUCE) == 3, (
            "the second batch is there again, and has no response yet"
        )
        for number in range(3, 20):
            await producer.send("t", b"%d" % number)
            await trio.sleep(0.02)
        await producer.flush()
        assert first.logs[0].values == [b"%d" % number for number in range(1, 20)]
        assert {header.producer_epoch for header in first.logs[0].headers} == {0}
        assert first.count(ApiKey.API_VERSIONS) == 1, "it is the same connection"

    tell(story)


def test_a_broker_that_is_behind_does_not_send_records_back_and_forth() -> None:
    """The second one leads in epoch 2; it is told to say that the first leads, in the epoch before."""

    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        await deliver(producer, b"1")
        elect(brokers, 2)
        behind = brokers[1]
        behind.leaders, behind.leader_epochs = [1], [0]

        async def catch_up() -> None:
            await trio.sleep(2)
            behind.leaders, behind.leader_epochs = brokers[0].leaders, brokers[0].leader_epochs

        async with trio.open_nursery() as nursery:
            nursery.start_soon(catch_up)
            await deliver(producer, b"2")
        assert brokers[0].logs[0].values == [b"1", b"2"]
        assert count(brokers, ApiKey.PRODUCE) < 30, "each try is paused for"

    tell(story)


# Brokers that are silent, or gone


def test_a_leader_that_hangs_is_left_as_soon_as_the_cluster_says_so() -> None:
    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        await deliver(producer, b"1")
        brokers[0].script.append(ScriptedBroker.IGNORE)

        brokers[0].other[ApiKey.METADATA] = hang
        elect(brokers, 2)
        brokers[1].brokers = brokers[1:]
        took_s = await deliver(producer, b"2")
        assert 1 < took_s < 3, "request_timeout_ms is 30 s"
        assert list(producer.cluster.view.nodes) == [2]
        assert producer.cluster.pool.open_count == 1, (
            "the connection to the broker that is gone is closed"
        )

    tell(story)


@pytest.mark.parametrize("seed", range(4))
def test_a_bootstrap_server_that_cannot_be_reached_holds_nobody_up(seed: int) -> None:
    async def main(world: World) -> None:
        broker = ScriptedBroker(world, host=SECOND)
        world.network.cut("client", "silent")
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Producer(
                f"silent:1,{SECOND}:{PORT}", env=world.client_env(), linger_ms=0
            ) as producer:
                assert await deliver(producer, b"1") < 1, "connecting may take 10 s"
            nursery.cancel_scope.cancel()

    sim_run(seed, main)


def test_a_broker_that_says_nothing_to_a_refresh_is_not_waited_for_alone() -> None:
    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        await deliver(producer, b"1")
        elect(brokers, 2)
        await deliver(producer, b"2")
        brokers[0].other[ApiKey.METADATA] = hang
        began = trio.current_time()
        for _ in range(10):
            await producer.cluster.refresh()
        assert 1 <= trio.current_time() - began < 1.1, (
            "once it owes a response, others are asked first"
        )

    tell(story)


def test_tasks_that_wait_for_a_refresh_ask_for_themselves_only_where_it_told_too_little() -> None:
    """A second refresh may begin before a task that waited for the first one runs again."""

    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        await deliver(producer, b"1")
        before = count(brokers, ApiKey.METADATA)
        running = most = 0
        plain = brokers[0].respond_to_metadata

        async def slow(request: Any, version: int) -> MetadataResponse:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await trio.sleep(0.2)
            running -= 1
            return await plain(request)

        for broker in brokers:
            broker.other[ApiKey.METADATA] = slow
        async with trio.open_nursery() as nursery:
            for name in ("a", "b", "c", "d"):
                nursery.start_soon(producer.cluster.refresh, (name,))
                await trio.sleep(0.01)
        assert (most, count(brokers, ApiKey.METADATA) - before) == (1, 2), (
            "one at a time; the second one asks for all that are left"
        )

    tell(story)


# Beginning again with the bootstrap servers (KIP-899, KIP-1102)


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_where_all_known_brokers_are_gone_the_bootstrap_servers_are_asked_again(
    strategy: str,
) -> None:
    """The first broker is a bootstrap server that names only the second one, as a load balancer
    does.
    """

    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        balancer, old = brokers
        balancer.brokers = [old]
        elect(brokers, 2)
        await deliver(producer, b"1")
        old.go_down(10_000)
        balancer.brokers = [balancer]
        elect(brokers, 1)
        if strategy == "rebootstrap":
            assert await deliver(producer, b"2") < 5
        else:
            with pytest.raises(KafkaError) as caught:
                await deliver(producer, b"2")
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT

    tell(story, metadata_recovery_strategy=strategy)


def test_brokers_that_tell_nothing_for_long_are_no_part_of_the_cluster_any_more() -> None:
    async def story(world: World, brokers: list[ScriptedBroker], producer: Producer) -> None:
        balancer, old = brokers
        balancer.brokers = [old]
        elect(brokers, 2)
        await deliver(producer, b"1")

        async def refuse(request: Any, version: int) -> MetadataResponse:
            return MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

        old.other[ApiKey.METADATA] = refuse
        balancer.brokers = [balancer]
        elect(brokers, 1)
        old.is_leader_told = False
        took_s = await deliver(producer, b"2")
        assert 5 <= took_s < 8

    tell(story, metadata_recovery_rebootstrap_trigger_ms=5_000)


# Consumers


def tell_consumer(
    story: Callable[[list[ScriptedBroker], Consumer], Awaitable[None]], **settings: Any
) -> None:
    async def main(world: World) -> None:
        brokers = [ScriptedBroker(world), ScriptedBroker(world, node_id=2, host=SECOND)]
        clustered(*brokers)
        async with trio.open_nursery() as nursery:
            for broker in brokers:
                await nursery.start(broker.run)
            async with Consumer(f"{FIRST}:{PORT}", env=world.client_env(), **settings) as consumer:
                with trio.fail_after(1_000):
                    await story(brokers, consumer)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


def fetched(partition: PartitionData, *endpoints: FetchEndpoint) -> FetchResponse:
    topics = [FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=[partition])]
    return FetchResponse(responses=topics, node_endpoints=list(endpoints))


def records(*values: bytes, base_offset: int = 0) -> PartitionData:
    rows = [(0, None, value) for value in values]
    return PartitionData(
        records=build_batch(rows, base_offset=base_offset), high_watermark=base_offset + len(values)
    )


async def read_one(brokers: list[ScriptedBroker], consumer: Consumer) -> tuple[float, int]:
    """Read the first record.

    Return how many seconds that took, and how often the cluster was asked meanwhile.
    """
    consumer.assign([TopicPartition("t", 0)])
    await consumer.cluster.refresh(("t",))
    await consumer.seek(TopicPartition("t", 0), 0)
    began, before = trio.current_time(), count(brokers, ApiKey.METADATA)
    while not (read := await consumer.poll(timeout_ms=100)):
        pass
    assert [record.value for record in read] == [b"x"]
    return trio.current_time() - began, count(brokers, ApiKey.METADATA) - before


def test_a_consumer_follows_the_leader_that_a_fetch_response_names() -> None:
    async def story(brokers: list[ScriptedBroker], consumer: Consumer) -> None:
        async def moved(request: Any, version: int) -> FetchResponse:
            error = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1)
            error.current_leader = FetchLeader(leader_id=2, leader_epoch=1)
            return fetched(error, FetchEndpoint(node_id=2, host=SECOND, port=PORT))

        async def there(request: Any, version: int) -> FetchResponse:
            return fetched(records(b"x"))

        brokers[0].other[ApiKey.FETCH], brokers[1].other[ApiKey.FETCH] = moved, there
        brokers[0].brokers = brokers[:1]
        took_s, asked_count = await read_one(brokers, consumer)
        assert took_s < 0.05
        assert asked_count == 0

    tell_consumer(story)


def test_a_leader_that_hangs_is_not_fetched_from_once_another_leads() -> None:
    async def story(brokers: list[ScriptedBroker], consumer: Consumer) -> None:
        async def hang_and_lose(request: Any, version: int) -> FetchResponse:
            elect(brokers, 2)
            for broker in brokers:
                broker.brokers = brokers[1:]
            await trio.sleep_forever()
            raise AssertionError

        async def there(request: Any, version: int) -> FetchResponse:
            return fetched(records(b"x"))

        brokers[0].other[ApiKey.FETCH], brokers[1].other[ApiKey.FETCH] = hang_and_lose, there
        took_s, _ = await read_one(brokers, consumer)
        assert took_s < 4, "request_timeout_ms is 30 s"

    tell_consumer(story)


def test_a_near_replica_that_dies_is_left_for_the_leader() -> None:
    async def story(brokers: list[ScriptedBroker], consumer: Consumer) -> None:
        redirected = 0

        async def redirect(request: Any, version: int) -> FetchResponse:
            nonlocal redirected
            redirected += 1
            if redirected == 1:
                return fetched(PartitionData(preferred_read_replica=2, high_watermark=1))
            return fetched(records(b"x"))

        async def die(request: Any, version: int) -> Any:
            return ConnectionResetError("scripted")

        brokers[0].other[ApiKey.FETCH], brokers[1].other[ApiKey.FETCH] = redirect, die
        took_s, _ = await read_one(brokers, consumer)
        assert took_s < 1
        assert redirected == 2

    tell_consumer(story, client_rack="east")


def test_a_near_replica_that_lost_its_tail_is_left_for_the_leader_and_nothing_is_read_again() -> (
    None
):
    """A follower that has lost power tells where its log ends (KIP-392, KIP-320).

    The leader has the records that it lacks.
    """

    async def story(brokers: list[ScriptedBroker], consumer: Consumer) -> None:
        leader = [
            records(b"x"),
            PartitionData(preferred_read_replica=2, high_watermark=3),
            records(b"x", b"y"),
        ]

        async def lead(request: Any, version: int) -> FetchResponse:
            return fetched(leader.pop(0) if leader else PartitionData(high_watermark=2))

        shorter_log = PartitionData(
            diverging_epoch=EpochEndOffset(epoch=0, end_offset=0), high_watermark=0
        )

        async def shorter(request: Any, version: int) -> FetchResponse:
            return fetched(
                shorter_log if count(brokers[1:], ApiKey.FETCH) == 1 else records(b"again")
            )

        brokers[0].other[ApiKey.FETCH], brokers[1].other[ApiKey.FETCH] = lead, shorter
        await read_one(brokers, consumer)
        while not (read := await consumer.poll(timeout_ms=100)):
            pass
        assert [(record.offset, record.value) for record in read] == [(1, b"y")]
        assert count(brokers[1:], ApiKey.FETCH) == 1

    tell_consumer(story, client_rack="east")


# Positions that are newer than the view (KIP-320)


async def out_of_range(request: Any, version: int) -> FetchResponse:
    return fetched(PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1))


async def seek_beyond(consumer: Consumer, leader_epoch: int) -> None:
    """Read on at offset 7 with the view of the first broker.

    A record of that epoch was read before it.
    """
    await consumer.cluster.refresh(("t",))
    consumer.assign([TopicPartition("t", 0)])
    await consumer.seek(TopicPartition("t", 0), 7, leader_epoch)


def test_a_leader_that_has_not_heard_of_its_successor_is_not_asked_for_what_the_successor_wrote() -> (
    None
):
    """The leader lacks those records, and says that there is no such offset.

    The consumer began at the start of the log again, and committed that.
    """

    async def story(brokers: list[ScriptedBroker], consumer: Consumer) -> None:
        async def there(request: Any, version: int) -> FetchResponse:
            return fetched(records(b"x", base_offset=7))

        brokers[1].leaders, brokers[1].leader_epochs = [2], [1]
        brokers[0].other[ApiKey.FETCH], brokers[1].other[ApiKey.FETCH] = out_of_range, there
        await seek_beyond(consumer, 1)
        while not (read := await consumer.poll(timeout_ms=1_000)):
            pass
        assert [(record.offset, record.value) for record in read] == [(7, b"x")]
        assert count(brokers[:1], ApiKey.FETCH) == 0

    tell_consumer(story, auto_offset_reset="none")


def test_an_epoch_that_no_broker_comes_to_know_is_waited_for_no_longer_than_a_call() -> None:
    """The epoch may be that of a topic that was deleted and created anew.

    Then the position is gone, and the application has to hear of it.
    """

    async def story(brokers: list[ScriptedBroker], consumer: Consumer) -> None:
        brokers[0].other[ApiKey.FETCH] = out_of_range
        await seek_beyond(consumer, 5)
        assert not await consumer.poll(timeout_ms=2_000)
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            await consumer.poll(timeout_ms=5_000)

    tell_consumer(story, auto_offset_reset="none", default_api_timeout_ms=5_000)
