"""Our share consumer, its three faces and the admin work with real leaders and coordinators
(KIP-932).
"""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio

from log_service.client import (
    Admin,
    AsyncioShareConsumer,
    BlockingAdmin,
    BlockingProducer,
    BlockingShareConsumer,
    ConfigResource,
    ErrorCode,
    ItemsFailed,
    KafkaError,
    NewTopic,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
)
from tests.helpers.client_faces import cancel_as_result_comes, held_by
from tests.integration import command_line
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG, cluster, run
from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

LOCK_MS = 2_000
PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.assignment.interval.ms": "0",
}
names = itertools.count()


@pytest.fixture(scope="module", params=[TIDELOG, APACHE_KAFKA])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The bootstrap servers of a cluster whose locks may be short."""
    with cluster(request.param, tmp_path_factory.mktemp("cluster"), PROPERTIES) as servers:
        yield servers


@pytest.fixture
def name() -> str:
    return f"queue-{next(names)}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic of two partitions, and a group of the same name that begins at its first record."""
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=2, replication_factor=1)])
        admin.alter_configs({ConfigResource.group(name): {"share.auto.offset.reset": "earliest"}})
    return name


def produce(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    with BlockingProducer(bootstrap, batch_size=200) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number, partition=number % 2)


async def taken(consumer: ShareConsumer, count: int, **limits: Any) -> list[ShareRecord]:
    records: list[ShareRecord] = []
    while len(records) < count:
        records += await consumer.poll(**limits)
    return records


def values(records: list[ShareRecord]) -> list[int]:
    return sorted(int(record.value) for record in records)


def test_more_consumers_than_partitions_share_the_records(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 300)
    seen: list[list[ShareRecord]] = [[], [], []]

    async def work(number: int, is_done: trio.Event) -> None:
        async with ShareConsumer(bootstrap, group_id=topic, max_poll_records=10) as consumer:
            await consumer.subscribe([topic])
            while not is_done.is_set():
                seen[number] += await consumer.poll(timeout_ms=200)
                await trio.sleep(0.01)
                if sum(map(len, seen)) == 300:
                    is_done.set()

    async def story() -> None:
        is_done = trio.Event()
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(work, number, is_done)
        async with Admin(bootstrap) as admin:
            offsets = await admin.list_share_group_offsets(topic)
            assert {where.partition: each.lag for where, each in offsets.items()} == {0: 0, 1: 0}

    run(story)
    assert values([record for records in seen for record in records]) == list(range(300))
    assert {record.delivery_count for records in seen for record in records} == {1}


def test_released_records_come_again_rejected_and_accepted_ones_do_not(
    bootstrap: str, topic: str
) -> None:
    produce(bootstrap, topic, 6)

    async def story() -> None:
        async with ShareConsumer(
            bootstrap, group_id=topic, acknowledgement_mode="explicit"
        ) as consumer:
            await consumer.subscribe([topic])
            first = await taken(consumer, 6)
            kinds = [consumer.accept, consumer.release, consumer.reject]
            for record in first:
                kinds[int(record.value) % 3](record)
            await consumer.commit()
            again = await taken(consumer, 2)
            assert values(again) == [1, 4]
            assert [record.delivery_count for record in again] == [2, 2]
            consumer.accept(again)
            await consumer.commit()
            assert await consumer.poll(timeout_ms=700) == []

    run(story)


def test_leaving_by_an_exception_frees_the_records_at_once(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 20)
    seen: list[list[ShareRecord]] = []

    async def story() -> None:
        with suppress(LookupError):
            async with ShareConsumer(bootstrap, group_id=topic) as consumer:
                await consumer.subscribe([topic])
                while len(seen) < 20:
                    seen.append(await consumer.poll())
                    if sum(map(len, seen)) == 20:
                        raise LookupError
        async with ShareConsumer(bootstrap, group_id=topic) as consumer:
            await consumer.subscribe([topic])
            with trio.fail_after(14):  # the locks would last 15 s
                again = await taken(consumer, len(seen[-1]))
        assert values(again) == values(seen[-1])  # polling again had accepted what came before
        assert {record.delivery_count for record in again} == {2}

    run(story)


HOLD = """
import sys, time
from log_service.client import BlockingShareConsumer
with BlockingShareConsumer(sys.argv[1], group_id=sys.argv[2]) as consumer:
    consumer.subscribe([sys.argv[2]])
    count = 0
    while not count:
        count = len(consumer.poll())
    print(count, flush=True)
    time.sleep(600)
"""


