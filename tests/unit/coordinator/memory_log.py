"""A coordinator has a log in memory whose high watermark moves when the test says so.

Tests make its requests by these functions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import trio
import trio.testing

from log_service.common.errors import KafkaError
from log_service.common.timers import TimerQueue
from log_service.config.views import GroupConfig
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.request_context import RequestClient
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from log_service.records.builder import build_batch
from log_service.records.control import EndOfTransaction
from log_service.records.record import NewRecord
from log_service.state_machine.decision import InTransaction

CLIENT = RequestClient(api_version=8, client_id="c", client_host="h")


class StoppedClock:
    def wall_ms(self) -> int:
        return 1_000_000

    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return 0


@dataclass
class MemoryLog:
    """A coordinator's partition whose high watermark moves when the test says so."""

    partition: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    is_high_watermark_held: bool = False
    failure: KafkaError | None = None
    batches: list[bytes] = field(default_factory=list)
    end_offset: int = 0
    watchers: list[Callable[[int], None]] = field(default_factory=list)

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        wall_ms: int,
        transaction: InTransaction | None = None,
    ) -> int:
        new = [NewRecord(key=key, value=value, timestamp=wall_ms) for key, value in records]
        producer: dict[str, Any] = {}
        if transaction is not None:
            producer = {
                "producer_id": transaction.producer_id,
                "producer_epoch": transaction.producer_epoch,
                "is_transactional": True,
            }
        return self._append(
            bytes(build_batch(new, base_offset=self.end_offset, **producer)), len(new)
        )

    def delete_records(self, end_offset: int) -> None:
        raise AssertionError(end_offset)

    def append_marker(self, marker: EndOfTransaction) -> int:
        return self._append(
            bytes(marker.build(timestamp_ms=0, base_offset=self.end_offset, leader_epoch=0)), 1
        )

    def _append(self, batch: bytes, record_count: int) -> int:
        if self.failure is not None:
            raise self.failure
        self.batches.append(batch)
        self.end_offset += record_count
        if not self.is_high_watermark_held:
            self.high_watermark = self.end_offset
        return self.end_offset

    def advance_high_watermark(self) -> None:
        self.high_watermark = self.end_offset
        for watcher in self.watchers:
            watcher(self.high_watermark)

    def watch_high_watermark(self, callback: Callable[[int], None]) -> None:
        self.watchers.append(callback)

    def read_batches(self) -> Iterator[bytes]:
        yield from self.batches


async def run_inline(function: Callable[[], Any]) -> Any:
    await trio.lowlevel.checkpoint()
    return function()


def service() -> GroupService:
    config = GroupConfig(offsets_topic_partitions=1)
    return GroupService(
        clock=StoppedClock(),
        rng=Random(1),
        config=config,
        timers=TimerQueue(),
        run_in_pool=run_inline,
    )


def commit(groups: GroupService, offset: int, replies: list[Any], group_id: str = "g") -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    groups.offset_commit(
        OffsetCommitRequest(group_id=group_id, topics=[topic]), CLIENT, replies.append
    )


def fetch(groups: GroupService, replies: list[Any], *group_ids: str) -> None:
    groups.offset_fetch(
        [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids],
        CLIENT,
        replies.append,
    )


def commit_error(reply: Any) -> int:
    return int(reply.topics[0].partitions[0].error_code)


def with_leader(log: MemoryLog, story: Callable[[GroupService], None]) -> None:
    async def main() -> None:
        groups = service()
        async with trio.open_nursery() as nursery:
            await nursery.start(groups.run)
            groups.lead(log)
            await trio.testing.wait_all_tasks_blocked()
            story(groups)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    trio.run(main)
