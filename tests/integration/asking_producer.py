"""A transactional producer asks its coordinator as a test says, and notes each response.

It is the same at tidelog and at Apache Kafka.

Producer ids differ by nature: what is noted is whether an id is the one that the producer had
before.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from log_service.protocol.messages.describe_transactions import DescribeTransactionsRequest
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.integration.differential import Cluster

TOPIC, TIMEOUT_MS, READY_SECONDS = "of-transactions", 60_000, 20.0
AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


@dataclass
class Producer:
    """A producer at one side. It knows the id and the epoch that it was last given."""

    cluster: Cluster
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1
    told: list[Any] = field(default_factory=list)

    def tell(self, what: str, *values: Any) -> None:
        self.told.append(
            [
                what,
                *[
                    int(value) if isinstance(value, int) and not isinstance(value, bool) else value
                    for value in values
                ],
            ]
        )

    def ask(self, request: Any, version: int) -> Any:
        """Ask until the coordinator is there and has producer ids at hand.

        One of them takes longer for that than the other.
        """
        deadline = time.monotonic() + READY_SECONDS
        while (response := self.cluster.ask(request, version)).error_code in AGAIN:
            assert time.monotonic() < deadline, response
            time.sleep(0.05)
        return response

    def init(
        self,
        epoch: int | None = None,
        producer_id: int | None = None,
        *,
        version: int = 5,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Any:
        """Ask as a new producer, or as one of an epoch, of the id that it has or of another one."""
        claims = (
            {}
            if epoch is None
            else {
                "producer_epoch": epoch,
                "producer_id": self.producer_id if producer_id is None else producer_id,
            }
        )
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **claims
        )
        response = self.ask(request, version)
        is_same = response.producer_id == self.producer_id
        self.tell(
            "init", response.error_code, response.producer_epoch, is_same, response.producer_id < 0
        )
        if not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return response

    def add(
        self,
        *partitions: int,
        version: int = 3,
        epoch: int | None = None,
        producer_id: int | None = None,
    ) -> None:
        """Add partitions as a client does, up to version 3."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id if producer_id is None else producer_id,
            v3_and_below_producer_epoch=self.epoch if epoch is None else epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
        )
        self._tell_codes("add", self.cluster.ask(request, version).results_by_topic_v3_and_below)

    def add_as_broker(
        self,
        *partitions: int,
        verify_only: bool = False,
        version: int = 5,
        epoch: int | None = None,
    ) -> None:
        """Add or verify partitions as the leader of a partition does."""
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
        )
        response = self.cluster.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        self.tell("response", response.error_code)
        for result in response.results_by_transaction:
            self._tell_codes("verify" if verify_only else "add", result.topic_results)

    def _tell_codes(self, what: str, topics: Any) -> None:
        codes = [
            [topic.name, each.partition_index, each.partition_error_code]
            for topic in topics
            for each in topic.results_by_partition
        ]
        self.tell(what, *sorted(codes))

    def add_offsets(self, version: int = 4, epoch: int | None = None) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            group_id="readers",
        )
        self.tell("offsets", self.cluster.ask(request, version).error_code)

    def end(
        self,
        *,
        is_commit: bool,
        version: int = 5,
        epoch: int | None = None,
        producer_id: int | None = None,
    ) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=is_commit,
        )
        response = self.ask(request, version)
        is_same = response.producer_id == self.producer_id
        self.tell(
            "end", response.error_code, response.producer_epoch, is_same, response.producer_id < 0
        )
        if not response.error_code and response.producer_id >= 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return int(response.error_code)

    def settle(self) -> None:
        """Wait until no marker is owed."""
        deadline = time.monotonic() + READY_SECONDS
        while (state := self.described().transaction_state).startswith("Prepare"):
            assert time.monotonic() < deadline, state
            time.sleep(0.02)

    def described(self) -> Any:
        return self.cluster.ask(
            DescribeTransactionsRequest(transactional_ids=[self.transactional_id]), 0
        ).transaction_states[0]

    def describe(self) -> None:
        self.settle()
        told = self.described()
        topics = sorted(
            [topic.topic, sorted(topic.partitions)]
            for topic in told.topics
            if not topic.topic.startswith("__")
        )
        internal = [topic.topic for topic in told.topics if topic.topic.startswith("__")]
        self.tell(
            "describe",
            told.error_code,
            told.transaction_state,
            told.transaction_timeout_ms,
            told.transaction_start_time_ms > 0,
        )
        self.tell(
            "partitions",
            topics,
            internal,
            told.producer_epoch,
            told.producer_id == self.producer_id,
        )