def test_records_of_a_consumer_that_was_killed_are_free_at_once(bootstrap: str, name: str) -> None:
    with BlockingAdmin(
        bootstrap
    ) as admin:  # one partition, which all members have, also those that the group takes for alive
        admin.create_topics([NewTopic(name=name, partition_count=1, replication_factor=1)])
        admin.alter_configs({ConfigResource.group(name): {"share.auto.offset.reset": "earliest"}})
    with BlockingProducer(bootstrap) as producer:
        producer.send_many(name, [b"%d" % number for number in range(20)])
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, bootstrap, name], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == 20
        process.kill()
        process.wait()

    async def story() -> None:
        async with ShareConsumer(bootstrap, group_id=name) as consumer:
            await consumer.subscribe([name])
            with trio.fail_after(14):  # the locks would last 15 s
                again = await taken(consumer, 20)
        assert values(again) == list(range(20))
        assert {record.delivery_count for record in again} == {2}

    run(story)


def test_a_lock_that_runs_out_gives_the_record_to_another_delivery(
    bootstrap: str, topic: str
) -> None:
    with BlockingAdmin(bootstrap) as admin:
        admin.alter_configs(
            {ConfigResource.group(topic): {"share.record.lock.duration.ms": str(LOCK_MS)}}
        )
    produce(bootstrap, topic, 1)

    async def story() -> None:
        async with ShareConsumer(
            bootstrap, group_id=topic, acknowledgement_mode="explicit"
        ) as consumer:
            await consumer.subscribe([topic])
            (record,) = await taken(consumer, 1)
            assert consumer.acquisition_lock_timeout_ms == LOCK_MS
            for _ in range(3):
                await trio.sleep(LOCK_MS * 0.6 / 1_000)
                consumer.renew(record)
                await consumer.commit()
            assert await consumer.poll(timeout_ms=300) == []  # it is ours still
            (again,) = await taken(consumer, 1)
            assert (again.offset, again.delivery_count) == (record.offset, 2)
            with pytest.raises(KafkaError) as caught:
                consumer.accept(record)
            assert caught.value.code is ErrorCode.INVALID_RECORD_STATE
            consumer.accept(again)
            await consumer.commit()

    run(story)


def test_record_limit_acquires_no_more_than_a_poll_asks_for(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 60)

    async def story() -> None:
        async with (
            ShareConsumer(bootstrap, group_id=topic, share_acquire_mode="record_limit") as few,
            ShareConsumer(bootstrap, group_id=topic) as many,
        ):
            await few.subscribe([topic])
            mine = await few.poll(3, timeout_ms=20_000)
            assert len(mine) == 3
            await few.unsubscribe()
            await many.subscribe([topic])
            others = await taken(many, 57)
        assert values(mine + others) == list(range(60))
        assert {record.delivery_count for record in others} == {1}

    run(story)


def test_offsets_of_markers_are_done_with(bootstrap: str, topic: str) -> None:
    with BlockingProducer(bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(3):
            with producer.transaction():
                producer.send(topic, b"%d" % number, partition=0)

    async def story() -> None:
        async with ShareConsumer(bootstrap, group_id=topic) as consumer:
            await consumer.subscribe([topic])
            assert values(await taken(consumer, 3)) == [0, 1, 2]
            await consumer.commit()
            await consumer.poll(timeout_ms=500)
        async with Admin(bootstrap) as admin:
            offsets = await admin.list_share_group_offsets(topic, [topic])
            assert offsets[TopicPartition(topic, 0)].lag == 0

    run(story)


def test_a_loop_in_a_thread_accepts_what_it_went_past(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 10)
    seen = []
    with suppress(LookupError), BlockingShareConsumer(bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            seen.append(record)
            if len(seen) == 4:
                raise LookupError
    with BlockingShareConsumer(bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic])
        rest: list[ShareRecord] = []
        while len(rest) < 7:
            rest += consumer.poll()
        consumer.commit()
        assert consumer.poll(timeout_ms=500) == []
    assert values(seen[:3] + rest) == list(range(10))


def test_ctrl_c_in_a_thread_loses_nothing(bootstrap: str, topic: str) -> None:
    with BlockingShareConsumer(bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic])
        consumer.poll(timeout_ms=3_000)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(timeout_ms=20_000)
        produce(bootstrap, topic, 5)
        records: list[ShareRecord] = []
        while len(records) < 5:
            records += consumer.poll()
        assert {record.delivery_count for record in records} == {1}


def test_a_wakeup_ends_the_loop_of_a_thread_that_runs_or_the_next_one(
    bootstrap: str, topic: str
) -> None:
    with BlockingShareConsumer(bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic])
        consumer.poll(timeout_ms=3_000)
        produce(bootstrap, topic, 10)
        consumer.wakeup()
        assert not list(consumer)
        seen: list[ShareRecord] = []
        for record in consumer:
            seen.append(record)
            if len(seen) == 4:
                consumer.wakeup()
        assert len(seen) == 4
        consumer.wakeup()
        consumer.poll(1)
        assert next(iter(consumer)), "a wakeup ends one thing"


