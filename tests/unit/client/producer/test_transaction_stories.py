"""A transactional producer survives a coordinator that moves, fences and forgets to respond.

It runs in virtual time, by both protocols.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import trio

from log_service.client import (
    ConsumerGroupMetadata,
    ProducerFailed,
    ProducerFenced,
    TransactionAbortable,
)
from log_service.client.producer.delivery import Delivery
from log_service.client.producer.producer import Producer
from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.api_versions import ApiKey
from tests.sim.world import World, sim_run
from tests.unit.client.scripted_broker import ScriptedBroker
from tests.unit.client.scripted_transactions import PRODUCER_ID, ScriptedCoordinator

Story = Callable[[ScriptedCoordinator, Producer], Awaitable[None]]
GROUP = ConsumerGroupMetadata(group_id="copy", generation_id=3, member_id="me")
BOTH = pytest.mark.parametrize("is_version_2", [True, False], ids=["version 2", "version 1"])


def tell(
    story: Story,
    *,
    is_version_2: bool = True,
    seed: int = 1,
    is_initialized: bool = True,
    **settings: Any,
) -> ScriptedCoordinator:
    async def main(world: World) -> ScriptedCoordinator:
        broker = ScriptedBroker(world, partition_count=2)
        coordinator = ScriptedCoordinator(broker, is_version_2=is_version_2)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Producer(
                "broker:9092", env=world.client_env(), transactional_id="id", **settings
            ) as producer:
                with trio.fail_after(10_000):
                    if is_initialized:
                        await producer.init_transactions()
                    await story(coordinator, producer)
            nursery.cancel_scope.cancel()
        return coordinator

    return sim_run(seed, main)


async def one(producer: Producer, *values: bytes) -> None:
    """A transaction with these values."""
    async with producer.transaction():
        for value in values:
            await producer.send("t", value, partition=0)


def epochs(coordinator: ScriptedCoordinator) -> list[tuple[int, int, int]]:
    """Producer id, epoch and first sequence of the batches of partition 0."""
    return [
        (each.producer_id, each.producer_epoch, each.base_sequence)
        for each in coordinator.broker.logs[0].headers
    ]


def test_leaders_add_partitions_and_each_transaction_has_its_epoch() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        await one(producer, b"a", b"b")
        await one(producer, b"c")

    told = tell(story)
    assert told.asked() == [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.PRODUCE,
        ApiKey.END_TXN,
        ApiKey.PRODUCE,
        ApiKey.END_TXN,
    ]
    assert epochs(told) == [(PRODUCER_ID, 0, 0), (PRODUCER_ID, 1, 0)]
    assert all(header.is_transactional for header in told.broker.logs[0].headers)
    assert told.ended == [True, True]
    assert {version for key, version in told.versions if key is ApiKey.END_TXN} == {5}
    assert {
        request.transactional_id for key, request in told.broker.requests if key is ApiKey.PRODUCE
    } == {"id"}


def test_with_version_1_partitions_are_announced_first_and_the_epoch_stays() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        await one(producer, b"a", b"b")
        await one(producer, b"c")

    told = tell(story, is_version_2=False)
    each = [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN]
    assert told.asked() == [ApiKey.INIT_PRODUCER_ID, *each, *each]
    assert epochs(told) == [(PRODUCER_ID, 0, 0), (PRODUCER_ID, 0, 2)]
    assert told.added == [("t", 0), ("t", 0)]
    assert {version for key, version in told.versions if key is ApiKey.END_TXN} == {4}
    assert {version for key, version in told.versions if key is ApiKey.ADD_PARTITIONS_TO_TXN} == {3}


@BOTH
def test_a_transaction_with_nothing_in_it_asks_for_nothing(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        await one(producer)
        await producer.begin_transaction()
        await producer.abort_transaction()

    assert tell(story, is_version_2=is_version_2).asked() == [ApiKey.INIT_PRODUCER_ID]


@BOTH
def test_an_exception_aborts_and_its_records_say_so(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        receipts: list[Delivery] = []

        async def failing() -> None:
            async with producer.transaction():
                receipts.append(await producer.send("t", b"sent", partition=0))
                await receipts[0].wait()
                receipts.append(await producer.send("t", b"waits", partition=1))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        sent, waiting = receipts
        assert sent.result().offset == 0
        with pytest.raises(
            KafkaError, match="the transaction was aborted before the broker had taken the record"
        ) as dropped:
            await waiting.wait()
        assert dropped.value.code is ErrorCode.TRANSACTION_ABORTABLE
        await one(producer, b"next")

    told = tell(story, is_version_2=is_version_2, linger_ms=10)
    assert told.ended == [False, True]
    assert told.broker.logs[0].values == [b"sent", b"next"]
    assert told.broker.logs[1].values == []


@BOTH
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ],
)
def test_a_record_that_fails_keeps_the_others_from_being_committed(
    code: ErrorCode, is_version_2: bool
) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        await one(producer, b"first")
        coordinator.broker.script.append(code)
        with pytest.raises(TransactionAbortable, match=f"cannot be committed: t-0: {code.name}"):
            await one(producer, b"refused")
        await one(producer, b"last")

    told = tell(story, is_version_2=is_version_2)
    assert told.ended == [True, False, True]
    assert told.broker.logs[0].values == [b"first", b"last"]
    bumps = [
        request.producer_epoch
        for key, request in told.broker.requests
        if key is ApiKey.INIT_PRODUCER_ID
    ]
    assert bumps == ([-1] if is_version_2 else [-1, 0]), (
        "without KIP-890 the producer asks for the next epoch (KIP-360)"
    )
    assert epochs(told)[-1] == (PRODUCER_ID, 2 if is_version_2 else 1, 0)


@BOTH
def test_what_waits_behind_a_failed_record_is_dropped(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.broker.script.append(ErrorCode.MESSAGE_TOO_LARGE)
        await producer.begin_transaction()
        refused = await producer.send("t", b"refused", partition=0)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await refused.wait()
        with pytest.raises(TransactionAbortable, match="Abort it"):
            await producer.send("t", b"too late", partition=1)
        with pytest.raises(TransactionAbortable):
            await producer.commit_transaction()
        await producer.abort_transaction()

    assert tell(story, is_version_2=is_version_2).ended == [False]


@BOTH
@pytest.mark.parametrize(
    "accident",
    [
        ScriptedBroker.DROP,
        ScriptedBroker.APPEND_AND_DROP,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
@pytest.mark.parametrize(
    "key",
    [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ],
)
def test_what_passes_is_tried_again(
    key: ApiKey, accident: ErrorCode | str, is_version_2: bool
) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.script[key].append(accident)
        await producer.init_transactions()
        for value in (b"a", b"b"):
            async with producer.transaction():
                await producer.send("t", value, partition=0)
                await producer.send_offsets_to_transaction({TopicPartition("in", 0): 7}, GROUP)

    told = tell(story, is_version_2=is_version_2, is_initialized=False)
    assert told.ended == [True, True]
    assert told.broker.logs[0].values == [b"a", b"b"]
    assert told.offsets == {("in", 0): 7}


@BOTH
def test_records_wait_while_the_last_transaction_is_still_being_ended(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.broker.script.extend([ErrorCode.CONCURRENT_TRANSACTIONS] * 3)
        started = trio.current_time()
        await one(producer, b"a")
        assert trio.current_time() - started < 1

    assert tell(story, is_version_2=is_version_2).ended == [True]


@BOTH
def test_offsets_go_to_the_group_with_its_member(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        async with producer.transaction():
            await producer.send_offsets_to_transaction(
                {TopicPartition("in", 0): 7, TopicPartition("in", 1): 9}, GROUP
            )

    told = tell(story, is_version_2=is_version_2)
    offsets = (
        [ApiKey.TXN_OFFSET_COMMIT]
        if is_version_2
        else [ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT]
    )
    assert told.asked() == [ApiKey.INIT_PRODUCER_ID, *offsets, ApiKey.END_TXN]
    assert (ApiKey.TXN_OFFSET_COMMIT, 5 if is_version_2 else 4) in told.versions
    request = next(
        request for key, request in told.broker.requests if key is ApiKey.TXN_OFFSET_COMMIT
    )
    assert (request.generation_id, request.member_id, request.producer_epoch) == (3, "me", 0)
    assert told.offsets == {("in", 0): 7, ("in", 1): 9}
    assert told.ended == [True]


@BOTH
@pytest.mark.parametrize(
    "code",
    [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.TRANSACTION_ABORTABLE],
)
def test_offsets_of_a_member_that_was_put_out_abort_the_transaction(
    code: ErrorCode, is_version_2: bool
) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.script[ApiKey.TXN_OFFSET_COMMIT].append(code)
        with pytest.raises(TransactionAbortable) as caught:
            async with producer.transaction():
                await producer.send_offsets_to_transaction({TopicPartition("in", 0): 7}, GROUP)
        assert caught.value.code is code
        await one(producer, b"next")

    assert tell(story, is_version_2=is_version_2).ended == [False, True]


def test_offsets_that_did_not_get_in_keep_the_transaction_from_being_committed() -> None:
    """An application that catches the timeout and commits would lose its offsets.

    It would read everything twice.
    """

    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.script[ApiKey.TXN_OFFSET_COMMIT].extend(
            [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100
        )
        await producer.begin_transaction()
        with pytest.raises(
            KafkaError, match=r"COORDINATOR_LOAD_IN_PROGRESS.*abort the transaction"
        ):
            await producer.send_offsets_to_transaction(
                {TopicPartition("in", 0): 7}, GROUP, timeout_ms=500
            )
        with pytest.raises(
            TransactionAbortable, match="the offsets of group 'copy' did not get into it"
        ):
            await producer.commit_transaction()
        await producer.abort_transaction()

    assert tell(story).ended == [False]


@BOTH
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_does_nothing_more(code: ErrorCode, is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.script[ApiKey.END_TXN].append(code)
        with pytest.raises(ProducerFenced, match="another producer took its transactional_id"):
            await one(producer, b"a")
        for call in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            producer.init_transactions,
        ):
            with pytest.raises(ProducerFenced):
                await call()
        with pytest.raises(ProducerFenced):
            await producer.send("t", b"b")
        with pytest.raises(ProducerFenced):
            producer.send_nowait("t", b"b")

    assert tell(story, is_version_2=is_version_2).ended == []


def test_an_id_that_may_not_be_used_is_told_with_the_reason() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.script[ApiKey.INIT_PRODUCER_ID].append(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        with pytest.raises(
            ProducerFailed, match="this user may not WRITE with that transactional_id"
        ):
            await producer.init_transactions()

    tell(story, is_initialized=False)


@BOTH
def test_a_commit_that_was_not_responded_to_may_be_made_again(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.script[ApiKey.END_TXN].extend(
            [ScriptedBroker.APPEND_AND_DROP] + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 20
        )
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(KafkaError, match="whether it is committed is not known"):
            await producer.commit_transaction(timeout_ms=2_000)
        with pytest.raises(KafkaError, match=r"call commit_transaction\(\) again"):
            await producer.abort_transaction()
        await producer.commit_transaction()
        await one(producer, b"b")

    told = tell(story, is_version_2=is_version_2)
    assert told.ended == [True, True]
    assert told.broker.logs[0].values == [b"a", b"b"]


def test_an_abort_whose_next_epoch_was_not_told_may_be_made_again() -> None:
    """The coordinator of version 1 ends nothing again that ended in the epoch before.

    That would fence the producer by its own epoch.
    """

    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.broker.script.append(ErrorCode.INVALID_RECORD)
        await producer.begin_transaction()
        with pytest.raises(KafkaError):
            await (await producer.send("t", b"lost", partition=0)).wait()
        coordinator.script[ApiKey.INIT_PRODUCER_ID].extend(
            [ScriptedBroker.APPEND_AND_DROP] + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 20
        )
        with pytest.raises(KafkaError, match=r"call abort_transaction\(\) again"):
            await producer.abort_transaction(timeout_ms=2_000)
        await producer.abort_transaction()
        await one(producer, b"kept")

    told = tell(story, is_version_2=False)
    assert told.ended == [False, True]
    assert told.broker.logs[0].values == [b"kept"]


@BOTH
def test_a_cancelled_transaction_is_aborted_before_the_next_begins(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        with trio.move_on_after(0.1):
            async with producer.transaction():
                await (await producer.send("t", b"lost", partition=0)).wait()
                await trio.sleep_forever()
        await one(producer, b"kept")

    told = tell(story, is_version_2=is_version_2)
    assert told.ended == [False, True]
    assert told.broker.logs[0].values == [b"lost", b"kept"]


@BOTH
def test_a_commit_that_is_cancelled_while_records_are_delivered_aborts(is_version_2: bool) -> None:
    """Every later transaction was refused then.

    The one before could only be aborted, and the block had been left.
    """

    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.broker.delay_s = 1
        with trio.move_on_after(0.5):
            await one(producer, b"lost")
        coordinator.broker.delay_s = 0
        await one(producer, b"kept")

    assert tell(story, is_version_2=is_version_2).ended == [False, True]


def test_a_producer_that_is_closed_in_a_transaction_aborts_it() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        await producer.begin_transaction()
        await (await producer.send("t", b"a", partition=0)).wait()
        await producer.close()

    assert tell(story).ended == [False]


def test_an_abort_waits_for_no_broker_that_hangs_where_the_epoch_rises() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        await one(producer, b"first")
        coordinator.broker.script.append(ScriptedBroker.DROP)
        coordinator.broker.delay_s = 20
        started = trio.current_time()
        receipts: list[Delivery] = []

        async def failing() -> None:
            async with producer.transaction():
                receipts.append(await producer.send("t", b"hangs", partition=0))
                await trio.sleep(1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        assert trio.current_time() - started < 5
        with pytest.raises(KafkaError, match="aborted"):
            receipts[0].result()
        coordinator.broker.delay_s = 0

    assert tell(story).ended == [True, False]


def test_an_abort_waits_for_a_coordinator_that_hangs_no_longer_than_it_may() -> None:
    """It waited for the response to an announcement, for as long as any request has."""

    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.script[ApiKey.ADD_PARTITIONS_TO_TXN].append(ScriptedBroker.IGNORE)
        await producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await trio.sleep(1)
        started = trio.current_time()
        with pytest.raises(KafkaError, match=r"call abort_transaction\(\) again"):
            await producer.abort_transaction(timeout_ms=2_000)
        assert trio.current_time() - started < 5
        await producer.abort_transaction()
        await one(producer, b"kept")

    assert tell(story, is_version_2=False).committed() == [b"kept"]


@BOTH
def test_partitions_that_may_not_be_written_are_told_and_the_rest_goes_on(
    is_version_2: bool,
) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        script = (
            coordinator.broker.script
            if is_version_2
            else coordinator.script[ApiKey.ADD_PARTITIONS_TO_TXN]
        )
        script.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(TransactionAbortable, match="TOPIC_AUTHORIZATION_FAILED"):
            await one(producer, b"refused")
        await one(producer, b"taken")

    told = tell(story, is_version_2=is_version_2)
    assert told.broker.logs[0].values == [b"taken"]
    assert told.ended[-1]


@BOTH
def test_a_response_that_leaves_a_partition_out_is_no_success(is_version_2: bool) -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.is_leaving_out = True
        with pytest.raises(KafkaError, match="in-0: UNKNOWN_SERVER_ERROR"):
            async with producer.transaction():
                await producer.send_offsets_to_transaction({TopicPartition("in", 0): 1}, GROUP)
        with pytest.raises(ProducerFailed):
            await producer.begin_transaction()

    assert tell(story, is_version_2=is_version_2).ended == []


def test_a_partition_that_is_not_named_is_not_announced() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        coordinator.is_leaving_out = True
        with pytest.raises(ProducerFailed, match="t-0: UNKNOWN_SERVER_ERROR"):
            await one(producer, b"a")

    assert tell(story, is_version_2=False).broker.logs[0].values == []


# Calls at the wrong time, and wrong arguments


def test_calls_out_of_turn_say_which_call_is_missing() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        with pytest.raises(
            KafkaError,
            match=r"begin_transaction\(\) is refused, producer 'id': call init_transactions\(\) first",
        ):
            await producer.begin_transaction()
        with pytest.raises(
            KafkaError, match=r"send\(\) is refused, .*: call init_transactions\(\) first"
        ):
            await producer.send("t", b"a")
        await producer.init_transactions()
        with pytest.raises(KafkaError, match="no transaction is open: use it inside"):
            await producer.send("t", b"a")
        with pytest.raises(KafkaError, match="no transaction is open"):
            producer.send_nowait("t", b"a")
        with pytest.raises(
            KafkaError, match=r"commit_transaction\(\) is refused, .*: no transaction is open"
        ):
            await producer.commit_transaction()
        with pytest.raises(
            KafkaError, match=r"init_transactions\(\) is refused, .*: no transaction"
        ):
            await producer.init_transactions()
        async with producer.transaction():
            with pytest.raises(KafkaError, match="a transaction is open: commit or abort it first"):
                await producer.begin_transaction()
        assert await producer.partitions_for("t") == 2, "questions need no transaction"

    assert tell(story, is_initialized=False).broker.logs[0].values == []


def test_a_mistaken_limit_changes_nothing_of_the_transaction() -> None:
    """A commit with one left the transaction to be committed and nothing else, or to be aborted."""

    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
            for limit, told in (
                ("5", "a number of milliseconds, not '5'"),
                (-1, "is not negative"),
            ):
                mistaken: Any = limit
                for call in (producer.commit_transaction, producer.abort_transaction):
                    with pytest.raises((TypeError, ValueError), match=told):
                        await call(mistaken)
                with pytest.raises((TypeError, ValueError), match=told):
                    await producer.send_offsets_to_transaction(
                        {TopicPartition("in", 0): 1}, GROUP, mistaken
                    )
            await producer.send("t", b"b", partition=0)

    assert tell(story).committed() == [b"a", b"b"]


def test_group_metadata_is_what_a_consumer_says_of_itself() -> None:
    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        wrong: Any = "copy"
        async with producer.transaction():
            with pytest.raises(
                TypeError,
                match=r"group_metadata is what consumer.group_metadata\(\) returns.*not str",
            ):
                await producer.send_offsets_to_transaction({TopicPartition("in", 0): 1}, wrong)
            with pytest.raises(ValueError, match="an offset is not negative"):
                await producer.send_offsets_to_transaction({TopicPartition("in", 0): -1}, GROUP)
            await producer.send_offsets_to_transaction({}, GROUP)
            await producer.send("t", b"a", partition=0)

    assert tell(story).ended == [True], "wrong arguments change nothing"


def test_a_producer_without_an_id_has_no_transactions() -> None:
    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Producer("broker:9092", env=world.client_env()) as producer:
                for call in (
                    producer.init_transactions,
                    producer.begin_transaction,
                    producer.commit_transaction,
                ):
                    with pytest.raises(
                        KafkaError, match="the producer has no transactional_id: give it one"
                    ):
                        await call()
            nursery.cancel_scope.cancel()

    sim_run(1, main)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"transactional_id": ""}, "transactional_id is empty"),
        (
            {"transactional_id": "a", "enable_idempotence": False},
            "transactional_id needs enable_idempotence=True",
        ),
        ({"transactional_id": "a", "acks": "1"}, "enable_idempotence needs acks='all'"),
        ({"transactional_id": 7}, "transactional_id must be text or None"),
        (
            {"transactional_id": "a", "transaction_timeout_ms": 0},
            "transaction_timeout_ms must be a whole number from 1",
        ),
        ({"transaction_id": "a"}, "did you mean transactional_id"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Producer("broker:9092", **settings)


# All of it at once

ACCIDENTS = (
    ScriptedBroker.DROP,
    ScriptedBroker.APPEND_AND_DROP,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
OF_PRODUCE = (
    ScriptedBroker.DROP,
    ScriptedBroker.APPEND_AND_DROP,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.MESSAGE_TOO_LARGE,
)
OF_COORDINATOR = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


@BOTH
@pytest.mark.parametrize("seed", range(12))
def test_what_blocks_committed_is_what_readers_see(seed: int, is_version_2: bool) -> None:
    """Readers see everything once and in order after accidents everywhere.

    Transactions are cancelled, abandoned and done again.
    """
    wanted: list[bytes] = []

    async def story(coordinator: ScriptedCoordinator, producer: Producer) -> None:
        random = Random(seed)

        async def work(values: list[bytes], *, is_failing: bool) -> None:
            async with producer.transaction():
                for value in values:
                    await producer.send("t", value, partition=0)
                    if random.random() < 0.2:
                        await trio.sleep(random.random() / 50)
                await producer.send_offsets_to_transaction(
                    {TopicPartition("in", 0): len(wanted)}, GROUP
                )
                if is_failing:
                    raise ZeroDivisionError

        for number in range(30):
            values = [b"%d-%d" % (number, part) for part in range(random.randrange(1, 12))]
            if random.random() < 0.5:
                coordinator.broker.script.append(random.choice(OF_PRODUCE))
            if random.random() < 0.5:
                coordinator.script[random.choice(OF_COORDINATOR)].append(random.choice(ACCIDENTS))
            with suppress(ZeroDivisionError, TransactionAbortable):
                if random.random() < 0.3:
                    await work(values, is_failing=True)
            is_done = False
            while not is_done:
                with suppress(TransactionAbortable):
                    await work(values, is_failing=False)
                    is_done = True
            wanted.extend(values)

    settings: dict[str, Any] = {
        "batch_size": 40,
        "linger_ms": 2,
        "request_timeout_ms": 2_000,
        "retry_backoff_ms": 10,
    }
    told = tell(story, seed=seed, is_version_2=is_version_2, **settings)
    assert told.committed() == wanted
