"""The transaction APIs of a node stand over a log in memory.

A test asks as a client, and moves clock and timers.
"""

from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from log_service.common.timers import TimerQueue
from log_service.common.types import TopicPartition
from log_service.config.views import TransactionConfig
from log_service.coordinator.request_context import RequestClient
from log_service.coordinator.transaction.markers import DueMarkers, Owner, SentMarkers
from log_service.coordinator.transaction_service import TransactionService
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from log_service.protocol.messages.describe_transactions import DescribeTransactionsRequest
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.unit.coordinator.memory_log import MemoryLog, run_inline

TXN = "payments"
ORDERS, OFFSETS = TopicPartition("orders", 0), TopicPartition("__consumer_offsets", 4)


class Clock:
    now_ms = 0

    def wall_ms(self) -> int:
        return 1_000_000 + self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


class Stage:
    """A service that leads one partition, and what it sends."""

    def __init__(self, config: TransactionConfig) -> None:
        self.clock, self.timers = Clock(), TimerQueue()
        self.log = MemoryLog(leader_epoch=6)
        self.due: list[tuple[Owner, DueMarkers]] = []
        self.dropped: list[int] = []
        self.wait_count = 0
        self.hurried: list[DueMarkers] = []
        self.service = TransactionService(
            clock=self.clock,
            config=config,
            timers=self.timers,
            run_in_pool=run_inline,
            next_producer_id=iter(range(100, 200)).__next__,
            server_version=lambda: 2,
            partition_count=lambda: 1,
            on_due=lambda owner, due: self.due.append((owner, due)),
            on_dropped=self.dropped.append,
            on_wait=self._count_wait,
        )

    def _count_wait(self) -> None:
        self.wait_count += 1
        self.hurried.extend(due for _, due in self.due if due not in self.hurried)

    def ask(self, method: Callable[..., None], *arguments: Any, version: int = 5) -> list[Any]:
        replies: list[Any] = []
        method(
            *arguments,
            RequestClient(api_version=version, client_id="c", client_host="h"),
            replies.append,
        )
        return replies

    def init(self, *, version: int = 5, timeout_ms: int = 60_000, **fields: Any) -> list[Any]:
        request = InitProducerIdRequest(
            transactional_id=fields.pop("txn", TXN), transaction_timeout_ms=timeout_ms, **fields
        )
        return self.ask(self.service.init_producer_id, request, version=version)

    def end(
        self,
        producer: Any,
        *,
        version: int = 5,
        epoch: int | None = None,
        txn: str = TXN,
        is_commit: bool = True,
    ) -> list[Any]:
        request = EndTxnRequest(
            transactional_id=txn,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch if epoch is None else epoch,
            committed=is_commit,
        )
        return self.ask(self.service.end_txn, request, version=version)

    def add(
        self,
        producer: Any,
        *,
        version: int = 5,
        verify_only: bool = False,
        epoch: int | None = None,
        txn: str = TXN,
    ) -> list[Any]:
        topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
        asked_epoch = producer.producer_epoch if epoch is None else epoch
        one = AddPartitionsToTxnTransaction(
            transactional_id=txn,
            producer_id=producer.producer_id,
            producer_epoch=asked_epoch,
            verify_only=verify_only,
            topics=topics,
        )
        request = AddPartitionsToTxnRequest(
            transactions=[one],
            v3_and_below_transactional_id=txn,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=asked_epoch,
            v3_and_below_topics=topics,
        )
        replies: list[Any] = []
        self.service.add_partitions(request, version, replies.append)
        return replies

    def write_all(self) -> None:
        while self.due:
            owner, due = self.due.pop(0)
            self.service.markers_written(SentMarkers(owner, due, due.partitions))

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.timers.fire_due(self.clock.now_ms)

    def state(self) -> str:
        replies: list[Any] = []
        self.service.describe(DescribeTransactionsRequest(transactional_ids=[TXN]), replies.append)
        return str(replies[0].transaction_states[0].transaction_state)


def play(story: Callable[[Stage], None], config: TransactionConfig | None = None) -> None:
    async def main() -> None:
        stage = Stage(config or TransactionConfig())
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.service.run)
            stage.service.lead(stage.log)
            await trio.testing.wait_all_tasks_blocked()
            story(stage)
            nursery.cancel_scope.cancel()

    trio.run(main)


def code_of(added: Any) -> int:
    (topic,) = added.results_by_topic_v3_and_below or added.results_by_transaction[0].topic_results
    return int(topic.results_by_partition[0].partition_error_code)
