"""A story of producers runs on a shard of the transaction coordinator.

The shard has a clock of its own, and the story shows the markers that are due.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.config.views import TransactionConfig
from log_service.coordinator.request_context import RequestContext
from log_service.coordinator.transaction.markers import DueMarkers
from log_service.coordinator.transaction.records import TransactionRecord, decode, encode
from log_service.coordinator.transaction.rules import Producer
from log_service.coordinator.transaction.transaction import Transaction
from log_service.coordinator.transaction.transaction_coordinator import (
    EndedTransaction,
    PartitionsOfTransaction,
    TransactionCoordinatorShard,
    WrittenMarkers,
)
from log_service.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.state_machine.decision import Decision, ReplayContext, SetTimer

TXN = "payments"
TIMEOUT_MS = 60_000
WALL_OFFSET_MS = 1_000_000
ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 2)


@dataclass
class TransactionStory:
    """Drives one shard. Records are encoded, decoded and replayed, as they are on their way through
    a log.
    """

    config: TransactionConfig = field(default_factory=TransactionConfig)
    server_version: int = 2
    now_ms: int = 0

    def __post_init__(self) -> None:
        self._tokens = count(1)
        self._producer_ids = count(1_000)
        self.has_producer_ids = True
        self.replies: dict[Hashable, Any] = {}
        self.timers: dict[Hashable, int] = {}
        self.due: list[DueMarkers] = []
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = self._new_shard()
        self._serve()

    def _new_shard(self) -> TransactionCoordinatorShard:
        return TransactionCoordinatorShard(
            self.config, self._next_producer_id, lambda: self.server_version
        )

    def _next_producer_id(self) -> int | None:
        return next(self._producer_ids) if self.has_producer_ids else None

    def _serve(self) -> None:
        decision = self.decision()
        self.shard.on_loaded(decision)
        assert not decision.records
        self.settle(decision)
        self.advance(0)

    # -- driving

    def decision(self) -> Decision[TransactionRecord]:
        return Decision(self.now_ms, self.now_ms + WALL_OFFSET_MS)

    def settle(self, decision: Decision[TransactionRecord]) -> None:
        for record in decision.records:
            pair = encode(record)
            self.log.append(pair)
            assert _as_stored(decode(*pair)) == _as_stored(record)
            self.shard.replay(record, ReplayContext(len(self.log) - 1))
        for reply in decision.replies:
            assert reply.reply_to not in self.replies, "replied to twice"
            self.replies[reply.reply_to] = reply.response
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = timer.deadline_ms
        for announcement in decision.announcements:
            if isinstance(announcement, DueMarkers):
                self.due.append(announcement)
            else:
                assert isinstance(announcement, EndedTransaction)
                assert not self.shard.transactions[announcement.transactional_id].is_ending

    def ask(self, handler: str, request: object, *, api_version: int = 5) -> Any:
        token = next(self._tokens)
        context = RequestContext(
            api_version=api_version, client_id="client", client_host="127.0.0.1", reply_to=token
        )
        decision = self.decision()
        getattr(self.shard, f"handle_{handler}")(request, context, decision)
        self.settle(decision)
        return self.replies[token]

    def advance(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while due := [
            (deadline, repr(key), key)
            for key, deadline in self.timers.items()
            if deadline <= end_ms
        ]:
            self.now_ms, _, key = min(due)
            del self.timers[key]
            decision = self.decision()
            self.shard.on_timer(key, decision)
            self.settle(decision)
        self.now_ms = end_ms

    def restart(self) -> None:
        """Have another node load what the log holds."""
        self.shard = self._new_shard()
        self.timers.clear()
        self.due.clear()
        for offset, pair in enumerate(self.log):
            record = decode(*pair)
            assert record is not None
            self.shard.replay(record, ReplayContext(offset))
        self._serve()

    # -- what producers ask

    def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        txn: str = TXN,
        timeout_ms: int = TIMEOUT_MS,
    ) -> tuple[int, int, ErrorCode]:
        request = InitProducerIdRequest(
            transactional_id=txn,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        response: InitProducerIdResponse = self.ask("init_producer_id", request)
        return response.producer_id, response.producer_epoch, ErrorCode.of(response.error_code)

    def add(
        self,
        producer_id: int,
        epoch: int,
        *partitions: TopicPartition,
        txn: str = TXN,
        client_version: int = 2,
    ) -> ErrorCode:
        asked = _partitions(txn, producer_id, epoch, partitions, client_version)
        code: ErrorCode = self.ask("add_partitions", asked)
        return code

    def verify(
        self, producer_id: int, epoch: int, *partitions: TopicPartition, txn: str = TXN
    ) -> Any:
        return self.ask("verify_partitions", _partitions(txn, producer_id, epoch, partitions, 0))

    def end(
        self, producer_id: int, epoch: int, *, is_commit: bool, version: int = 5, txn: str = TXN
    ) -> tuple[int, int, ErrorCode]:
        request = EndTxnRequest(
            transactional_id=txn, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
        )
        response: EndTxnResponse = self.ask("end_txn", request, api_version=version)
        return response.producer_id, response.producer_epoch, ErrorCode.of(response.error_code)

    def write(self, due: DueMarkers, *partitions: TopicPartition) -> None:
        """Have partitions, all by default, acknowledge their marker."""
        decision = self.decision()
        producer = Producer(producer_id=due.producer_id, producer_epoch=due.producer_epoch)
        written = WrittenMarkers(
            transactional_id=due.transactional_id,
            producer=producer,
            partitions=partitions or due.partitions,
        )
        self.shard.handle_written_markers(written, decision)
        assert not decision.records
        self.settle(decision)
        self.advance(0)

    def write_all(self) -> None:
        while self.due:
            self.write(self.due.pop(0))

    # -- what there is

    def transaction(self, txn: str = TXN) -> Transaction:
        return self.shard.transactions[txn]

    def stands(self, txn: str = TXN) -> tuple[str, int, int]:
        """Return state, producer id and epoch."""
        found = self.transaction(txn)
        return found.state.label, found.producer_id, found.producer_epoch


def _partitions(
    txn: str,
    producer_id: int,
    epoch: int,
    partitions: tuple[TopicPartition, ...],
    client_version: int,
) -> PartitionsOfTransaction:
    producer = Producer(producer_id=producer_id, producer_epoch=epoch)
    return PartitionsOfTransaction(
        transactional_id=txn,
        producer=producer,
        partitions=partitions,
        client_version=client_version,
    )


def _as_stored(record: TransactionRecord | None) -> object:
    """Return what of a record is stored: all but the last epoch, and less of it in the classic
    version.
    """
    assert record is not None
    found = record.transaction
    if found is None:
        return record.transactional_id
    times = (found.timeout_ms, found.start_ms, found.last_update_ms)
    common = (found.state, found.producer_id, found.producer_epoch, found.partitions, times)
    rest = (found.previous_producer_id, found.next_producer_id, found.client_version)
    return (
        record.transactional_id,
        record.value_version,
        common,
        rest if record.value_version else (),
    )
