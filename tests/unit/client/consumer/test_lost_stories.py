"""A consumer whose group went on without it tells the application of its lost partitions.

It does so once running callbacks have ended.
"""

from collections.abc import Sequence

import pytest
import trio

from log_service.client import Consumer, TopicPartition
from tests.unit.client.leaving_group import LeavingGroup, poll_until_assigned, tell

LOST = [TopicPartition("t", 0)]
MAX_POLL_INTERVAL_MS = 10_000


class Callbacks:
    """The callbacks record their calls. ``on_lost`` takes 2 s to the end."""

    def __init__(self) -> None:
        self.began: list[Sequence[TopicPartition]] = []
        self.ended: list[Sequence[TopicPartition]] = []
        self.revoked: list[Sequence[TopicPartition]] = []

    async def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self.began.append(partitions)
        await trio.sleep(2)
        self.ended.append(partitions)

    async def subscribe_and_lose(self, consumer: Consumer) -> None:
        """Subscribe, get the partition, and poll no more until the member has left."""
        await consumer.subscribe(["t"], on_revoked=self.revoked.append, on_lost=self.lose)
        await poll_until_assigned(consumer)
        await trio.sleep(70)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_callback_of_lost_partitions_that_was_cancelled_is_called_again(protocol: str) -> None:
    """As that of assigned ones is: a cancelled poll loses nothing. The application kept what it had
    of partitions that others read.
    """

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        heard = Callbacks()
        await heard.subscribe_and_lose(consumer)
        with trio.move_on_after(1):
            await consumer.poll(timeout_ms=10_000)
        assert (heard.began, heard.ended) == ([LOST], [])
        await poll_until_assigned(consumer)
        assert (heard.began, heard.ended, heard.revoked) == ([LOST, LOST], [LOST], [])

    tell(story, group_protocol=protocol, max_poll_interval_ms=MAX_POLL_INTERVAL_MS)


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["not told yet", "cancelled"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_that_leaves_tells_what_it_has_lost_as_lost(
    protocol: str, is_cancelled: bool
) -> None:
    """A consumer tells lost partitions as lost, as Kafka's does.

    ``on_revoked`` would commit and flush for partitions that others read already.
    """

    async def story(group: LeavingGroup, consumer: Consumer) -> None:
        heard = Callbacks()
        await heard.subscribe_and_lose(consumer)
        if is_cancelled:
            with trio.move_on_after(1):
                await consumer.poll(timeout_ms=10_000)
        await consumer.unsubscribe()
        assert (heard.ended, heard.revoked) == ([LOST], [])

    tell(story, group_protocol=protocol, max_poll_interval_ms=MAX_POLL_INTERVAL_MS)
