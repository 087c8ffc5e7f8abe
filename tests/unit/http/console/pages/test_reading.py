"""Reading for a page: its bounds, and who else may run meanwhile."""

from typing import Any

import trio

from log_service.client.consumer.records import ConsumerRecord
from log_service.common.types import TopicPartition
from log_service.http.console.pages.records.reading import TakeRecord, read_through
from log_service.http.console.pages.records.view import Bounds

WHERE = TopicPartition("t", 0)


def record(offset: int, value: bytes = b"1") -> ConsumerRecord:
    return ConsumerRecord("t", 0, offset, 0, "CreateTime", None, value, (), 0)


class LogOfRecords:
    """A consumer of one partition whose polls never wait."""

    def __init__(self, count: int) -> None:
        self._records = [record(offset) for offset in range(count)]
        self._position = 0

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [WHERE]

    async def seek(self, _where: TopicPartition, offset: int) -> None:
        self._position = offset

    async def poll(self, most: int, *, timeout_ms: int) -> list[ConsumerRecord]:
        assert timeout_ms
        found = self._records[self._position : self._position + most]
        self._position += len(found)
        return found

    async def position(self, _where: TopicPartition) -> int:
        return self._position

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Nothing more is polled."""


async def read(take: TakeRecord, count: int = 10, **others: Any) -> str:
    bounds = Bounds(starts={WHERE: 0}, ends={WHERE: count})
    consumer: Any = LogOfRecords(count)
    return await read_through(consumer, bounds, take, **others)


def test_others_run_between_two_records() -> None:
    """One poll returns 100 records, and each of them may take a while."""
    others: list[int] = []

    async def tick() -> None:
        while True:
            others.append(0)
            await trio.lowlevel.checkpoint()

    async def take(_record: ConsumerRecord) -> bool:
        seen.append(len(others))
        return True

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            assert not await read(take)
            nursery.cancel_scope.cancel()

    seen: list[int] = []
    trio.run(run)
    assert seen[-1] - seen[0] > 5