def test_tasks_on_asyncio_work_on_records_side_by_side(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 12)
    told: list[int] = []

    async def story() -> Counter[int]:
        done: Counter[int] = Counter()
        async with AsyncioShareConsumer(
            bootstrap,
            group_id=topic,
            acknowledgement_mode="explicit",
            on_acknowledged=lambda where, offsets, error: (
                told.extend(offsets) if error is None else None
            ),
        ) as consumer:
            await consumer.subscribe([topic])

            async def work(record: ShareRecord) -> None:
                await asyncio.sleep(0.01 * (int(record.value) % 3))
                await consumer.accept(record)
                done[int(record.value)] += 1

            async with asyncio.TaskGroup() as group:
                left = 12
                async for record in consumer:
                    group.create_task(work(record))
                    left -= 1
                    if not left:
                        break
            await consumer.commit()
            cancelled = asyncio.create_task(consumer.poll(timeout_ms=20_000))
            await asyncio.sleep(0.2)
            cancelled.cancel()
            produce(bootstrap, topic, 1, 12)
            with suppress(asyncio.CancelledError):
                await cancelled
            while not (records := await consumer.poll()):
                pass
            assert [int(record.value) for record in records] == [12]
        return done

    assert asyncio.run(asyncio.wait_for(story(), 60)) == Counter(range(12))
    assert len(told) >= 12


def test_a_poll_on_asyncio_that_was_cancelled_too_late_leaves_its_records_to_the_next_at_once(
    bootstrap: str, topic: str
) -> None:
    """Whatever else is cancelled before it begins, nothing is accepted that was not returned."""
    produce(bootstrap, topic, 6)

    async def story() -> None:
        async with AsyncioShareConsumer(bootstrap, group_id=topic) as consumer:
            await consumer.subscribe([topic])
            came: list[ShareRecord] = []
            while not came:
                polling = asyncio.create_task(consumer.poll(timeout_ms=5_000))
                await cancel_as_result_comes(consumer, polling)
                came = list(held_by(consumer))
            for _ in range(3):
                unheard = asyncio.create_task(consumer.poll(timeout_ms=20_000))
                await asyncio.sleep(0)
                unheard.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await unheard
            returned = await consumer.poll(timeout_ms=0)
            assert returned[: len(came)] == came
            assert {record.delivery_count for record in returned} == {1}
            seen = values(returned)
            while len(seen) < 6:
                seen += values(await consumer.poll())
            assert sorted(seen) == list(range(6))

    asyncio.run(asyncio.wait_for(story(), 90))


def test_the_admin_moves_a_queue_and_forgets_it(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 40)

    async def story() -> None:
        async with Admin(bootstrap) as admin:
            async with ShareConsumer(bootstrap, group_id=topic) as consumer:
                await consumer.subscribe([topic])
                await taken(consumer, 40)
                await consumer.commit()
                described = (await admin.describe_share_groups([topic]))[topic]
                assert (described.state, described.assignor, len(described.members)) == (
                    "Stable",
                    "simple",
                    1,
                )
                assert described.members[0].topics == (topic,)
                assert sorted(described.members[0].assignment) == [
                    TopicPartition(topic, 0),
                    TopicPartition(topic, 1),
                ]
                with pytest.raises(KafkaError) as caught:
                    await admin.alter_share_group_offsets(topic, {TopicPartition(topic, 0): 0})
                assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
            assert {
                where.partition: each.lag
                for where, each in (await admin.list_share_group_offsets(topic)).items()
            } == {0: 0, 1: 0}
            await admin.alter_share_group_offsets(topic, {TopicPartition(topic, 0): 5})
            after = await admin.list_share_group_offsets(topic, [topic])
            assert after[TopicPartition(topic, 0)].start_offset == 5
            async with ShareConsumer(bootstrap, group_id=topic) as consumer:
                await consumer.subscribe([topic])
                again = await taken(consumer, 15)
                assert sorted(record.offset for record in again) == list(range(5, 20))
                assert {(record.partition, record.delivery_count) for record in again} == {(0, 1)}
            listed = {
                group.group_id: group.group_type
                for group in await admin.list_groups(types=["share"])
            }
            assert listed[topic].lower() == "share"
            await admin.delete_share_group_offsets(topic, [topic])
            assert await admin.list_share_group_offsets(topic) == {}
            with pytest.raises(ItemsFailed):
                await admin.delete_share_group_offsets(topic, ["no-such-topic"])
            await admin.delete_groups([topic])
            assert (await admin.describe_share_groups([topic]))[topic].state == "Dead"

    run(story)


