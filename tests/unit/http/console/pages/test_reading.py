"""Reading for a page: its bounds, and who else may run meanwhile."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from log_service.client.consumer.records import ConsumerRecord
from log_service.common.types import TopicPartition
from log_service.http.console.pages.records.reading import (
    ENOUGH,
    SEARCH_S,
    Scan,
    TakeRecord,
    keep_latest,
    read_through,
)
from log_service.http.console.pages.records.view import Bounds
from log_service.http.record_formats.decoding import Decoded
from log_service.http.record_formats.records import DecodedRecord

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


@pytest.mark.parametrize(
    ("taken_s", "delivered_s", "most", "reason"),
    [
        (0, 0, 11, ""),
        (0, 0, 3, ENOUGH),
        (0, SEARCH_S, 11, ""),
        (0, SEARCH_S, 3, ENOUGH),
        (SEARCH_S / 4, 0, 10, "the search took longer than 10 s"),
        (SEARCH_S / 4, SEARCH_S, 10, "the search took longer than 10 s"),
    ],
)
def test_a_slow_receiver_takes_nothing_from_the_time_of_a_search(
    taken_s: float, delivered_s: float, most: int, reason: str
) -> None:
    count = 0

    async def take(_record: ConsumerRecord) -> bool:
        nonlocal count
        count += 1
        await trio.sleep(taken_s)
        return count < most

    async def deliver() -> None:
        await trio.sleep(delivered_s)

    async def run() -> str:
        return await read(take, deliver=deliver)

    assert trio.run(run, clock=MockClock(autojump_threshold=0)) == reason


@pytest.mark.parametrize(("is_by_offset", "kept"), [(True, [3, 2]), (False, [1, 2])])
def test_an_old_timestamp_moves_no_record_of_one_partition(
    kept: list[int], *, is_by_offset: bool
) -> None:
    """Between several partitions nothing but time can tell which record is later."""
    null = Decoded(kind="null", value=None)
    times = {1: 9_000, 2: 8_000, 3: 0}
    found = [
        DecodedRecord(record=record(offset)._replace(timestamp_ms=time), key=null, value=null)
        for offset, time in times.items()
    ]
    scan = Scan(is_by_offset=is_by_offset, found=found)
    keep_latest(scan, 2)
    assert [each.record.offset for each in scan.found] == kept
