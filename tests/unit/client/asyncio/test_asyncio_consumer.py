"""The consumer for asyncio loses no record by a cancellation.

It commits nothing that was not returned, and its callbacks run on the loop.
"""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random

import pytest

from log_service.client import (
    Admin,
    AsyncioAdmin,
    AsyncioConsumer,
    BlockingAdmin,
    BlockingProducer,
    Consumer,
    ConsumerRecord,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from tests.helpers.broker_process import BrokerThread
from tests.helpers.client_faces import cancel_as_result_comes, held_by
from tests.unit.client.asyncio.scripted import scripted_consumer
from tests.unit.client.scripted_leader import Leader

COUNT = 1_000
ONLY = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a broker whose topic t holds the numbers up to ``COUNT``.

    They are in one partition, each at the offset of its value.
    """
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker:
        with (
            BlockingAdmin(broker.bootstrap) as admin,
            BlockingProducer(broker.bootstrap) as producer,
        ):
            admin.create_topics([NewTopic(name="t", partition_count=1, replication_factor=1)])
            producer.send_many("t", [b"%d" % number for number in range(COUNT)])
        yield broker.bootstrap


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


@pytest.mark.parametrize("seed", range(8))
def test_cancelled_polls_and_loops_lose_no_record_and_return_none_twice(seed: int) -> None:
    """Timeouts may strike at any moment of ``poll``, ``anext`` and a whole loop.

    Records arrive meanwhile.
    """
    broker, unopened = scripted_consumer(seed=seed, fetch_max_wait_ms=5, max_poll_records=40)
    leader = Leader(broker)
    for base in range(0, COUNT, 20):
        leader.records(base, [b"%d" % number for number in range(base, base + 20)])
    rng = Random(seed)
    seen: list[int] = []

    async def loop_a_little(consumer: AsyncioConsumer) -> None:
        async for record in consumer:
            seen.append(record.offset)
            if rng.random() < 0.05:
                await asyncio.sleep(rng.random() / 500)

    async def main() -> None:
        async with unopened as consumer:
            await consumer.assign([ONLY])
            async with asyncio.timeout(60):
                while len(seen) < COUNT:
                    limit_s = rng.choice([0, rng.random() / 2_000, rng.random() / 50])
                    try:
                        match rng.randrange(4):
                            case 0:
                                seen.extend(
                                    offsets(
                                        await asyncio.wait_for(
                                            consumer.poll(rng.choice([None, 7, 1])), limit_s
                                        )
                                    )
                                )
                            case 1:
                                seen.append(
                                    (await asyncio.wait_for(anext(consumer), limit_s)).offset
                                )
                            case 2:
                                async with asyncio.timeout(limit_s):
                                    seen.extend(offsets(await consumer.poll()))
                            case _:
                                await asyncio.wait_for(loop_a_little(consumer), limit_s)
                    except TimeoutError:
                        pass

    asyncio.run(main())
    assert seen == list(range(COUNT))


def test_a_poll_whose_records_came_as_it_was_cancelled_leaves_them_to_the_next() -> None:
    """The records are there, the task does not know yet: the loop stands still in between."""
    broker, unopened = scripted_consumer()
    Leader(broker).records(0, [b"a", b"b", b"c"])

    async def main() -> None:
        async with unopened as consumer:
            await consumer.assign([ONLY])
            polling = asyncio.create_task(consumer.poll(timeout_ms=10_000))
            await cancel_as_result_comes(consumer, polling)
            assert await consumer.position(ONLY) == 0
            assert offsets(await consumer.poll(2)) == [0, 1]
            assert await consumer.position(ONLY) == 2
            assert offsets([await anext(consumer)]) == [2]
            assert await consumer.position(ONLY) == 3

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_cancelled_a_member_that_goes_on_and_one_that_follows_read_everything(
    bootstrap: str, seed: int
) -> None:
    """Any call may be cut short, and the block may be left in any way.

    Nothing hangs, and no commit is ahead.
    """
    rng = Random(seed)
    group_id = f"cancelled {seed}"
    seen: list[int] = []

    async def act(consumer: AsyncioConsumer) -> None:
        match rng.randrange(8):
            case 0:
                seen.extend(offsets(await consumer.poll(rng.choice([None, 5]), timeout_ms=100)))
            case 1:
                await consumer.commit()
            case 2:
                await consumer.commit_soon()
            case 3:
                assert await consumer.position(ONLY) == (seen[-1] + 1 if seen else 0)
            case 4:
                await consumer.seek(ONLY, seen[-1] + 1 if seen else 0)
            case 5:
                await consumer.metrics()
            case _:
                async for record in consumer:
                    seen.append(record.offset)
                    if rng.random() < 0.02:
                        break

    async def member() -> None:
        first = len(seen)
        async with AsyncioConsumer(
            bootstrap, group_id=group_id, auto_offset_reset="earliest", max_poll_records=50
        ) as consumer:
            await consumer.subscribe(["t"])
            seen.append((await anext(consumer)).offset)
            assert seen[-1] <= (max(seen[:first]) + 1 if first else 0), (
                "what was committed had been returned"
            )
            for _ in range(rng.randrange(40)):
                with suppress(TimeoutError):
                    await asyncio.wait_for(act(consumer), rng.choice([0, rng.random() / 500, 0.05]))
            assert seen[first:] == list(range(seen[first], seen[first] + len(seen) - first)), (
                "none is missing, none comes twice"
            )
            if rng.random() < 0.3:
                await consumer.close()
            elif rng.random() < 0.5:
                raise ZeroDivisionError

    async def main() -> None:
        async with asyncio.timeout(60):
            while not seen or seen[-1] < COUNT - 50:
                with suppress(ZeroDivisionError):
                    await member()

    asyncio.run(main())
    assert set(range(COUNT - 50)) <= set(seen)


def test_a_commit_in_a_loop_covers_what_the_loop_has_returned(bootstrap: str) -> None:
    async def main() -> None:
        heard: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def note(
            committed: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None
        ) -> None:
            heard.set_result((committed[ONLY], error, threading.current_thread()))

        async with AsyncioConsumer(
            bootstrap, group_id="loop", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:
            await consumer.subscribe(["t"])
            async for record in consumer:
                if record.offset == 10:
                    await consumer.commit()
                    assert (await consumer.committed([ONLY]))[ONLY].offset == 11
                if record.offset == 15:
                    await consumer.commit({ONLY: 16})
                    assert (await consumer.committed([ONLY]))[ONLY] == OffsetAndMetadata(
                        offset=16, leader_epoch=0
                    )
                if record.offset == 20:
                    await consumer.commit_soon(on_commit=note)
                    assert await heard == (
                        OffsetAndMetadata(offset=21, leader_epoch=0),
                        None,
                        threading.current_thread(),
                    )
                    break
            assert offsets(await consumer.poll(2)) == [21, 22], "leaving the loop skips nothing"
            assert (await consumer.consumed())[ONLY].offset == 23
        async with AsyncioConsumer(bootstrap, group_id="loop", enable_auto_commit=False) as again:
            await again.subscribe(["t"])
            assert (await anext(again)).offset == 21

    asyncio.run(main())


def test_leaving_the_block_commits_what_was_returned_and_not_what_is_held(bootstrap: str) -> None:
    async def read(count: int, *, is_closed_by_hand: bool = False) -> list[int]:
        async with AsyncioConsumer(
            bootstrap, group_id="leaving", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe(["t"])
            found = [(await anext(consumer)).offset for _ in range(count)]
            if is_closed_by_hand:
                await consumer.close()
            return found

    assert asyncio.run(read(3)) == [0, 1, 2]
    assert asyncio.run(read(2, is_closed_by_hand=True)) == [3, 4]

    async def cancelled() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with AsyncioConsumer(bootstrap, group_id="leaving") as consumer:
            await consumer.subscribe(["t"])
            assert (await anext(consumer)).offset == 5
            task.cancel()
            await asyncio.sleep(1)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert asyncio.run(read(1)) == [5], "what a cancelled task had in hand is read again"


def test_closing_from_another_loop_commits_no_record_that_is_held(bootstrap: str) -> None:
    consumer = AsyncioConsumer(bootstrap, group_id="elsewhere", auto_offset_reset="earliest")

    async def first() -> None:
        await consumer.__aenter__()
        await consumer.subscribe(["t"])
        assert (await anext(consumer)).offset == 0

    asyncio.run(first())
    asyncio.run(consumer.close())
    with BlockingAdmin(bootstrap) as admin:
        assert admin.list_group_offsets("elsewhere") == {}


def test_moving_drops_what_is_held_and_reads_it_again_where_it_belongs(bootstrap: str) -> None:
    async def main() -> None:
        async with AsyncioConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([ONLY])
            assert (await anext(consumer)).offset == 0
            await consumer.seek(ONLY, 500)
            assert (await anext(consumer)).offset == 500
            await consumer.pause([ONLY])
            assert await consumer.paused() == [ONLY]
            assert await consumer.poll(timeout_ms=50) == []
            await consumer.resume([ONLY])
            assert (await anext(consumer)).offset == 501
            await consumer.assign([ONLY])
            assert (await anext(consumer)).offset == 502
            await consumer.seek_to_end()
            assert await consumer.position(ONLY) == COUNT
            assert await consumer.seek_to_time({ONLY: 0}) == {ONLY: 0}
            assert (await anext(consumer)).offset == 0
            await consumer.unsubscribe()
            assert await consumer.assignment() == []
            assert not held_by(consumer)

    asyncio.run(main())


def test_rebalance_callbacks_are_on_the_loop_and_may_commit_also_at_the_end(bootstrap: str) -> None:
    heard: list[tuple[str, list[TopicPartition], bool]] = []

    async def main() -> None:
        thread = threading.current_thread()
        async with AsyncioConsumer(
            bootstrap, group_id="callbacks", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer:

            async def revoked(partitions: object) -> None:
                await asyncio.sleep(0)
                await consumer.commit({ONLY: 7})
                heard.append(("revoked", list(partitions), threading.current_thread() is thread))  # type: ignore[call-overload]

            def assigned(partitions: object) -> None:
                heard.append(("assigned", list(partitions), threading.current_thread() is thread))  # type: ignore[call-overload]

            await consumer.subscribe(["t"], on_assigned=assigned, on_revoked=revoked)
            assert consumer.subscription == {"t"}
            assert (await anext(consumer)).offset == 0
        async with AsyncioConsumer(
            bootstrap, group_id="callbacks", enable_auto_commit=False
        ) as again:
            await again.subscribe(["t"])
            assert (await anext(again)).offset == 7

    asyncio.run(main())
    assert heard == [("assigned", [ONLY], True), ("revoked", [ONLY], True)]


def test_a_wakeup_ends_the_loop_or_the_poll_that_waits(bootstrap: str) -> None:
    async def main() -> None:
        async with AsyncioConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([ONLY])
            seen = []
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == COUNT - 1:
                    threading.Timer(0.05, consumer.wakeup).start()
            assert seen == list(range(COUNT))
            polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
            await asyncio.sleep(0.05)
            consumer.wakeup()
            assert await polling == []
            await consumer.seek_to_beginning()
            assert (await anext(consumer)).offset == 0, "a wakeup ends one thing"

    asyncio.run(main())


def test_two_tasks_cannot_poll_at_once(bootstrap: str) -> None:
    async def main() -> None:
        async with AsyncioConsumer(bootstrap) as consumer:
            await consumer.assign([ONLY])
            polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
            assert await consumer.assignment() == [ONLY]  # the poll has begun by then
            with pytest.raises(KafkaError, match="one poll at a time"):
                await consumer.poll()
            polling.cancel()

    asyncio.run(main())


def test_the_admin_answers_and_reads_ranges(bootstrap: str) -> None:
    async def main() -> None:
        async with AsyncioAdmin(bootstrap) as admin:
            assert [topic.name for topic in await admin.list_topics() if topic.name == "t"] == ["t"]
            chunks = [chunk async for chunk in admin.read_range(ONLY, 10, 20)]
            assert chunks
            async for _ in admin.read_range(ONLY, 0, COUNT, max_bytes=1):
                break
            assert (
                len(await asyncio.gather(*(admin.describe_topics(["t"]) for _ in range(20)))) == 20
            )

    asyncio.run(main())


@pytest.mark.parametrize(("face", "plain"), [(AsyncioConsumer, Consumer), (AsyncioAdmin, Admin)])
def test_it_has_everything_that_its_trio_face_has(face: type, plain: type) -> None:
    public = {name for name in dir(plain) if not name.startswith("_")} - {
        "take",
        "take_nowait",
        "cluster",
    }
    assert public <= {name for name in dir(face) if not name.startswith("_")}