def test_the_command_releases_what_a_member_holds(bootstrap: str, topic: str) -> None:
    """The lock lasts longer than the test waits. Two members have the one partition."""
    one = f"{topic}-one"
    release = ("groups", "release", topic, "-y", "--member")
    settings: dict[str, Any] = {"group_id": topic, "acknowledgement_mode": "explicit"}
    with BlockingAdmin(bootstrap) as admin, BlockingShareConsumer(bootstrap, **settings) as hanging:
        admin.create_topics([NewTopic(name=one, partition_count=1, replication_factor=1)])
        produce(bootstrap, one, 1)
        hanging.subscribe([one])
        held: list[ShareRecord] = []
        while not held:
            held = hanging.poll(timeout_ms=1_000)
        (member,) = admin.describe_share_groups([topic])[topic].members
        nobody = command_line.run([*release, "nobody"], bootstrap=bootstrap)
        assert "nobody holds no records" in nobody.errors
        done = command_line.run([*release, member.member_id], bootstrap=bootstrap)
        assert done.exit_code == 0, done.errors
        with BlockingShareConsumer(bootstrap, group_id=topic) as other:
            other.subscribe([one])
            again: list[ShareRecord] = []
            while not again:
                again = other.poll(timeout_ms=1_000)
        assert [(each.offset, each.delivery_count) for each in again] == [(held[0].offset, 2)]
        hanging.acknowledge(held[0])
        with pytest.raises(KafkaError):
            hanging.commit()


def test_a_group_of_another_kind_is_told(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 1)

    async def story() -> None:
        async with Admin(bootstrap) as admin:
            await admin.alter_group_offsets(f"{topic}-classic", {TopicPartition(topic, 0): 0})
        async with ShareConsumer(bootstrap, group_id=f"{topic}-classic") as consumer:
            await consumer.subscribe([topic])
            with pytest.raises(KafkaError):
                await consumer.poll(timeout_ms=20_000)

    run(story)


def test_the_command_prints_a_queue_and_accepts_what_it_printed(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 10)
    template = "{value} {delivery_count}\\n"
    some = command_line.run(
        ["consume", topic, "--queue", topic, "-n", "4", "-f", template], bootstrap=bootstrap
    )
    assert (some.exit_code, len(some.lines)) == (0, 4), some.errors
    rest = command_line.run(
        ["consume", topic, "-q", topic, "-n", "6", "--json"], bootstrap=bootstrap
    )
    told = [json.loads(line) for line in rest.lines]
    assert sorted(
        [line.split()[0] for line in some.lines] + [record["value"] for record in told]
    ) == list("0123456789")
    assert {line.split()[1] for line in some.lines} == {"1"}
    assert {record["delivery_count"] for record in told} == {1}
    nothing = command_line.run(
        ["consume", topic, "-q", topic, "--timeout", "1"], bootstrap=bootstrap
    )
    assert (nothing.exit_code, nothing.output) == (0, "")


def test_ctrl_c_accepts_what_was_printed(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 8)
    with command_line.start(["consume", topic, "--queue", topic], bootstrap=bootstrap) as process:
        assert process.stdout is not None
        printed = [int(process.stdout.readline()) for _ in range(8)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert (process.returncode, sorted(printed)) == (130, list(range(8)))
    rest = command_line.run(["consume", topic, "-q", topic, "--timeout", "1"], bootstrap=bootstrap)
    assert rest.output == ""


@pytest.mark.parametrize(
    "option",
    ["--from-beginning", "--exit-at-end", "--read-committed", "--group=g", "--partition=0"],
)
def test_what_a_queue_cannot_do_is_refused(option: str) -> None:
    refused = command_line.run(["consume", "t", "--queue", "q", option], bootstrap="127.0.0.1:1")
    assert refused.exit_code == 2
    assert option.partition("=")[0] in refused.errors


def test_javas_consumer_takes_from_the_same_queue(bootstrap: str, topic: str) -> None:
    skip_unless_kafka_is_there()
    produce(bootstrap, topic, 60)
    java = [
        *java_command(),
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        "--bootstrap-server",
        bootstrap,
    ]
    limits = ["--topic", topic, "--group", topic, "--max-messages", "20", "--timeout-ms", "60000"]
    told = subprocess.run([*java, *limits], capture_output=True, text=True, check=True, timeout=120)
    theirs = sorted(map(int, told.stdout.split()))
    assert len(theirs) == 20

    async def story() -> None:
        async with ShareConsumer(bootstrap, group_id=topic) as consumer:
            await consumer.subscribe([topic])
            ours = await taken(consumer, 40)
        assert sorted(theirs + values(ours)) == list(range(60))

    run(story)
