"""Transactions have the same blocks and ends from threads and from asyncio.

A block may be interrupted or cancelled.
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from log_service.client import (
    AsyncioProducer,
    BlockingProducer,
    KafkaError,
    TransactionAbortable,
    portal,
)
from log_service.common.errors import ErrorCode
from tests.helpers.client_faces import cancel_as_result_comes
from tests.unit.client.asyncio.scripted import beside_broker, scripted_producer
from tests.unit.client.scripted_transactions import ScriptedCoordinator

PATIENCE_S = 20


def asyncio_producer(**settings: Any) -> tuple[ScriptedCoordinator, AsyncioProducer]:
    broker, producer = scripted_producer(transactional_id="id", **settings)
    return ScriptedCoordinator(broker, is_version_2=True), producer


@contextmanager
def blocking_producer(**settings: Any) -> Iterator[tuple[ScriptedCoordinator, BlockingProducer]]:
    broker, unopened = beside_broker(BlockingProducer, transactional_id="id", **settings)
    coordinator = ScriptedCoordinator(broker, is_version_2=True)
    with unopened as producer:
        producer.init_transactions()
        yield coordinator, producer


def test_threads_send_into_one_transaction() -> None:
    with blocking_producer() as (coordinator, producer):

        def work(name: int) -> None:
            for number in range(100):
                producer.send("t", b"%d %d" % (name, number), partition=0)

        with producer.transaction():
            threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
        with pytest.raises(KafkaError, match="no transaction is open"):
            producer.send("t", b"outside")
        with pytest.raises(KafkaError, match="no transaction is open"):
            producer.send_many("t", [b"outside"])
    assert coordinator.ended == [True]
    assert len(coordinator.broker.logs[0].values) == 300


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_leaves_a_block_of_a_thread_aborts_it(error: type[BaseException]) -> None:
    with blocking_producer() as (coordinator, producer):

        def failing() -> None:
            with producer.transaction():
                producer.send("t", b"lost", partition=0).wait()
                raise error

        with pytest.raises(error):
            failing()
        with producer.transaction():
            producer.send("t", b"kept", partition=0)
    assert coordinator.ended == [False, True]


def test_a_block_of_a_thread_that_was_interrupted_as_it_began_is_aborted_before_the_next_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C comes when the transaction is open, and the block has not begun.

    The next block was refused for it.
    """

    class Interrupted(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            super().result(timeout)
            raise KeyboardInterrupt

    with blocking_producer() as (coordinator, producer):
        with monkeypatch.context() as patched:
            patched.setattr(portal, "Future", Interrupted)
            with pytest.raises(KeyboardInterrupt), producer.transaction():
                pytest.fail("the block was not to begin")
        with producer.transaction():
            producer.send("t", b"kept", partition=0)
    assert coordinator.ended == [True]


def test_a_block_of_a_thread_that_cannot_be_committed_is_aborted() -> None:
    with blocking_producer() as (coordinator, producer):
        coordinator.broker.script.append(ErrorCode.MESSAGE_TOO_LARGE)

        def refused() -> None:
            with producer.transaction():
                producer.send("t", b"refused", partition=0)

        with pytest.raises(TransactionAbortable, match="MESSAGE_TOO_LARGE"):
            refused()
        producer.begin_transaction()
        producer.send("t", b"kept", partition=0)
        producer.commit_transaction()
    assert coordinator.ended == [False, True]


def test_a_cancelled_block_on_asyncio_is_aborted_before_the_next_begins() -> None:
    coordinator, unopened = asyncio_producer()

    async def main() -> None:
        async with unopened as producer:
            await producer.init_transactions()

            async def endless() -> None:
                async with producer.transaction():
                    await (await producer.send("t", b"lost", partition=0)).wait()
                    await asyncio.sleep(PATIENCE_S)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(endless(), 0.5)
            async with producer.transaction():
                await producer.send_many("t", [b"kept", b"too"], partition=0)
            with pytest.raises(KafkaError, match="no transaction is open"):
                await producer.send("t", b"outside")

    asyncio.run(main())
    assert coordinator.ended == [False, True]
    assert coordinator.broker.logs[0].values == [b"lost", b"kept", b"too"]


def test_a_block_on_asyncio_that_was_cancelled_as_it_began_is_aborted_before_the_next_begins() -> (
    None
):
    """The transaction is open, the task does not know yet: the loop stands still in between."""
    coordinator, unopened = asyncio_producer()

    async def main() -> None:
        async with unopened as producer:
            await producer.init_transactions()

            async def endless() -> None:
                async with producer.transaction():
                    await asyncio.sleep(PATIENCE_S)

            beginning = asyncio.create_task(endless())
            await cancel_as_result_comes(producer, beginning)
            async with producer.transaction():
                await producer.send("t", b"kept", partition=0)

    asyncio.run(main())
    assert coordinator.ended == [True]


def test_an_exception_in_a_block_on_asyncio_aborts_it() -> None:
    coordinator, unopened = asyncio_producer()

    async def main() -> None:
        async with unopened as producer:
            await producer.init_transactions()

            async def failing() -> None:
                async with producer.transaction():
                    await producer.send("t", b"lost", partition=0)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await failing()
            await producer.begin_transaction()
            await producer.abort_transaction()

    asyncio.run(main())
    assert coordinator.ended == [False]
