"""A producer takes nothing twice and gives nothing up when calls are cancelled.

Several tasks may call it at once.
"""

import trio

from log_service.client.producer.delivery import Delivery
from log_service.client.producer.producer import Producer
from tests.unit.client.producer.producer_story import tell
from tests.unit.client.scripted_broker import ScriptedBroker


def test_a_send_that_is_cancelled_has_not_taken_the_record() -> None:
    """An application sends it again then: it was there twice."""
    values = [b"%d" % index for index in range(100)]
    cancelled: list[bytes] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        for value in values:
            with trio.CancelScope() as scope:
                scope.cancel()
                await producer.send("t", value * 40, partition=0)
            if scope.cancelled_caught:
                cancelled.append(value)
                await producer.send("t", value * 40, partition=0)

    broker = tell(story, batch_size=200, buffer_memory=1_000, linger_ms=0)
    assert broker.logs[0].values == [value * 40 for value in values]
    assert len(cancelled) > 20


def test_of_two_tasks_that_close_a_producer_neither_cuts_the_other_short() -> None:
    """The second close returned at once, and with it the block.

    Records that the first was delivering were never sent, or not heard of.
    """
    receipts: list[Delivery] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 1
        receipts.extend(
            [await producer.send("t", b"%d" % index, partition=0) for index in range(10)]
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.close)
            await trio.sleep(0.1)
            await producer.close()
            assert all(receipt.is_done for receipt in receipts)

    tell(story, batch_size=20)
    assert [receipt.result().offset for receipt in receipts] == list(range(10))


def test_a_close_with_less_patience_gives_up_what_another_one_waits_for() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 100
        receipt = await producer.send("t", b"a", partition=0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.close)
            await trio.sleep(1)
            await producer.close(timeout_ms=1_000)
            assert receipt.is_done

    tell(story)
